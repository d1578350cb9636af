"""How accurate the math functions are: every exponent of float32, random float64, known cases."""

from __future__ import annotations

import numpy as np
import pytest

from ansorc.lang import functions
from tests.codegen.llvm.vector_math.math_kernels import DTYPES, TARGETS, UNARY, WRITTEN, evaluate
from tests.codegen.llvm.vector_math.math_references import (
    IN_FLOAT64,
    any_float64,
    error64,
    errors32,
    every_exponent,
    exact,
    float32_case,
    float64_case,
    stated_errors,
)  # fmt: skip

MOST_ULPS = 4.0
TO_THE_BIT = {"fmod", "mod", "floor_divide"}
"""Functions that give NumPy's results to the bit, which test_division.py compares."""
STATED = stated_errors()


def test_the_page_states_every_function_within_the_bound() -> None:
    written = {(name, dtype) for name in WRITTEN if name not in TO_THE_BIT for dtype in DTYPES}
    made_of_these = {name for name, _ in set(STATED) - written}
    assert written <= set(STATED)
    assert all(hasattr(functions, name) for name in made_of_these)
    assert all(0.5 <= ulps <= MOST_ULPS for ulps in STATED.values())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", UNARY)
def test_float32(name: str, target: str) -> None:
    x, wanted = float32_case(name)
    errors = errors32(evaluate(name, x, target=TARGETS[target]), wanted)
    worst = int(errors.argmax())
    assert errors[worst] <= STATED[name, "float32"], x[worst]


@pytest.mark.parametrize("name", UNARY)
def test_float64(name: str) -> None:
    x, wanted = float64_case(name)
    for target in TARGETS.values():
        found = evaluate(name, x, target=target)
        errors = [error64(float(y), z) for y, z in zip(found, wanted, strict=True)]
        worst = int(np.argmax(errors))
        assert errors[worst] <= STATED[name, "float64"], (x[worst], target.cpu)


@pytest.mark.parametrize("target", TARGETS)
def test_float32_power(target: str) -> None:
    rng = np.random.default_rng(3)
    x = np.abs(every_exponent())
    near_one = (1 + rng.uniform(-0.01, 0.01, x.size)).astype(np.float32)
    # exponents that put the result between the smallest and the largest number, and beyond
    with np.errstate(all="ignore"):
        limit = np.nan_to_num(128 / np.abs(np.log2(x.astype(np.float64))), posinf=1e30)
        y = (rng.uniform(-1.2, 1.2, x.size) * limit).astype(np.float32)
    for base, exponent in ((x, y), (near_one, (y * 0 + rng.uniform(-9e3, 9e3, x.size)))):
        power = exponent.astype(np.float32)
        with np.errstate(all="ignore"):
            wanted = IN_FLOAT64["pow"](base.astype(np.float64), power.astype(np.float64))
        errors = errors32(evaluate("pow", base, power, target=TARGETS[target]), wanted)
        worst = int(errors.argmax())
        assert errors[worst] <= STATED["pow", "float32"], (base[worst], power[worst])


def test_float64_power() -> None:
    rng = np.random.default_rng(4)
    x = np.abs(any_float64(1500))
    x[:700] = 1 + rng.choice([-0.5, 1], 700) * 2.0 ** rng.uniform(-51, -1, 700)
    y = rng.uniform(-1.1, 1.1, x.size) * 1024 / np.abs(np.log2(x))
    wanted = [exact("pow", a, b) for a, b in zip(x, y, strict=True)]
    for target in TARGETS.values():
        found = evaluate("pow", x, y, target=target)
        errors = [error64(float(p), q) for p, q in zip(found, wanted, strict=True)]
        worst = int(np.argmax(errors))
        assert errors[worst] <= STATED["pow", "float64"], (x[worst], y[worst], target.cpu)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_next_to_multiples_of_a_quarter_turn(name: str) -> None:
    """There the result is what the reduction leaves, up to and beyond the bound for the library."""
    for dtype, error in (("float32", 1e5), ("float64", 1e9)):
        turns = np.unique(np.geomspace(1, 4 * error, 1500).astype(np.int64))
        x = (turns * (np.pi / 2)).astype(dtype)
        wanted = [exact(name, value) for value in x]
        for target in TARGETS.values():
            found = evaluate(name, x, target=target)
            pairs = zip(found, wanted, strict=True)
            if dtype == "float64":
                errors = np.array([error64(float(y), z) for y, z in pairs])
            else:
                errors = errors32(found, np.array([float(z) for z in wanted]))
            assert errors.max() <= STATED[name, dtype], x[int(errors.argmax())]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", TARGETS)
def test_powers_of_two_are_exact(dtype: str, target: str) -> None:
    info = np.finfo(dtype)
    exponents = np.arange(info.minexp - info.nmant, info.maxexp).astype(dtype)
    powers = np.ldexp(np.ones(1, dtype), exponents.astype(np.int32))
    np.testing.assert_array_equal(evaluate("exp2", exponents, target=TARGETS[target]), powers)
    np.testing.assert_array_equal(evaluate("log2", powers, target=TARGETS[target]), exponents)
    two = np.full(exponents.size, 2, dtype)
    found = evaluate("pow", two, exponents, target=TARGETS[target])
    np.testing.assert_array_equal(found, powers)
