"""Operators of narrow numbers add up in float32 or int32: a law of all, and each one's error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import ansorc as ac
from ansorc import ops
from ansorc.errors import LanguageError
from ansorc.ir.dtype import FLOAT32, INT32, dtype
from ansorc.lang.compute_op import Combiner
from tests.search.every_operator import CASES, Case, defined
from tests.support.nightly import sampled

Array = NDArray[Any]
NARROW = ("float16", "bfloat16", "int8", "uint8", "int16", "uint16")
FLOATS = NARROW[:2]
WIDE_ONLY = ("fft", "ifft", "rfft")
"""Operators that refuse narrow floats."""
Tensor = ac.Tensor
Build = (
    Callable[[Tensor], Tensor]
    | Callable[[Tensor, Tensor], Tensor]
    | Callable[[Tensor, Tensor, Tensor], Tensor]
)
Exact = (
    Callable[[Array], Array]
    | Callable[[Array, Array], Array]
    | Callable[[Array, Array, Array], Array]
)
ADDING = (Combiner.SUM, Combiner.PROD)


def _narrowed(name: str, case: Case, kind: str) -> ac.ComputeDAG:
    """Return the operator of a case with inputs of the dtype `kind` instead of float32."""
    given = [*case.dtypes, *["float32"] * (len(case.shapes) - len(case.dtypes))]
    kinds = [kind if one == "float32" else one for one in given]
    pairs = zip(case.shapes, kinds, strict=True)
    inputs = [ac.placeholder(shape, f"x{n}", one) for n, (shape, one) in enumerate(pairs)]
    return defined(name, case, inputs)


@pytest.mark.parametrize("kind", NARROW)
def test_no_operator_adds_up_in_narrow_numbers(kind: str) -> None:
    sums = 0
    for name, case in CASES.items():
        try:
            dag = _narrowed(name, case, kind)
        except LanguageError:  # it is for floats, or for other dtypes
            assert not dtype(kind).is_float or name in WIDE_ONLY, name
            continue
        for op in dag.ops:
            if op.combiner in ADDING:
                sums += 1
                assert op.buffers[0].dtype in (FLOAT32, INT32), f"{name} of {kind}: {op.name}"
    assert sums >= (30 if dtype(kind).is_float else 12)


class Trial(NamedTuple):
    """An operator, the shapes of its inputs, and the same in NumPy."""

    build: Build
    exact: Exact
    shapes: tuple[tuple[int, ...], ...]
    means: tuple[float, ...]
    """Of the numbers that each input holds, which have a deviation of 1."""
    ulps: float
    """How far a result may be off, of its dtype: a half, where all is rounded once."""


def trial(
    build: Build,
    exact: Exact,
    shapes: tuple[tuple[int, ...], ...],
    means: tuple[float, ...] = (100.0, 0.0, 0.0),
    ulps: float = 0.51,
) -> Trial:
    """Return a Trial, and type the parameters of lambdas, which a class leaves unknown."""
    return Trial(build, exact, shapes, means, ulps)


def _softmax(x: Array) -> Array:
    raised = np.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def _normal(x: Array, axes: int | tuple[int, ...]) -> Array:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def _conv(x: Array, w: Array, padding: int = 0) -> Array:
    """Of x [n, h, w, ci] and w [kh, kw, ci, co]."""
    padded = np.pad(x, [(0, 0), (padding,) * 2, (padding,) * 2, (0, 0)])
    seen = np.lib.stride_tricks.sliding_window_view(padded, w.shape[:2], (1, 2))
    return np.einsum("nhwckl,klcd->nhwd", seen, w)


def _transposed(x: Array, w: Array) -> Array:
    """Of x [n, l, ci] and w [k, ci, co], with stride 2."""
    found = np.zeros((x.shape[0], 2 * x.shape[1] + w.shape[0] - 2, w.shape[2]))
    for place in range(x.shape[1]):
        found[:, 2 * place : 2 * place + w.shape[0]] += np.einsum("nc,kcd->nkd", x[:, place], w)
    return found


def _attention(q: Array, k: Array, v: Array) -> Array:
    return _softmax(q @ np.swapaxes(k, 2, 3) / math.sqrt(q.shape[3])) @ v


def _pooled(x: Array) -> Array:
    return x.reshape(x.shape[0], x.shape[1] // 8, 8, x.shape[2] // 8, 8, x.shape[3]).mean((2, 4))


def _gelu(x: Array) -> Array:
    return x * 0.5 * np.vectorize(math.erfc)(-x / math.sqrt(2))


ROWS, IMAGE = (4, 4096), (1, 32, 32, 8)
TRIALS: Mapping[str, Trial] = {
    "sum": trial(lambda x: ops.sum(x, 1), lambda x: x.sum(1), (ROWS,), (5.0,)),
    "mean": trial(lambda x: ops.mean(x, 1), lambda x: x.mean(1), (ROWS,)),
    "prod": trial(lambda x: ops.prod(x, 1), lambda x: x.prod(1), ((4, 12),), (1.0,)),
    "softmax": trial(ops.softmax, _softmax, (ROWS,), (0.0,), 0.6),
    "log_softmax": trial(ops.log_softmax, lambda x: np.log(_softmax(x)), (ROWS,)),
    "l2_normalize": trial(
        ops.l2_normalize, lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True)), (ROWS,)
    ),
    "norm2": trial(ops.norm2, lambda x: np.sqrt((x * x).sum((1, 2))), ((3, 64, 64),), (50.0,)),
    "layer_norm": trial(
        ops.layer_norm, lambda x, a, b: _normal(x, -1) * a + b, (ROWS, ROWS[1:], ROWS[1:])
    ),
    "rms_norm": trial(
        ops.rms_norm,
        lambda x, a: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * a,
        (ROWS, ROWS[1:]),
    ),
    "instance_norm": trial(
        ops.instance_norm, lambda x, a, b: _normal(x, (1, 2)) * a + b, (IMAGE, (8,), (8,))
    ),
    "global_avg_pool": trial(ops.global_avg_pool, lambda x: x.mean((1, 2)), ((1, 64, 64, 8),)),
    "avg_pool2d": trial(lambda x: ops.avg_pool2d(x, 8, stride=8), _pooled, (IMAGE,)),
    "matmul": trial(ops.matmul, np.matmul, ((16, 1024), (1024, 24)), (5.0, 0.0)),
    "batch_matmul": trial(ops.batch_matmul, np.matmul, ((2, 8, 512), (2, 512, 8)), (2.0, 1.0)),
    "dense": trial(ops.dense, lambda x, w: x @ w.T, ((8, 2048), (16, 2048)), (1.0, 0.0)),
    "conv2d": trial(ops.conv2d, _conv, ((1, 9, 9, 32), (3, 3, 32, 8)), (10.0, 0.0)),
    "conv2d_winograd": trial(
        lambda x, w: ops.conv2d_winograd(x, w, padding=1),
        lambda x, w: _conv(x, w, 1),
        ((1, 4, 4, 16), (3, 3, 16, 8)),
        (10.0, 0.0),
        0.6,
    ),
    "conv1d_transpose": trial(
        lambda x, w: ops.conv1d_transpose(x, w, stride=2),
        _transposed,
        ((1, 16, 64), (4, 64, 8)),
        (10.0, 0.0),
    ),
    "attention": trial(
        ops.attention,
        _attention,
        ((1, 1, 8, 16), (1, 1, 256, 16), (1, 1, 256, 16)),
        (0.0, 0.0, 1.0),
        2.5,
    ),
    "gelu": trial(ops.gelu, _gelu, ((64, 64),), (-1.0,)),
    "resize2d_bilinear": trial(
        lambda x: ops.resize2d_bilinear(x, (32, 4000), coordinates="align_corners"),
        lambda x: x[:, :, :1] + np.arange(4000)[:, None] / 3999 * (x[:, :, 1:] - x[:, :, :1]),
        ((1, 32, 2, 1),),
    ),
}


def check(name: str, kind: str) -> None:
    """Hold a trial's result against the exact one; what float32 loses in its sums is allowed."""
    case, rng = TRIALS[name], np.random.default_rng(7)
    drawn = [
        (rng.standard_normal(shape) + mean).astype(dtype(kind).numpy)
        for shape, mean in zip(case.shapes, case.means, strict=False)
    ]
    inputs = [ac.placeholder(one.shape, f"x{n}", kind) for n, one in enumerate(drawn)]
    result = case.build(*inputs)
    assert str(result.dtype) == kind
    found = np.empty(result.shape, result.dtype.numpy)
    ac.build(ac.ComputeDAG([*inputs, result]))(*drawn, found)
    exact = case.exact(*(one.astype(np.float64) for one in drawn))
    unit = dtype(kind).epsilon * 2.0 ** np.floor(np.log2(np.abs(exact)))
    unit = np.maximum(unit, dtype(kind).smallest)
    allowed = case.ulps * unit + 2.0**-19 * np.abs(exact).max()
    off = np.abs(found.astype(np.float64) - exact)
    worst = int(np.argmax(off - allowed))
    assert (off <= allowed).all(), (found.flat[worst], exact.flat[worst], unit.flat[worst])


