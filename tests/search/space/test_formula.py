"""Recorded arithmetic gives what computing it directly gives, to the bit and in its type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from ansorc.search.space.formula import Array, Program, Tape, apply

ROWS = 40
Numbers = list[Array]


def columns(rng: np.random.Generator) -> Numbers:
    """Return int64, float32, float64 and bool numbers, small ones so that some are equal."""
    small = rng.integers(1, 9, (4, ROWS))
    return [small[0], small[1].astype(np.float32) / 3, small[2] / 7, small[3] > 4]


ONE, ZERO = np.ones(1), np.zeros(1)


def operators(i: Any, f: Any, d: Any, b: Any) -> list[Any]:
    return [i + 2, i - 1, 3 * i, i / 2, -i // 4, 7 % i, abs(-d), f - d, ~b, i % 3, 2 - i, 5 // i]


def comparisons(i: Any, f: Any, d: Any, b: Any) -> list[Any]:
    return [i == 3, i != 3, f < 1, f <= d, d > 0.5, d >= f, (i > 2) ^ b]


def powers(i: Any, f: Any, d: Any, b: Any) -> list[Any]:
    return [d**2.0, d**4.0, (d + 1) ** 0.25, i**2]


def types(i: Any, f: Any, d: Any, b: Any) -> list[Any]:
    return [f * 2.0, f * ONE, f + i, i * ONE, 0.0 + f, f.astype(np.float64), b * 1, f * d, i / i]


def neutral(i: Any, f: Any, d: Any, b: Any) -> list[Any]:
    return [
        i * 1,
        1.0 * i,
        i + 0,
        i - 0,
        i // 1,
        d // 1,
        f // 1.0,
        i / 1,
        f * 1,
        d + ZERO,
        d * ONE,
        f * np.float32(1),
    ]


def absorbing(i: Any, f: Any, d: Any, b: Any) -> list[Any]:
    return [b & np.array([False]), b | True, b & True, False | b, b & b, i & 1, i | i]


def choices(i: Any, f: Any, d: Any, b: Any) -> list[Any]:
    return [
        np.where(b, i, d), np.where(True, f, 1.0), np.where(np.array([False]), f, d),
        np.where(True, 2, f), np.where(b, f, 1), np.where(i > 3, 1.0, 2.0),
    ]  # fmt: skip


def functions(i: Any, f: Any, d: Any, b: Any) -> list[Any]:
    return [
        np.maximum(i, i), np.minimum(3, i), np.gcd(i, 4), np.ceil(f), np.clip(d, 0.2, f),
        np.logical_not(b), np.broadcast_to(i * 2, (ROWS,)), np.equal(i, i), np.absolute(f),
    ]  # fmt: skip


def repeated(i: Any, f: Any, d: Any, b: Any) -> list[Any]:
    return [(i * d) * (i * d), (i * d) + (i * d) + i * d, d * f * f + d]


def recorded(compute: Callable[..., list[Any]], probe: Numbers) -> tuple[Tape, Program]:
    tape = Tape(probe)
    return tape, tape.program(compute(*tape.inputs()))


def run(program: Program, numbers: Numbers) -> Numbers | None:
    return program.run([numbers[place] for place in program.inputs])


@pytest.mark.parametrize(
    "compute",
    [operators, comparisons, powers, types, neutral, absorbing, choices, functions, repeated],
)
def test_a_program_computes_what_was_recorded(compute: Callable[..., list[Any]]) -> None:
    rng = np.random.default_rng(1)
    _, program = recorded(compute, columns(rng))
    for _ in range(3):
        numbers = columns(rng)
        results = run(program, numbers)
        assert results is not None
        for result, expected in zip(results, compute(*numbers), strict=True):
            assert result.dtype == np.asarray(expected).dtype
            np.testing.assert_array_equal(np.broadcast_to(result, (ROWS,)), expected)


def test_the_same_arithmetic_is_recorded_once() -> None:
    tape = Tape([np.array([1, 2, 3]), np.array([4, 4, 4])])
    a, b = tape.inputs()
    results = [tape.number_of(cast(Array, a * b + 1)) for _ in range(2)]
    assert len(tape.steps) == 2
    assert results[0] == results[1]
    values = tape.program([cast(Array, a * b + 1)]).run([np.array([5]), np.array([6])])
    assert values is not None
    assert values[0].tolist() == [31]


def test_what_no_result_needs_is_not_computed() -> None:
    def first_alone(a: Any, b: Any) -> list[Any]:
        return [a + 1, a * b][:1]

    tape, program = recorded(first_alone, [np.arange(3), np.arange(3)])
    assert len(tape.steps) == 2
    assert (len(program.steps), program.inputs) == (1, (0,))


def test_a_population_that_the_probe_was_no_guide_to_is_refused() -> None:
    """Levels that are equal in the probe were taken for equal; others are not."""
    tape = Tape([np.array([2, 3]), np.array([2, 3])])
    a, b = tape.inputs()
    assert np.all(cast(Array, a == b))
    assert not np.all(cast(Array, a + 1 == b))
    program = tape.program([a])
    assert program.run([np.array([7]), np.array([7])]) is not None
    assert program.run([np.array([7]), np.array([8])]) is None


def test_a_formula_is_neither_true_nor_an_array() -> None:
    (formula,) = Tape([np.arange(3)]).inputs()
    with pytest.raises(TypeError, match="one number for each program"):
        bool(formula == 1)
    with pytest.raises(TypeError, match="a formula is no array"):
        np.asarray(formula)
    with pytest.raises(TypeError, match="NotImplemented"):
        np.add(np.zeros(3), cast(Array, formula), out=np.zeros(3))


@pytest.mark.parametrize("other", [None, [1, 2], "x", np.arange(3)])
def test_what_is_not_one_number_cannot_be_recorded(other: Any) -> None:
    (formula,) = Tape([np.arange(3)]).inputs()
    with pytest.raises(TypeError, match="beside formulas is one number"):
        np.add(cast(Array, formula), other)


def test_a_question_may_follow_a_long_chain_of_steps() -> None:
    (formula,) = Tape([np.arange(3)]).inputs()
    total = cast(Array, formula)
    for _ in range(5000):
        total = total + formula
    assert np.all(total < 10_003)


def test_other_functions_are_recorded_as_one_step() -> None:
    def count_smaller(numbers: Array, most: Array) -> Array:
        return np.asarray(np.searchsorted(np.arange(5), np.minimum(numbers, most)))

    tape = Tape([np.arange(3)])
    (formula,) = tape.inputs()
    result = apply(count_smaller, cast(Array, formula), np.array([2]))
    (values,) = tape.program([result]).run([np.array([0, 4, 1])]) or []
    assert values.tolist() == apply(count_smaller, np.array([0, 4, 1]), np.array([2])).tolist()
    assert len(tape.steps) == 1
