"""Gradients of `ac.ops`, one by one, against finite differences in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import pytest

import ansorc as ac
from ansorc.lang.tensor import Tensor
from tests.lang.gradient.finite_differences import check_gradient

Definition = (
    Callable[[Tensor], Tensor]
    | Callable[[Tensor, Tensor], Tensor]
    | Callable[[Tensor, Tensor, Tensor], Tensor]
    | Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
)

CASES: dict[str, tuple[Definition, Sequence[tuple[int, ...]]]] = {
    "matmul": (ac.ops.matmul, [(3, 4), (4, 5)]),
    "matmul, broadcast": (ac.ops.matmul, [(2, 1, 3, 4), (3, 4, 2)]),
    "batch_matmul": (ac.ops.batch_matmul, [(2, 3, 4), (2, 4, 3)]),
    "dense": (ac.ops.dense, [(3, 4), (5, 4)]),
    "conv1d": (lambda x, w: ac.ops.conv1d(x, w, stride=2, padding=2), [(2, 9, 3), (4, 3, 2)]),
    "conv1d, stride 3": (lambda x, w: ac.ops.conv1d(x, w, stride=3), [(2, 11, 2), (5, 2, 2)]),
    "conv1d, gaps": (lambda x, w: ac.ops.conv1d(x, w, stride=3), [(2, 11, 2), (2, 2, 2)]),
    "conv1d, dilated": (
        lambda x, w: ac.ops.conv1d(x, w, stride=2, dilation=3, padding=1), [(1, 12, 2), (3, 2, 2)]
    ),
    "conv1d, dilated alike": (
        lambda x, w: ac.ops.conv1d(x, w, stride=2, dilation=2), [(1, 12, 2), (3, 2, 2)]
    ),
    "conv2d": (lambda x, w: ac.ops.conv2d(x, w, padding=1), [(1, 5, 4, 2), (3, 3, 2, 3)]),
    "conv2d, strided": (
        lambda x, w: ac.ops.conv2d(x, w, stride=2, padding=1), [(2, 6, 5, 2), (3, 3, 2, 2)]
    ),
    "conv2d, groups": (
        lambda x, w: ac.ops.conv2d(x, w, groups=2, layout="NCHW"), [(1, 4, 5, 4), (4, 2, 3, 2)]
    ),
    "conv3d": (ac.ops.conv3d, [(1, 3, 4, 3, 2), (2, 2, 2, 2, 2)]),
    "depthwise_conv2d": (
        lambda x, w: ac.ops.depthwise_conv2d(x, w, stride=2, padding=1), [(1, 5, 6, 3), (3, 3, 3)]
    ),
    "conv2d_transpose": (
        lambda x, w: ac.ops.conv2d_transpose(x, w, stride=2, padding=1),
        [(1, 3, 4, 2), (3, 3, 2, 2)],
    ),
    "conv2d_winograd": (ac.ops.conv2d_winograd, [(1, 6, 6, 2), (4, 4, 2, 2)]),
    "capsule_conv2d": (ac.ops.capsule_conv2d, [(1, 4, 4, 2, 2, 2), (2, 2, 2, 2, 2, 2)]),
    "attention": (ac.ops.attention, [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 3)]),
    "attention, causal": (
        lambda q, k, v: ac.ops.attention(q, k, v, causal=True),
        [(1, 2, 4, 3), (1, 2, 4, 3), (1, 2, 4, 3)],
    ),
    "attention_scores": (ac.ops.attention_scores, [(1, 3, 2, 4), (1, 5, 2, 4)]),
    "max_pool2d": (
        lambda x: ac.ops.max_pool2d(x, 3, stride=2, padding=1), [(1, 6, 7, 2)]
    ),
    "avg_pool2d": (
        lambda x: ac.ops.avg_pool2d(x, 3, stride=2, padding=1), [(1, 6, 7, 2)]
    ),
    "avg_pool1d": (lambda x: ac.ops.avg_pool1d(x, 2), [(2, 6, 2)]),
    "global_avg_pool": (ac.ops.global_avg_pool, [(2, 3, 4, 2)]),
    "global_max_pool": (ac.ops.global_max_pool, [(2, 3, 4, 2)]),
    "sum": (lambda x: ac.ops.sum(x, 1), [(3, 4, 2)]),
    "mean": (lambda x: ac.ops.mean(x, (0, 2)), [(3, 4, 2)]),
    "max": (lambda x: ac.ops.max(x, 1), [(3, 4, 2)]),
    "min": (lambda x: ac.ops.min(x, None), [(3, 4)]),
    "prod": (lambda x: ac.ops.prod(x, 1), [(3, 4)]),
    "softmax": (ac.ops.softmax, [(3, 5)]),
    "softmax, axis 0": (lambda x: ac.ops.softmax(x, 0), [(3, 5)]),
    "log_softmax": (ac.ops.log_softmax, [(3, 5)]),
    "layer_norm": (ac.ops.layer_norm, [(3, 5), (5,), (5,)]),
    "rms_norm": (ac.ops.rms_norm, [(3, 5), (5,)]),
    "group_norm": (
        lambda x, a, b: ac.ops.group_norm(x, a, b, groups=2), [(2, 3, 2, 4), (4,), (4,)]
    ),
    "instance_norm": (ac.ops.instance_norm, [(2, 3, 2, 4), (4,), (4,)]),
    "norm2": (ac.ops.norm2, [(2, 3, 4)]),
    "l2_normalize": (ac.ops.l2_normalize, [(3, 5)]),
    "batch_norm_inference": (
        ac.ops.batch_norm_inference,
        [(2, 3, 4), (4,), (4,), (4,), (4,)],
    ),
    "relu": (ac.ops.relu, [(3, 4)]),
    "relu6": (ac.ops.relu6, [(3, 4)]),
    "leaky_relu": (ac.ops.leaky_relu, [(3, 4)]),
    "prelu": (ac.ops.prelu, [(3, 4), (4,)]),
    "elu": (ac.ops.elu, [(3, 4)]),
    "selu": (ac.ops.selu, [(3, 4)]),
    "silu": (ac.ops.silu, [(3, 4)]),
    "sigmoid": (ac.ops.sigmoid, [(3, 4)]),
    "hard_sigmoid": (ac.ops.hard_sigmoid, [(3, 4)]),
    "hard_swish": (ac.ops.hard_swish, [(3, 4)]),
    "softplus": (ac.ops.softplus, [(3, 4)]),
    "softsign": (ac.ops.softsign, [(3, 4)]),
    "mish": (ac.ops.mish, [(3, 4)]),
    "tanh": (ac.ops.tanh, [(3, 4)]),
    "gelu": (ac.ops.gelu, [(3, 4)]),
    "add": (ac.ops.add, [(3, 4), (4,)]),
    "subtract": (ac.ops.subtract, [(3, 1), (3, 4)]),
    "multiply": (ac.ops.multiply, [(2, 1, 4), (3, 1)]),
    "divide": (ac.ops.divide, [(3, 4), (4,)]),
    "maximum": (ac.ops.maximum, [(3, 4), (4,)]),
    "minimum": (ac.ops.minimum, [(3, 4), (3, 4)]),
    "power": (ac.ops.power, [(3, 4), (4,)]),
    "clip": (lambda x: ac.ops.clip(x, 0.3, 0.7), [(3, 4)]),
    "bias_add": (ac.ops.bias_add, [(3, 4), (4,)]),
    "transpose": (lambda x: ac.ops.transpose(x, (2, 0, 1)), [(2, 3, 4)]),
    "reshape": (lambda x: ac.ops.reshape(x, (4, 3, 2)), [(2, 3, 4)]),
    "flatten": (ac.ops.flatten, [(2, 3, 4)]),
    "broadcast_to": (lambda x: ac.ops.broadcast_to(x, (2, 3, 4)), [(3, 1)]),
    "tile": (lambda x: ac.ops.tile(x, (2, 3)), [(3, 2)]),
    "flip": (lambda x: ac.ops.flip(x, 1), [(3, 4)]),
    "slice": (lambda x: ac.ops.slice(x, (1, 0), (7, 4), (3, 2)), [(7, 5)]),
    "concat": (lambda a, b: ac.ops.concat([a, b], 1), [(2, 3), (2, 4)]),
    "stack": (lambda a, b: ac.ops.stack([a, b], 1), [(2, 3), (2, 3)]),
    "pad": (lambda x: ac.ops.pad(x, (1, 0), (2, 3)), [(3, 4)]),
    "edge_pad": (lambda x: ac.ops.edge_pad(x, (1, 2), (2, 3)), [(3, 4)]),
    "reflect_pad": (lambda x: ac.ops.reflect_pad(x, (1, 2), (2, 3)), [(3, 4)]),
    "resize2d_nearest": (lambda x: ac.ops.resize2d_nearest(x, (6, 5)), [(1, 3, 4, 2)]),
    "resize2d_bilinear": (lambda x: ac.ops.resize2d_bilinear(x, (6, 5)), [(1, 3, 4, 2)]),
    "sort": (ac.ops.sort, [(3, 5)]),
}  # fmt: skip
"""The operator, and the shapes of its arguments, which are drawn from 0.1 to 1.1."""


@pytest.mark.parametrize("case", CASES)
def test_operator(case: str) -> None:
    define, shapes = CASES[case]
    inputs = [ac.placeholder(shape, f"x{n}", "float64") for n, shape in enumerate(shapes)]
    rng = np.random.default_rng(3)
    arrays = [rng.uniform(0.1, 1.1, shape) for shape in shapes]
    if case.endswith("elu") or case in ("relu", "abs"):
        arrays[0] -= 0.6
    loss = cast("Callable[..., Tensor]", define)(*inputs)
    check_gradient(loss, inputs, arrays, rng=rng)