@pytest.mark.parametrize("name", sampled(TRIALS, list(TRIALS)[::2]))
def test_results_of_float16_are_rounded_once(name: str) -> None:
    check(name, "float16")


@pytest.mark.parametrize("name", ["layer_norm", "global_avg_pool", "matmul", "softmax"])
def test_results_of_bfloat16_are_rounded_once(name: str) -> None:
    check(name, "bfloat16")


@pytest.mark.nightly
@pytest.mark.parametrize("name", TRIALS)
def test_all_results_of_bfloat16_are_rounded_once(name: str) -> None:
    check(name, "bfloat16")


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16"])
def test_sums_of_narrow_integers_are_int32(kind: str) -> None:
    ends = np.iinfo(kind)
    rng = np.random.default_rng(1)
    a, b = (rng.integers(ends.min, ends.max, s, kind, endpoint=True) for s in ((9, 50), (50, 7)))
    x, y = ac.placeholder(a.shape, "x", kind), ac.placeholder(b.shape, "y", kind)
    product, total = ops.matmul(x, y), ops.sum(x, 1)
    found = np.empty((9, 7), np.int32), np.empty(9, np.int32)
    ac.build(ac.ComputeDAG([x, y, product, total]))(a, b, *found)
    np.testing.assert_array_equal(found[0], (a.astype(np.int64) @ b).astype(np.int32))
    np.testing.assert_array_equal(found[1], a.sum(1, dtype=np.int64))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int8"])
def test_a_user_may_ask_for_narrow_sums(kind: str) -> None:
    x, y = ac.placeholder((4, 8), "x", kind), ac.placeholder((8, 4), "y", kind)
    image, window = ac.placeholder((1, 4, 4, 8), "i", kind), ac.placeholder((3, 3, 8, 4), "w", kind)
    for found in (
        ops.matmul(x, y, sum_dtype=kind),
        ops.sum(x, 0, sum_dtype=kind),
        ops.prod(x, 0, sum_dtype=kind),
        ops.conv2d(image, window, sum_dtype=kind),
        ops.conv2d_transpose(image, window, sum_dtype=kind),
    ):
        assert str(found.dtype) == kind
        (total,) = (op for op in ac.ComputeDAG([x, y, image, window, found]).ops if op.reduce_axes)
        assert str(total.buffers[0].dtype) == kind
