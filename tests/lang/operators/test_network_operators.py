"""The operators that networks are made of, against NumPy: the definition and the machine code."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

import ansorc as ac
from ansorc import ops
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.reference import evaluate
from ansorc.search.space import design_space
from ansorc.target import Target

Array = NDArray[Any]
Shapes = list[tuple[int, ...]]
Tensor = ac.Tensor
Build = (
    Callable[[Tensor], Tensor]
    | Callable[[Tensor, Tensor], Tensor]
    | Callable[[Tensor, Tensor, Tensor], Tensor]
    | Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
)
Numpy = (
    Callable[[Array], Any]
    | Callable[[Array, Array], Any]
    | Callable[[Array, Array, Array], Any]
    | Callable[[Array, Array, Array, Array, Array], Any]
)
Case = tuple[str, Build, Shapes, Numpy]


def erf(x: Array) -> Array:
    return np.vectorize(math.erf)(x)


def softmax(x: Array, axis: int) -> Array:
    raised = np.exp(x - x.max(axis, keepdims=True))
    return raised / raised.sum(axis, keepdims=True)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softplus(x: Array) -> Array:
    return np.log1p(np.exp(x))


def elu(x: Array, alpha: float) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(x))


def gelu_by_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def normalised(x: Array, axes: tuple[int, ...]) -> Array:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def group_norm(x: Array, scale: Array, shift: Array, groups: int) -> Array:
    """Of x [n, h, w, c]."""
    parts = x.reshape(*x.shape[:3], groups, -1)
    return normalised(parts, (1, 2, 4)).reshape(x.shape) * scale + shift


def last(x: Array) -> Array:
    return np.moveaxis(x, 1, -1)


def first(x: Array) -> Array:
    return np.moveaxis(x, -1, 1)


S: Shapes = [(3, 5, 4)]
ACTIVATIONS: list[Case] = [
    ("relu6", ops.relu6, S, lambda x: np.clip(x, 0, 6)),
    ("leaky_relu", lambda x: ops.leaky_relu(x, 0.25), S, lambda x: np.where(x > 0, x, x / 4)),
    ("prelu", ops.prelu, [(3, 4), (4,)], lambda x, s: np.where(x > 0, x, x * s)),
    ("prelu 0", lambda x, s: ops.prelu(x, s, 0), [(3, 4), (3,)],
     lambda x, s: np.where(x > 0, x, x * s[:, None])),
    ("elu", lambda x: ops.elu(x, 0.5), S, lambda x: elu(x, 0.5)),
    ("selu", ops.selu, S, lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772)),
    ("silu", ops.silu, S, lambda x: x * sigmoid(x)),
    ("hard_sigmoid", ops.hard_sigmoid, S, lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    ("hard_swish", ops.hard_swish, S, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    ("softplus", ops.softplus, S, softplus),
    ("softsign", ops.softsign, S, lambda x: x / (1 + abs(x))),
    ("mish", ops.mish, S, lambda x: x * np.tanh(softplus(x))),
    ("gelu", ops.gelu, S, lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2)))),
    ("gelu tanh", lambda x: ops.gelu(x, approximate=True), S, gelu_by_tanh),
    ("clip", lambda x: ops.clip(x, -0.5, 0.25), S, lambda x: np.clip(x, -0.5, 0.25)),
    ("maximum", ops.maximum, [(3, 1), (4,)], np.maximum),
    ("minimum", ops.minimum, [(3, 1), (4,)], np.minimum),
    ("power", lambda a, b: ops.power(ops.sigmoid(a), b), [(3, 4), (1,)],
     lambda a, b: sigmoid(a) ** b),
    ("cast", lambda x: ops.cast(ops.cast(x, "int32"), "float32"), S, np.trunc),
    ("batch_norm_inference", ops.batch_norm_inference, [(2, 3, 4)] + [(4,)] * 3 + [(4,)],
     lambda x, a, b, m, v: (x - m) / np.sqrt(abs(v) + 1e-5) * a + b),
]  # fmt: skip

REDUCTIONS: list[Case] = [
    ("sum all", ops.sum, S, np.sum),
    ("sum 1", lambda x: ops.sum(x, 1), S, lambda x: x.sum(1)),
    ("sum 2,0", lambda x: ops.sum(x, (2, 0)), S, lambda x: x.sum((0, 2))),
    ("sum kept", lambda x: ops.sum(x, (-1, 0), keepdims=True), S,
     lambda x: x.sum((0, 2), keepdims=True)),
    ("sum none", lambda x: ops.sum(x, ()), S, lambda x: x),
    ("mean", lambda x: ops.mean(x, (0, 1)), S, lambda x: x.mean((0, 1))),
    ("max", lambda x: ops.max(x, -1), S, lambda x: x.max(-1)),
    ("min", ops.min, S, np.min),
    ("prod", lambda x: ops.prod(x, 0, keepdims=True), S, lambda x: x.prod(0, keepdims=True)),
    ("argmax", lambda x: ops.argmax(x, 1), S, lambda x: x.argmax(1)),
    ("argmax kept", lambda x: ops.argmax(x, -1, keepdims=True), S,
     lambda x: x.argmax(-1, keepdims=True)),
    ("argmin all", ops.argmin, S, np.argmin),
    ("argmax all of several rows", lambda x: ops.argmax(x, None), [(4, 21)], np.argmax),
    ("sort", lambda x: ops.sort(x, 1), S, lambda x: np.sort(x, 1)),
    ("argsort", ops.argsort, S, lambda x: np.argsort(x, -1)),
    ("top_k", lambda x: ops.top_k(x, 3, 1)[0], S, lambda x: -np.sort(-x, 1)[:, :3]),
    ("l2_normalize", ops.l2_normalize, S,
     lambda x: x / np.sqrt((x**2).sum(-1, keepdims=True))),
    ("l2_normalize 0", lambda x: ops.l2_normalize(x, 0), S,
     lambda x: x / np.sqrt((x**2).sum(0, keepdims=True))),
    ("attention", ops.attention, [(1, 2, 5, 4), (1, 2, 7, 4), (1, 2, 7, 3)],
     lambda q, k, v: softmax(q @ k.swapaxes(2, 3) / 2, -1) @ v),
    ("attention causal", lambda q, k, v: ops.attention(q, k, v, causal=True, scale=1.5),
     [(1, 2, 5, 4), (1, 2, 7, 4), (1, 2, 7, 3)],
     lambda q, k, v: softmax(np.where(np.tri(5, 7) > 0, q @ k.swapaxes(2, 3) * 1.5, -np.inf), -1)
     @ v),
    ("softmax", lambda x: ops.softmax(x, 1), S, lambda x: softmax(x, 1)),
    ("log_softmax", ops.log_softmax, S, lambda x: np.log(softmax(x, -1))),
    ("log_softmax 0", lambda x: ops.log_softmax(x, 0), S, lambda x: np.log(softmax(x, 0))),
    ("layer_norm", ops.layer_norm, [(3, 5, 4), (5, 4), (5, 4)],
     lambda x, a, b: normalised(x, (1, 2)) * a + b),
    ("rms_norm", ops.rms_norm, [(3, 5, 4), (4,)],
     lambda x, a: x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * a),
    ("group_norm", lambda x, a, b: ops.group_norm(x, a, b, 3), [(2, 4, 3, 6), (6,), (6,)],
     lambda x, a, b: group_norm(x, a, b, 3)),
    ("group_norm first", lambda x, a, b: ops.group_norm(x, a, b, 2, layout="NCHW"),
     [(2, 6, 4, 3), (6,), (6,)], lambda x, a, b: first(group_norm(last(x), a, b, 2))),
    ("instance_norm", ops.instance_norm, [(2, 7, 3), (3,), (3,)],
     lambda x, a, b: normalised(x, (1,)) * a + b),
    ("matmul", ops.matmul, [(2, 1, 5, 3), (4, 3, 2)], np.matmul),
    ("dense", ops.dense, [(2, 5, 3), (4, 3)], lambda x, w: x @ w.T),
    ("dense vector", ops.dense, [(3,), (4, 3)], lambda x, w: w @ x),
]  # fmt: skip

VIEWS: list[Case] = [
    ("reshape join", lambda x: ops.reshape(x, (15, 4)), S, lambda x: x.reshape(15, 4)),
    ("reshape split", lambda x: ops.reshape(x, (3, 5, 2, 2)), S, lambda x: x.reshape(3, 5, 2, 2)),
    ("reshape all", lambda x: ops.reshape(x, (4, -1)), S, lambda x: x.reshape(4, 15)),
    ("reshape flat", lambda x: ops.reshape(x, -1), S, lambda x: x.reshape(-1)),
    ("reshape ones", lambda x: ops.reshape(x, (1, 3, 1, 20, 1)), S,
     lambda x: x.reshape(1, 3, 1, 20, 1)),
    ("flatten", ops.flatten, S, lambda x: x.reshape(3, 20)),
    ("squeeze", ops.squeeze, [(1, 3, 1, 2)], np.squeeze),
    ("squeeze one", lambda x: ops.squeeze(x, -2), [(1, 3, 1, 2)], lambda x: x.squeeze(2)),
    ("expand_dims", lambda x: ops.expand_dims(x, (0, -1)), [(3, 2)], lambda x: x[None, :, :, None]),
    ("broadcast_to", lambda x: ops.broadcast_to(x, (2, 3, 4)), [(3, 1)],
     lambda x: np.broadcast_to(x, (2, 3, 4))),
    ("tile", lambda x: ops.tile(x, (2, 1, 3)), S, lambda x: np.tile(x, (2, 1, 3))),
    ("flip", lambda x: ops.flip(x, (0, -1)), S, lambda x: x[::-1, :, ::-1]),
    ("slice", lambda x: ops.slice(x, (0, 1, None), (2, -1, None), (1, 2, 1)), S,
     lambda x: x[0:2, 1:-1:2]),
    ("slice back", lambda x: ops.slice(x, (None, -2, 3), (None, 0, None), (1, -1, -2)), S,
     lambda x: x[:, -2:0:-1, 3::-2]),
    ("concat", lambda a, b, c: ops.concat([a, b, c], -1), [(3, 2), (3, 5), (3, 1)],
     lambda a, b, c: np.concatenate([a, b, c], -1)),
    ("concat one", lambda a: ops.concat([a]), [(3, 2)], lambda x: x),
    ("stack", lambda a, b, c: ops.stack([a, b, c], 1), [(3, 2)] * 3,
     lambda a, b, c: np.stack([a, b, c], 1)),
    ("edge_pad", lambda x: ops.edge_pad(x, (0, 2, 1), (1, 0, 3)), S,
     lambda x: np.pad(x, [(0, 1), (2, 0), (1, 3)], "edge")),
    ("reflect_pad", lambda x: ops.reflect_pad(x, (0, 4, 1), (2, 0, 3)), S,
     lambda x: np.pad(x, [(0, 2), (4, 0), (1, 3)], "reflect")),
]  # fmt: skip


def windows(x: Array, kernel: int, stride: int) -> Array:
    view = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (1, 2))
    return view[:, ::stride, ::stride]


def padded(x: Array, before: int, after: int, value: float) -> Array:
    return np.pad(x, [(0, 0), (before, after), (before, after), (0, 0)], constant_values=value)


def counted_means(x: Array, before: int, after: int) -> Array:
    """Means of 3 x 3 windows, stride 2, over the elements that are not NaN."""
    return np.nanmean(windows(padded(x, before, after, np.nan), 3, 2), (-1, -2))


POOLS: list[Case] = [
    ("max1d", lambda x: ops.max_pool1d(x, 3), [(2, 7, 3)],
     lambda x: np.lib.stride_tricks.sliding_window_view(x, 3, 1).max(-1)),
    ("max3d", lambda x: ops.max_pool3d(x, 2, stride=2), [(1, 4, 4, 4, 3)],
     lambda x: x.reshape(1, 2, 2, 2, 2, 2, 2, 3).max((2, 4, 6))),
    ("max ceil", lambda x: ops.max_pool2d(x, 3, stride=2, ceil_mode=True), [(1, 6, 6, 2)],
     lambda x: windows(padded(x, 0, 1, -np.inf), 3, 2).max((-1, -2))),
    ("max ceil, last window in the padding",
     lambda x: ops.max_pool2d(x, 2, stride=2, padding=1, ceil_mode=True), [(1, 5, 5, 2)],
     lambda x: windows(padded(x, 1, 0, -np.inf), 2, 2).max((-1, -2))),
    ("max first", lambda x: ops.max_pool2d(x, 2, layout="NCHW"), [(1, 2, 4, 4)],
     lambda x: first(windows(last(x), 2, 1).max((-1, -2)))),
    ("avg excluding", lambda x: ops.avg_pool2d(x, 3, stride=2, padding=1, count_include_pad=False),
     [(2, 7, 7, 3)], lambda x: counted_means(x, 1, 1)),
    ("avg ceil", lambda x: ops.avg_pool2d(x, 3, stride=2, ceil_mode=True), [(1, 6, 6, 2)],
     lambda x: counted_means(x, 0, 1)),
    ("avg dilated",
     lambda x: ops.avg_pool1d(x, 2, dilation=3, padding=2, count_include_pad=False), [(1, 6, 2)],
     lambda x: np.nanmean(
         np.lib.stride_tricks.sliding_window_view(
             np.pad(x, [(0, 0), (2, 2), (0, 0)], constant_values=np.nan), 4, 1)[..., ::3], -1)),
    ("avg3d", lambda x: ops.avg_pool3d(x, 2, stride=2), [(1, 4, 4, 4, 3)],
     lambda x: x.reshape(1, 2, 2, 2, 2, 2, 2, 3).mean((2, 4, 6))),
    ("global avg", ops.global_avg_pool, [(2, 5, 3)], lambda x: x.mean(1)),
    ("global max", lambda x: ops.global_max_pool(x, "NCHW"), [(2, 3, 4, 5)],
     lambda x: x.max((2, 3))),
]  # fmt: skip

CASES = ACTIVATIONS + REDUCTIONS + VIEWS + POOLS


def check(function: Build, arrays: list[Array], wanted: Array) -> None:
    """Compare the definition in double precision, and the built kernel, with `wanted`."""
    build: Callable[..., Tensor] = function
    inputs = [ac.placeholder(x.shape, f"x{n}", str(x.dtype)) for n, x in enumerate(arrays)]
    dag = ComputeDAG([*inputs, build(*inputs)])
    found = evaluate(dag, arrays)[0]
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)
    output = dag.outputs[0]
    made: Array = np.full(
        output.shape, np.nan if output.dtype.is_float else -77, output.dtype.numpy
    )
    ac.build(dag)(*arrays, made)
    np.testing.assert_allclose(made, wanted, 2e-5, 2e-6)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_operators(case: Case) -> None:
    _, build, shapes, numpy = case
    function: Callable[..., Any] = numpy
    rng = np.random.default_rng(5)
    arrays = [rng.uniform(-3, 3, shape).astype(np.float32) for shape in shapes]
    if case[0] == "batch_norm_inference":
        arrays[4] = abs(arrays[4])
    check(build, arrays, function(*(array.astype(np.float64) for array in arrays)))


INDICES = np.array([[2, 0, -1], [7, 4, -9]], np.int32)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_take(axis: int, mode: Literal["clip", "wrap"]) -> None:
    x = np.random.default_rng(0).normal(size=(5, 4, 6)).astype(np.float32)
    wanted: Array = np.take(x, INDICES, axis, mode=mode)
    check(lambda d, i: ops.take(d, i, axis, mode), [x, INDICES], wanted)


@pytest.mark.parametrize("axis", [0, 1])
def test_gather(axis: int) -> None:
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    places = np.random.default_rng(1).integers(-9, 9, (3, 4)).astype(np.int64)
    inside = places % x.shape[axis]
    wanted = np.take_along_axis(x if axis == 0 else x[:3], inside, axis)
    check(lambda d, i: ops.gather(d, i, axis, "wrap"), [x, places], wanted)


def test_embedding_one_hot_and_where() -> None:
    table = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    ids = np.array([[0, 4], [3, 3]], np.int64)
    check(ops.embedding, [table, ids], table[ids])
    check(lambda i: ops.one_hot(i, 4), [ids], np.eye(5, 4)[ids])
    check(lambda i: ops.one_hot(i, 4, 0, "int32"), [ids], np.moveaxis(np.eye(5, 4), -1, 0)[:, ids])
    test = np.array([True, False, True, False])
    check(ops.where, [test, table, table[:1] * 2], np.where(test, table, table[:1] * 2))


def places(inputs: int, outputs: int, coordinates: str) -> Array:
    i = np.arange(outputs, dtype=np.float64)
    if coordinates == "half_pixel":
        return (i + 0.5) * inputs / outputs - 0.5
    if coordinates == "align_corners":
        return i * (inputs - 1) / max(outputs - 1, 1)
    return i * inputs / outputs


ROUND: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
}


def along(inputs: int, outputs: int, coordinates: str, rounding: str) -> Array:
    at = np.round(places(inputs, outputs, coordinates), 9)
    return np.clip(ROUND[rounding](at), 0, inputs - 1).astype(int)


@pytest.mark.parametrize("size", [(8, 14), (3, 2), (1, 7)])
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize("rounding", list(ROUND))
def test_resize_nearest(size: tuple[int, int], coordinates: str, rounding: str) -> None:
    x = np.random.default_rng(0).normal(size=(2, 4, 7, 3)).astype(np.float32)
    rows, columns = (
        along(inputs, outputs, coordinates, rounding)
        for inputs, outputs in zip((4, 7), size, strict=True)
    )
    data = ac.placeholder(x.shape, "x")
    y = ops.resize2d_nearest(data, size, coordinates=coordinates, rounding=rounding)
    found = evaluate(ComputeDAG([data, y]), [x])[0]
    np.testing.assert_array_equal(found, x[:, rows][:, :, columns])


@pytest.mark.parametrize("size", [(8, 14), (3, 2), (1, 7)])
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric"])
def test_resize_bilinear(size: tuple[int, int], coordinates: str) -> None:
    x = np.random.default_rng(0).normal(size=(1, 3, 4, 7)).astype(np.float32)
    wanted = x.astype(np.float64)
    for axis, outputs in zip((2, 3), size, strict=True):
        inputs = x.shape[axis]
        at = np.clip(places(inputs, outputs, coordinates), 0, inputs - 1)
        low = np.floor(at).astype(int)
        share = (at - low).reshape([-1 if d == axis else 1 for d in range(4)])
        first = wanted.take(low, axis)
        second = wanted.take(np.minimum(low + 1, inputs - 1), axis)
        wanted = first * (1 - share) + second * share
    check(
        lambda d: ops.resize2d_bilinear(d, size, coordinates=coordinates, layout="NCHW"),
        [x], wanted,
    )  # fmt: skip


def test_nearest_is_built_too() -> None:
    x = np.random.default_rng(0).normal(size=(1, 4, 7, 3)).astype(np.float32)
    wanted = x.repeat(2, 1).repeat(2, 2)
    check(lambda d: ops.resize2d_nearest(d, (8, 14), rounding="floor", coordinates="asymmetric"),
          [x], wanted)  # fmt: skip


def test_reshapes_stay_affine_where_they_can() -> None:
    x = ac.placeholder((6, 4, 10), "x")
    assert "//" not in ComputeDAG([x, ops.reshape(x, (2, 3, 4, 5, 2))]).to_text()
    joined = ComputeDAG([x, ops.reshape(x, (24, 10))]).to_text()
    assert "x[i0 // 4, i0 % 4, i1]" in joined


def test_activations_keep_their_digits_where_an_exponential_is_next_to_one() -> None:
    x = ac.placeholder((4,), name="x", dtype="float64")
    values = np.array([-1e-12, -1e-3, -40.0, -60.0])
    cases = ((ops.elu, np.expm1(values)), (ops.softplus, softplus(values)))
    for operator, wanted in cases:
        (found,) = evaluate(ComputeDAG([x, operator(x)]), [values])
        np.testing.assert_allclose(found, wanted, rtol=1e-15)


def test_cross_entropy_and_places_of_the_largest() -> None:
    logits, target = ac.placeholder((6, 11), "X"), ac.placeholder((6,), "t", "int64")
    rng = np.random.default_rng(0)
    x, t = rng.standard_normal((6, 11)).astype(np.float32), rng.integers(0, 11, 6)
    module = ac.build(ComputeDAG([logits, target, ops.cross_entropy(logits, target)]))
    wide = softmax(x.astype(np.float64), -1)
    np.testing.assert_allclose(module(x, t), -np.log(wide[np.arange(6), t]), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_first_of_equal_elements_and_nan(dtype: str, axis: int | None) -> None:
    data = ac.placeholder((5, 37), "X", dtype)
    rng = np.random.default_rng(1)
    arrays = [rng.integers(-3, 3, (5, 37)).astype(dtype)]
    if dtype != "int32":
        arrays += [arrays[0].copy(), np.full((5, 37), -np.inf, dtype)]
        arrays[1][[0, 2, 2], [4, 1, 30]] = np.nan
    for operator, numpy in ((ops.argmax, np.argmax), (ops.argmin, np.argmin)):
        module = ac.build(ComputeDAG([data, operator(data, axis)]))
        for array in arrays:
            np.testing.assert_array_equal(module(array), numpy(array, axis))


@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0, 4.0, -1.0, 0.5, -0.5, 2.5])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_constant_powers_are_those_of_the_function(dtype: str, exponent: float) -> None:
    data = ac.placeholder((21,), "X", dtype)
    result = ac.compute((21,), lambda i: ac.power(data[i], ac.const(exponent, dtype)), "y")
    x = np.linspace(-3, 3, 21).astype(dtype)
    x[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 4.0]
    found = ac.build(ComputeDAG([data, result]))(x)
    with np.errstate(all="ignore"):  # NumPy takes a plain number as the exponent for a square root
        expected = np.power(x.astype(np.float64), np.full(21, exponent))
    tolerance = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=tolerance)
    ends = np.isinf(expected) | (expected == 0)
    np.testing.assert_array_equal(np.signbit(found[ends]), np.signbit(expected[ends]))


@pytest.mark.parametrize("shape", [(64, 50257), (4, 60013)])
def test_rows_as_long_as_a_vocabulary_are_built(shape: tuple[int, ...]) -> None:
    data = ac.placeholder(shape, "X")
    module = ac.build(ComputeDAG([data, ops.softmax(data)]))
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(module(x), softmax(x.astype(np.float64), -1), rtol=1e-5)


@pytest.mark.parametrize("shape", [(64, 48), (61, 67), (3, 56, 40)])
def test_transposes_in_blocks(shape: tuple[int, ...]) -> None:
    order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    data = ac.placeholder(shape, "X")
    dag = ComputeDAG([data, ops.transpose(data, order)])
    (sketch,) = design_space(dag, Target.parse("x86_64-linux-gnu -mcpu=znver3 -cores=2")).sketches
    divided = {variable.axis for variable in sketch.variables}
    assert len(divided) == 2, "both sides of the blocks are open"
    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    np.testing.assert_array_equal(ac.build(dag)(x), x.transpose(order))
