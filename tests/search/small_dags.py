"""Small computations with every operator, awkward extents included, and checks of programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

import ansorc.lang as ac
from ansorc.ir.interpret import interpret
from ansorc.ir.verify import verify
from ansorc.lang import operators as ops
from ansorc.lang.reference import evaluate
from ansorc.schedule import Step, lower, packings, replay
from ansorc.search.space import Space, design_space
from ansorc.target import Target
from tests.support.assumed import machine

ZEN3 = Target.parse("x86_64-linux-gnu -mcpu=znver3 -cores=2")
"""For what is expected in numbers."""
TARGET = machine(ZEN3.text)


def given(*shapes: tuple[int, ...], constant: bool = False) -> list[ac.Tensor]:
    """Inputs of these shapes; with `constant` all but the first are weights."""
    return [
        ac.placeholder(shape, f"in{place}", constant=constant and place > 0)
        for place, shape in enumerate(shapes)
    ]


def dag(
    shapes: Sequence[tuple[int, ...]],
    build: Callable[[list[ac.Tensor]], ac.Tensor],
    *,
    constant: bool = False,
) -> ac.ComputeDAG:
    inputs = given(*shapes, constant=constant)
    return ac.ComputeDAG([*inputs, build(inputs)])


def matmul(n: int, m: int, k: int, *, constant: bool = False) -> ac.ComputeDAG:
    return dag([(n, k), (k, m)], lambda t: ops.matmul(t[0], t[1], name="C"), constant=constant)


def two_matmuls(n: int) -> ac.ComputeDAG:
    return dag([(n, n)] * 3, lambda t: ops.matmul(ops.matmul(t[0], t[1], name="C"), t[2], name="E"))


def conv_layer(
    size: int, ci: int, co: int, layout: str = "NHWC", *, constant: bool = False
) -> ac.ComputeDAG:
    data = (1, size, size, ci) if layout == "NHWC" else (1, ci, size, size)
    weight = (3, 3, ci, co) if layout == "NHWC" else (co, ci, 3, 3)
    axis = layout.index("C")

    def build(inputs: list[ac.Tensor]) -> ac.Tensor:
        x, w, scale, shift = inputs
        conv = ops.conv2d(x, w, padding=1, stride=2, layout=layout, name="conv")
        return ops.relu(ops.batch_norm(conv, scale, shift, axis, name="bn"), name="relu")

    return dag([data, weight, (co,), (co,)], build, constant=constant)


def softmax(n: int, m: int) -> ac.ComputeDAG:
    return dag([(n, m)], lambda t: ops.softmax(t[0], name="soft"))


def max_pool(size: int, channels: int) -> ac.ComputeDAG:
    return dag(
        [(1, size, size, channels)], lambda t: ops.max_pool2d(t[0], 2, stride=2, name="pool")
    )


def total(x: ac.Tensor) -> ac.Tensor:
    k = ac.reduce_axis(x.shape[0], "k")
    return ac.compute((), lambda: ac.sum(x[k], axis=k), "total")


def extreme(x: ac.Tensor, axis: int) -> ac.Tensor:
    """Where the largest element is along an axis of a matrix, as a float."""
    k = ac.reduce_axis(x.shape[axis], "k")
    _, place = ac.compute_tuple(
        x.shape[1 - axis],
        lambda i: ac.argmax(x[i, k] if axis else x[k, i], axis=k),
        "best",
    )
    return ac.compute(x.shape[1 - axis], lambda i: ac.cast(place[i], "float32"), "found")


DAGS: dict[str, ac.ComputeDAG] = {
    "matmul": matmul(8, 24, 6),
    "matmul_odd": matmul(7, 13, 5),
    "matmul_of_weights": matmul(8, 24, 6, constant=True),
    "matvec": matmul(12, 1, 8),
    "vecmat": matmul(1, 12, 8),
    "two_matmuls": two_matmuls(6),
    "batch_matmul": dag([(2, 4, 6), (2, 6, 9)], lambda t: ops.batch_matmul(t[0], t[1])),
    "dense_gelu": dag(
        [(4, 6), (9, 6), (9,)], lambda t: ops.gelu(ops.bias_add(ops.dense(t[0], t[1]), t[2]))
    ),
    "conv_layer": conv_layer(6, 3, 8),
    "conv_layer_nchw": conv_layer(6, 2, 4, "NCHW"),
    "conv_layer_of_weights": conv_layer(6, 3, 8, constant=True),
    "conv_layer_nchw_of_weights": conv_layer(6, 2, 4, "NCHW", constant=True),
    "conv_groups": dag(
        [(1, 4, 4, 4), (2, 2, 2, 6)], lambda t: ops.conv2d(t[0], t[1], groups=2, dilation=2)
    ),
    "conv1d": dag([(1, 9, 3), (3, 3, 8)], lambda t: ops.conv1d(t[0], t[1], padding=1)),
    "conv3d": dag([(1, 3, 3, 3, 2), (2, 2, 2, 2, 4)], lambda t: ops.conv3d(t[0], t[1], padding=1)),
    "depthwise": dag(
        [(1, 5, 5, 6), (3, 3, 6)], lambda t: ops.depthwise_conv2d(t[0], t[1], padding=1)
    ),
    "transposed": dag(
        [(1, 3, 3, 2), (4, 4, 2, 4)],
        lambda t: ops.conv2d_transpose(t[0], t[1], stride=2, padding=1),
    ),
    "transposed_of_weights": dag(
        [(1, 3, 3, 2), (4, 4, 2, 4)],
        lambda t: ops.conv2d_transpose(t[0], t[1], stride=2, padding=1),
        constant=True,
    ),
    "few_channels": dag(
        [(1, 4, 4, 11), (2, 2, 11, 3)], lambda t: ops.conv2d(t[0], t[1], padding=1)
    ),
    "few_channels_of_weights": dag(
        [(1, 3, 3, 8), (4, 4, 8, 3)],
        lambda t: ops.conv2d_transpose(t[0], t[1], stride=2, padding=1),
        constant=True,
    ),
    "capsule": dag(
        [(1, 3, 3, 2, 2, 2), (2, 2, 2, 2, 2, 4)], lambda t: ops.capsule_conv2d(t[0], t[1])
    ),
    "softmax": softmax(5, 16),
    "softmax_columns": dag([(6, 10)], lambda t: ops.softmax(t[0], axis=0)),
    "layer_norm": dag([(4, 10), (10,), (10,)], lambda t: ops.layer_norm(t[0], t[1], t[2])),
    "norm2": dag([(3, 4, 5)], lambda t: ops.norm2(t[0])),
    "attention": dag([(1, 4, 2, 3), (1, 4, 2, 3)], lambda t: ops.attention_scores(t[0], t[1])),
    "max_pool": max_pool(6, 8),
    "avg_pool": dag([(1, 4, 4, 8)], lambda t: ops.avg_pool2d(t[0], 3, padding=1)),
    "global_pool": dag([(2, 3, 3, 8)], lambda t: ops.global_avg_pool(t[0])),
    "transpose": dag([(6, 20)], lambda t: ops.transpose(t[0], (1, 0))),
    "elementwise": dag([(40,), (40,)], lambda t: ops.sigmoid(ops.add(t[0], t[1]))),
    "outer": dag([(6, 1), (1, 16)], lambda t: ops.multiply(t[0], t[1])),
    "argmax_rows": dag([(9, 21)], lambda t: extreme(t[0], 1)),
    "argmax_columns": dag([(9, 21)], lambda t: extreme(t[0], 0)),
    "scalar": dag([(30,)], lambda t: total(t[0])),
    "long_rows": dag([(3, 1, 1501)], lambda t: ops.norm2(t[0])),
    "long_matmul": matmul(2, 2, 1031),
}


@cache
def space_of(name: str) -> Space:
    """Return the space of one of `DAGS`, made when the first test of the process asks for it."""
    return design_space(DAGS[name], TARGET)


def check_meaning(computation: ac.ComputeDAG, steps: tuple[Step, ...]) -> None:
    """Lower, verify and run the program; its results must be those of the definition."""
    state = replay(computation, steps)
    function = lower(state)
    verify(function)
    rng = np.random.default_rng(7)
    inputs = [rng.normal(size=b.shape).astype(np.float32) for b in computation.inputs]
    wanted = evaluate(computation, inputs)
    made = {b.name: np.full(b.shape, np.nan, np.float32) for b in computation.outputs}
    arrays = {b.name: a for b, a in zip(computation.inputs, inputs, strict=True)} | made
    for packing in packings(state):
        weight = packing.apply(arrays[packing.source.name])
        arrays[packing.source.name] = weight.astype(np.float32, copy=False)
    interpret(function, [arrays[b.name] for b in computation.params], fresh_outputs=True)
    for buffer, result in zip(computation.outputs, wanted, strict=True):
        np.testing.assert_allclose(arrays[buffer.name], result, rtol=1e-4, atol=1e-4)
