"""Math functions at zeros, infinities, NaN and subnormal numbers, and in any number of lanes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ansorc.ir.operator import MATH_FUNCTIONS
from tests.codegen.llvm.llvm_harness import Array
from tests.codegen.llvm.vector_math.math_kernels import DTYPES, TARGETS, UNARY, WRITTEN, evaluate
from tests.codegen.llvm.vector_math.math_references import (
    IN_FLOAT64,
    error64,
    errors32,
    exact,
    stated_errors,
)
from tests.support.nightly import also_nightly, examples, is_nightly, sampled_pairs

INF, NAN = math.inf, math.nan
ENDS: dict[str, list[tuple[float, float]]] = {
    "exp": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0)],
    "exp2": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (INF, 1), (-INF, 0)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1)],
    "log": [(1, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-INF, NAN), (-1, NAN), (-1e-40, NAN)],
    "log2": [(1, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-INF, NAN), (-1, NAN)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1, -INF), (INF, INF), (-INF, NAN), (-1.5, NAN)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (30, 1), (-30, -1)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0.0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN)],
}
LIMITS = {
    "float32": {
        "exp": [88.72, 88.73, -87.4, -103.9, -104], "exp2": [127.99, 128, -126.5, -149, -150.5],
        "sigmoid": [-88, -100, -104.5, 100], "tanh": [1e-44, 1e-38, 9, 20],
        "log": [1e-45, 1e-38, 3.4e38], "log2": [1e-45, 1e-38, 3.4e38], "log1p": [1e-45, 3.4e38],
        "expm1": [88.72, 88.73, -20, 1e-44], "erf": [1e-45, 1e-38, 3.9, 4.1, 1e30],
    },
    "float64": {
        "exp": [709.78, 709.79, -708.5, -745.1, -745.2],
        "exp2": [1023.9, 1024, -1022.5, -1074, -1076],
        "sigmoid": [-709, -740, -746, 40], "tanh": [5e-324, 1e-308, 18, 30],
        "log": [5e-324, 1e-308, 1.7e308], "log2": [5e-324, 1e-308, 1.7e308],
        "log1p": [5e-324, 1.7e308], "expm1": [709.78, 709.79, -40, 5e-324],
        "erf": [5e-324, 1e-308, 5.9, 6.1, 1e300],
    },
}  # fmt: skip
"""Operands on both sides of overflow, underflow, and of where a result becomes subnormal."""
POWER_OPERANDS = [
    0.0, 1.0, INF, 0.5, 2.0, 3.0, 1.5, 7.5, 4.25, 1e-310, 5e-324, 1e300, 1e-300, 3e38, 1e-40, 1e-45,
    1 + 2.0**-52, 1 - 2.0**-53, 1 + 2.0**-23, 1 - 2.0**-24, 2.0**53, 2.0**53 + 2, 2.0**24 - 1,
]  # fmt: skip
STATED = stated_errors()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_ends(name: str, dtype: str) -> None:
    cases = [*ENDS[name], (NAN, NAN)]
    x, wanted = (np.array(column).astype(dtype) for column in zip(*cases, strict=True))
    for target in TARGETS.values():
        for width in (0, 1):
            found = evaluate(name, x, target=target, width=width)
            np.testing.assert_array_equal(found, wanted)
            is_number = ~np.isnan(wanted)
            np.testing.assert_array_equal(
                np.signbit(found)[is_number], np.signbit(wanted)[is_number]
            )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("dtype", "name"), [(d, n) for d in LIMITS for n in LIMITS[d]])
def test_limits(dtype: str, name: str, target: str) -> None:
    x = np.array(LIMITS[dtype][name]).astype(dtype)
    found, wanted = evaluate(name, x, target=TARGETS[target]), [exact(name, float(v)) for v in x]
    if dtype == "float32":
        errors = list(errors32(found, np.array([float(value) for value in wanted])))
    else:
        errors = [error64(float(y), z) for y, z in zip(found, wanted, strict=True)]
    assert max(errors) <= STATED[name, dtype], (x, found)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", TARGETS)
def test_power_of_every_pair_of_special_numbers(dtype: str, target: str) -> None:
    with np.errstate(all="ignore"):
        positive = np.unique(np.array(POWER_OPERANDS).astype(dtype))
        values = np.concatenate([positive, -positive, [NAN]]).astype(dtype)
        x, y = (part.ravel().copy() for part in np.meshgrid(values, values))
        wanted = np.power(x.astype(np.float64), y.astype(np.float64)).astype(dtype)
    found = evaluate("pow", x, y, target=TARGETS[target])
    is_special = ~np.isfinite(wanted) | (wanted == 0)
    np.testing.assert_array_equal(found[is_special], wanted[is_special])
    is_number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(wanted)[is_number])
    info = np.finfo(dtype)
    np.testing.assert_allclose(
        found[~is_special], wanted[~is_special], 4 * float(info.eps), float(info.smallest_subnormal)
    )


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SINGLES = st.floats(allow_nan=False, allow_infinity=False, width=32)


@examples(30, nightly=150)
@given(SINGLES, SINGLES)
@example(-0.0, -3.0)
@example(-8.0, 1 / 3)
def test_float32_power_of_any_pair(x: float, y: float) -> None:
    """The page's bound, for whole exponents too, which drawn ones seldom are."""
    xs, ys = np.full(4, x, np.float32), np.array([y, round(y) % 1000, -2, 3], np.float32)
    with np.errstate(all="ignore"):
        wanted = IN_FLOAT64["pow"](xs.astype(np.float64), ys.astype(np.float64))
    for target in TARGETS.values():
        found = evaluate("pow", xs, ys, target=target)
        assert (errors32(found, wanted) <= STATED["pow", "float32"]).all()


