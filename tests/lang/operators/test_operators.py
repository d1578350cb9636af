"""Each operator against plain NumPy, and the stages it is made of."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ansorc.lang as ac
from ansorc.lang import operators as ops
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.reference import evaluate
from ansorc.lang.tensor import Tensor

Array = NDArray[Any]
Build = (
    Callable[[Tensor], Tensor]
    | Callable[[Tensor, Tensor], Tensor]
    | Callable[[Tensor, Tensor, Tensor], Tensor]
)
Numpy = (
    Callable[[Array], Array]
    | Callable[[Array, Array], Array]
    | Callable[[Array, Array, Array], Array]
)


def run(function: Build, *shapes: Sequence[int]) -> tuple[Array, list[Array], list[str]]:
    """Return the result of an operator on random inputs of `shapes`, the inputs, the stages."""
    build: Callable[..., Tensor] = function
    rng = np.random.default_rng(len(shapes))
    inputs = [ac.placeholder(shape, f"x{place}") for place, shape in enumerate(shapes)]
    dag = ComputeDAG([*inputs, build(*inputs)])
    arrays = [rng.uniform(-1, 1, shape) for shape in shapes]
    return evaluate(dag, arrays)[0], arrays, [op.name for op in dag.ops]


def convolved(x: Array, w: Array, stride: int, dilation: int, groups: int) -> Array:
    """The convolution of a padded channels-last x over any number of spatial dimensions."""
    rank, per_group = x.ndim - 2, w.shape[-1] // groups
    shape = [(x.shape[d + 1] - (w.shape[d] - 1) * dilation - 1) // stride + 1 for d in range(rank)]
    out = np.zeros((x.shape[0], *shape, w.shape[-1]))
    for place in itertools.product(*(range(extent) for extent in shape)):
        for offset in itertools.product(*(range(extent) for extent in w.shape[:rank])):
            at = tuple(p * stride + o * dilation for p, o in zip(place, offset, strict=True))
            row, matrix = x[(slice(None), *at)], w[offset]
            for g in range(groups):
                mine = slice(g * matrix.shape[0], (g + 1) * matrix.shape[0])
                columns = slice(g * per_group, (g + 1) * per_group)
                out[(slice(None), *place, columns)] += row[:, mine] @ matrix[:, columns]
    return out


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"),
    [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 1), (3, 1, 1, 2), (2, 2, 2, 4)],
)
def test_convolutions(rank: int, stride: int, padding: int, dilation: int, groups: int) -> None:
    build = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}[rank]
    x_shape, w_shape = (2, *(7, 6, 5)[:rank], 4), (*(3, 2, 3)[:rank], 4 // groups, 8)
    found, (x, w), stages = run(
        lambda x, w: build(
            x, w, stride=stride, padding=padding, dilation=dilation, groups=groups, name="c"
        ),
        x_shape, w_shape,
    )  # fmt: skip
    margins = [(0, 0), *[(padding, padding)] * rank, (0, 0)]
    np.testing.assert_allclose(found, convolved(np.pad(x, margins), w, stride, dilation, groups))
    assert stages == (["c.pad", "c"] if padding else ["c"])


def test_channels_first_is_the_same_transposed() -> None:
    found, (x, w), _ = run(
        lambda x, w: ops.conv2d(x, w, stride=2, padding=(1, 0), groups=2, layout="NCHW"),
        (2, 4, 7, 6), (6, 2, 3, 2),
    )  # fmt: skip
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (0, 0)]).transpose(0, 2, 3, 1)
    expected = convolved(padded, w.transpose(2, 3, 1, 0), 2, 1, 2)
    np.testing.assert_allclose(found, expected.transpose(0, 3, 1, 2))


def test_uneven_padding() -> None:
    found, (x, w), _ = run(lambda x, w: ops.conv1d(x, w, padding=(0, 2)), (1, 5, 2), (3, 2, 3))
    np.testing.assert_allclose(found, convolved(np.pad(x, [(0, 0), (0, 2), (0, 0)]), w, 1, 1, 1))


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_depthwise(layout: str) -> None:
    is_last = layout == "NHWC"
    shapes = [(1, 6, 5, 3), (3, 2, 3)] if is_last else [(1, 3, 6, 5), (3, 3, 2)]
    found, (x, w), _ = run(
        lambda x, w: ops.depthwise_conv2d(x, w, stride=2, padding=1, layout=layout), *shapes
    )
    if not is_last:
        x, w = x.transpose(0, 2, 3, 1), w.transpose(1, 2, 0)
        found = found.transpose(0, 2, 3, 1)
    padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
    expected = convolved(padded, w[:, :, None, :], 2, 1, groups=3)
    np.testing.assert_allclose(found, expected)


def test_convolutions_of_bytes_are_summed_wide_and_padded_with_their_zero() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.integers(0, 256, (1, 6, 5, 4)), rng.integers(-128, 128, (3, 2, 4))
    options: dict[str, Any] = {"padding": 1, "sum_dtype": "int32", "pad_value": 131}
    data, weight = ac.placeholder(x.shape, "x", "uint8"), ac.placeholder(w.shape, "w", "int8")
    dag = ComputeDAG([data, weight, ops.depthwise_conv2d(data, weight, **options)])
    (found,) = evaluate(dag, [x.astype(np.uint8), w.astype(np.int8)])
    padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)], constant_values=131)
    expected = convolved(padded, w[:, :, None, :], 1, 1, groups=4)
    np.testing.assert_array_equal(found, expected)
    whole = ac.placeholder((3, 2, 4, 4), "v", "int8")
    assert ops.conv2d(data, whole, **options).dtype.name == "int32"


def test_capsule() -> None:
    found, (x, w), stages = run(
        lambda x, w: ops.capsule_conv2d(x, w, stride=2, padding=1, name="c"),
        (1, 6, 6, 4, 4, 2), (3, 3, 4, 4, 2, 3),
    )  # fmt: skip
    padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0), (0, 0), (0, 0)])
    expected = np.zeros((1, 3, 3, 4, 4, 3))
    for h, v, i, j in itertools.product(range(3), range(3), range(3), range(3)):
        element = padded[:, h * 2 + i, v * 2 + j]
        expected[:, h, v] += np.einsum("npqc,qrco->npro", element, w[i, j])
    np.testing.assert_allclose(found, expected)
    assert stages == ["c.pad", "c"]


def test_products() -> None:
    found, (a, b), _ = run(ops.matmul, (5, 7), (7, 3))
    np.testing.assert_allclose(found, a @ b)
    found, (a, b), _ = run(ops.batch_matmul, (2, 5, 7), (2, 7, 3))
    np.testing.assert_allclose(found, a @ b)
    found, (a, b), _ = run(ops.dense, (5, 7), (3, 7))
    np.testing.assert_allclose(found, a @ b.T)
    found, (a,), _ = run(lambda x: ops.batch_matmul(x, x), (2, 4, 4))
    np.testing.assert_allclose(found, a @ a)


@pytest.mark.parametrize("padding", [0, 1])
def test_pools(padding: int) -> None:
    def windows(x: Array, margin: float) -> Array:
        pads = [(0, 0), (padding, padding), (padding, padding), (0, 0)]
        padded = np.pad(x, pads, constant_values=margin)
        return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::2, ::2]

    shape = (2, 7, 7, 3)
    found, (x,), stages = run(lambda x: ops.max_pool2d(x, 3, stride=2, padding=padding), shape)
    np.testing.assert_allclose(found, windows(x, -np.inf).max((-1, -2)))
    assert len(stages) == 1 + (padding > 0)
    found, (x,), stages = run(
        lambda x: ops.avg_pool2d(x, 3, stride=2, padding=padding, name="p"), shape
    )
    np.testing.assert_allclose(found, windows(x, 0.0).mean((-1, -2)))
    assert stages[-2:] == ["p.sum", "p"]
    found, (x,), _ = run(ops.global_avg_pool, shape)
    np.testing.assert_allclose(found, x.mean((1, 2)))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_does_not_overflow(axis: int) -> None:
    x = ac.placeholder((3, 4, 5), "x")
    dag = ComputeDAG([x, ops.softmax(x, axis, name="s")])
    assert [op.name for op in dag.ops] == ["s.max", "s.exp", "s.sum", "s"]
    array = np.random.default_rng(0).uniform(900.0, 1000.0, (3, 4, 5))
    raised = np.exp(array - array.max(axis, keepdims=True))
    np.testing.assert_allclose(evaluate(dag, [array])[0], raised / raised.sum(axis, keepdims=True))


def test_norms() -> None:
    found, (x,), stages = run(lambda x: ops.norm2(x, name="n"), (3, 4, 5))
    np.testing.assert_allclose(found, np.sqrt((x**2).sum((1, 2))))
    assert stages == ["n.sum", "n"]
    found, (x, g, b), _ = run(ops.layer_norm, (3, 4, 5), (5,), (5,))
    centred = x - x.mean(-1, keepdims=True)
    expected = centred / np.sqrt(x.var(-1, keepdims=True) + np.float32(1e-5)) * g + b
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_attention_scores() -> None:
    found, (q, key), _ = run(ops.attention_scores, (2, 5, 3, 4), (2, 6, 3, 4))
    product = np.einsum("bnhd,bmhd->bhnm", q, key)
    raised = np.exp(product)
    np.testing.assert_allclose(found, raised / raised.sum(-1, keepdims=True))


ELEMENTWISE: list[tuple[Build, list[tuple[int, ...]], Numpy]] = [
    (ops.relu, [(3, 4)], lambda x: np.maximum(x, 0)),
    (ops.tanh, [(3, 4)], np.tanh),
    (ops.sigmoid, [(3, 4)], lambda x: 1 / (1 + np.exp(-x))),
    (ops.add, [(3, 4), (4,)], np.add),
    (ops.subtract, [(3, 1), (2, 1, 4)], np.subtract),
    (ops.multiply, [(3, 4), ()], np.multiply),
    (ops.divide, [(1, 4), (3, 1)], np.divide),
    (ops.bias_add, [(3, 4), (4,)], np.add),
    (ops.batch_norm, [(3, 4), (4,), (4,)], lambda x, a, b: x * a + b),
    (lambda x, a: ops.bias_add(x, a, axis=0), [(3, 4), (3,)], lambda x, a: x + a[:, None]),
    (lambda x: ops.transpose(x, (2, 0, 1)), [(2, 3, 4)], lambda x: x.transpose(2, 0, 1)),
    (
        lambda x: ops.pad(x, (1, 0), (0, 2), 3.0),
        [(2, 3)],
        lambda x: np.pad(x, [(1, 0), (0, 2)], constant_values=3.0),
    ),
]


@pytest.mark.parametrize("case", range(len(ELEMENTWISE)))
def test_elementwise(case: int) -> None:
    build, shapes, function = ELEMENTWISE[case]
    expected: Callable[..., Array] = function
    found, arrays, stages = run(build, *shapes)
    np.testing.assert_allclose(found, expected(*arrays))
    assert len(stages) == 1


def test_gelu() -> None:
    found, (x,), _ = run(ops.gelu, (64,))
    approximate = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    np.testing.assert_allclose(found, approximate, atol=1e-3)
