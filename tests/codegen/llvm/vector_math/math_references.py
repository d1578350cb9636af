"""What math functions should give, and by how many ulps a result misses it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import mpmath
import numpy as np
from mpmath import mp, mpf

from tests.codegen.llvm.llvm_harness import Array

PAGE = Path(__file__).parents[4] / "docs" / "vector_math.md"
DIGITS = 60
_TOP32, _TOP64 = 2.0**128, mpf(2) ** 1024
_RANGES = {
    "exp": (-104, 89), "exp2": (-150, 129), "expm1": (-20, 89), "sigmoid": (-104, 20),
    "tanh": (-10, 10), "log": (0.5, 2), "log2": (0.5, 2), "log1p": (-1, 1.5), "erf": (-6, 6),
    "sin": (-200, 200), "cos": (-200, 200),
}  # fmt: skip
"""Where each function does most of its work."""


def _sigmoid(x: Array) -> Array:
    power = np.exp(-np.abs(x))
    return np.where(x < 0, power, 1) / (1 + power)


IN_FLOAT64: dict[str, Callable[..., Array]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "sigmoid": _sigmoid, "tanh": np.tanh,
    "log": np.log, "log2": np.log2, "log1p": np.log1p, "erf": np.vectorize(math.erf),
    "sin": np.sin, "cos": np.cos, "pow": np.power,
}  # fmt: skip


def _exact_exp2(x: mpf) -> mpf:
    return mpmath.power(2, x)


def _exact_sigmoid(x: mpf) -> mpf:
    return 1 / (1 + mpmath.exp(-x))


def _exact_log2(x: mpf) -> mpf:
    return mpmath.log(x) / mpmath.log(2)


_EXACT: dict[str, Callable[..., mpf]] = {
    "exp": mpmath.exp, "exp2": _exact_exp2, "expm1": mpmath.expm1,
    "sigmoid": _exact_sigmoid, "tanh": mpmath.tanh, "log": mpmath.log,
    "log2": _exact_log2, "log1p": mpmath.log1p, "erf": mpmath.erf,
    "sin": mpmath.sin, "cos": mpmath.cos, "pow": mpmath.power,
}  # fmt: skip


@lru_cache(maxsize=1)
def every_exponent() -> Array:
    """Return 2**20 float32: all signs, exponents and leading digits, the rest random."""
    rest = np.random.default_rng(0).integers(0, 1 << 12, 1 << 20, dtype=np.uint32)
    return ((np.arange(1 << 20, dtype=np.uint32) << 12) | rest).view(np.float32)


def working_range(name: str, dtype: str, count: int) -> Array:
    """Return random numbers where the function is neither 0 nor infinite nor constant."""
    low, high = _RANGES[name]
    wide = 7 if dtype == "float64" and max(-low, high) in (104, 89, 150) else 1
    return np.random.default_rng(1).uniform(low * wide, high * wide, count).astype(dtype)


def any_float64(count: int) -> Array:
    """Return finite float64 of random bits."""
    bits = np.random.default_rng(2).integers(0, 1 << 64, 2 * count, dtype=np.uint64)
    values = bits.view(np.float64)
    return values[np.isfinite(values)][:count]


@lru_cache(maxsize=16)
def float32_case(name: str) -> tuple[Array, Array]:
    """Return operands of a function of one operand, and the results in float64."""
    x = np.concatenate([every_exponent(), working_range(name, "float32", 1 << 18)])
    with np.errstate(all="ignore"):
        return x, IN_FLOAT64[name](x.astype(np.float64)).astype(np.float64)


@lru_cache(maxsize=16)
def float64_case(name: str) -> tuple[Array, list[mpf]]:
    """Return operands at which the function is a number, and the results to many digits."""
    x = np.concatenate([any_float64(500), working_range(name, "float64", 2500)])
    if name.startswith("log"):
        x = x[x > (-1 if name == "log1p" else 0)]
    return x, [exact(name, value) for value in x]


def exact(name: str, *operands: float) -> mpf:
    """Return the function of floats to 60 digits."""
    with mp.workdps(DIGITS):
        return _EXACT[name](*(mpf(float(x)) for x in operands))


def errors32(found: Array, wanted: Array) -> Array:
    """Return the distances to the float64 `wanted` in ulps of float32, infinite if one is NaN.

    Infinity counts as 2**128, so overflowing too early or too late is an error of its size.
    """
    with np.errstate(all="ignore"):
        unit = np.spacing(np.minimum(np.abs(wanted), np.finfo(np.float32).max).astype(np.float32))
        bounded = np.clip(wanted, -_TOP32, _TOP32)
        off = np.abs(np.clip(found.astype(np.float64), -_TOP32, _TOP32) - bounded) / unit
    off[np.isnan(found) & np.isnan(wanted)] = 0
    return np.where(np.isnan(off), np.inf, off)


def error64(found: float, wanted: mpf) -> float:
    """Return the distance in ulps of float64, likewise."""
    if math.isnan(found):
        return math.inf
    size = float(abs(wanted)) if abs(wanted) < _TOP64 else math.inf
    unit = math.ulp(min(size, float(np.finfo(np.float64).max)))
    value = mpf(found) if math.isfinite(found) else math.copysign(1, found) * _TOP64
    bounded = wanted if abs(wanted) < _TOP64 else mpmath.sign(wanted) * _TOP64
    with mp.workdps(DIGITS):
        return float(abs(value - bounded) / unit)


def stated_errors() -> dict[tuple[str, str], float]:
    """Return the ulps that the page states, by function and dtype."""
    rows = [line.split("|")[1:-1] for line in PAGE.read_text().splitlines() if line[:3] == "| `"]
    stated: dict[tuple[str, str], float] = {}
    for name, _, single, double, *_ in rows:
        stated[name.strip(" `"), "float32"] = float(single)
        stated[name.strip(" `"), "float64"] = float(double)
    return stated