@examples(30, nightly=150)
@given(FLOATS, st.floats(-1.2, 1.2))
@example(1 + 2.0**-52, 1.0)
def test_float64_power_of_any_pair(x: float, share: float) -> None:
    """Exponents are drawn as a share of the one that leads out of the range."""
    size = abs(x)
    if size in (0.0, 1.0):
        return
    y = share * 1024 / abs(math.log2(size))
    pairs = [(size, y), (size, round(y) if abs(y) < 1e15 else 2.0), (size, 0.5), (size, 3.0)]
    xs, ys = (np.array(column, np.float64) for column in zip(*pairs, strict=True))
    wanted = [exact("pow", float(a), float(b)) for a, b in zip(xs, ys, strict=True)]
    for target in TARGETS.values():
        found = evaluate("pow", xs, ys, target=target)
        for value, true in zip(found, wanted, strict=True):
            assert error64(float(value), true) <= STATED["pow", "float64"]


def _operands(name: str, dtype: str) -> list[Array]:
    """Some that take every path: small, large, too large for the reduction, special."""
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(192) * 10.0 ** rng.integers(-3, 12, 192)).astype(dtype)
    x[::17] = [INF, -INF, NAN, 0.0, -0.0, 1e-40, -1e-40, 1.0, -1.0, 1e38, 1e30, 2.0]
    return [np.abs(x), rng.permutation(x)] if MATH_FUNCTIONS[name] == 2 else [x]


@also_nightly
@pytest.mark.parametrize(
    ("function", "target"),
    sampled_pairs([(name, dtype) for dtype in DTYPES for name in WRITTEN], list(TARGETS)),
)
def test_lanes_do_not_matter(function: tuple[str, str], target: str) -> None:
    name, dtype = function
    operands = _operands(name, dtype)
    one = evaluate(name, *operands, target=TARGETS[target], width=1)
    for width in (3, 4, 7, 24, 64) if is_nightly() else (7, 24):
        many = evaluate(name, *operands, target=TARGETS[target], width=width)
        np.testing.assert_array_equal(many, one)
        np.testing.assert_array_equal(np.signbit(many[one == 0]), np.signbit(one[one == 0]))
