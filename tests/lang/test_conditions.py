"""Conditions of definitions are what NumPy says of the same elements, whatever runs them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.ir.aligned import Array
from ansorc.ir.interpret import interpret
from ansorc.lang.reference import evaluate

ROWS, COLUMNS = 5, 8
AT_ONCE = 16
"""Conditions in one program: compiling takes longer than all else."""
NUMBERS = {
    "float32": (-2.0, -1.0, -0.0, 0.0, 1.0, 2.0, np.inf, np.nan),
    "float64": (-1.5, 0.0, 1.5, np.nan),
    "int8": (-128, -1, 0, 1, 127),
    "uint8": (0, 1, 2, 255),
    "int64": (-1, 0, 1, 2),
}
"""Few values, so that many elements are equal."""
TARGETS = ("native", "cuda-emulated -arch=sm_80")

Draw = np.random.Generator
COMPARE: Sequence[Callable[[Any, Any], Any]] = (
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """The same of elements in the language and of whole arrays in NumPy."""

    element: Any
    array: Any


@dataclass(frozen=True)
class Words:
    """What joins conditions: in the language, and in NumPy."""

    all_of: Callable[..., Any]
    any_of: Callable[..., Any]
    none: Callable[[Any], Any]


LANGUAGE = Words(ac.all_of, ac.any_of, ac.logical_not)


def both(a: Any, b: Any) -> Any:
    return a & b


def either(a: Any, b: Any) -> Any:
    return a | b


SYMBOLS = Words(both, either, operator.invert)


def number(draw: Draw, inputs: dict[str, Pair]) -> tuple[str, Pair]:
    """Return an element of an input or an axis, perhaps with some arithmetic, and its dtype."""
    dtype = str(draw.choice(list(inputs)))
    found = inputs[dtype]
    if dtype == "int64" and draw.random() < 0.5:
        found = Pair(found.element % 3, found.array % 3)
    elif "float" in dtype and draw.random() < 0.3:
        found = Pair(abs(found.element) * 2.0, np.abs(found.array) * 2.0)
    return dtype, found


def comparison(draw: Draw, inputs: dict[str, Pair]) -> Pair:
    """Return a comparison of two numbers of one dtype, or of one with a literal of either kind."""
    dtype, left = number(draw, inputs)
    compare = COMPARE[int(draw.integers(len(COMPARE)))]
    if draw.random() < 0.5:
        value = np.array(draw.choice(NUMBERS[dtype])).astype(dtype)[()]
        literal = value if draw.random() < 0.5 else value.item()
        if draw.random() < 0.5:
            return Pair(compare(literal, left.element), compare(value, left.array))
        return Pair(compare(left.element, literal), compare(left.array, value))
    right = inputs[dtype]
    return Pair(compare(left.element, right.element), compare(left.array, right.array))


def condition(draw: Draw, inputs: dict[str, Pair], depth: int) -> Pair:
    """Return a random condition."""
    if not depth or draw.random() < 0.2:
        return comparison(draw, inputs)
    parts = [condition(draw, inputs, depth - 1) for _ in range(2)]
    (a, x), (b, y) = ((part.element, part.array) for part in parts)
    words = LANGUAGE if draw.random() < 0.5 else SYMBOLS
    match int(draw.integers(6)):
        case 0:
            return Pair(words.all_of(a, b), x & y)
        case 1:
            return Pair(words.any_of(a, b), x | y)
        case 2:
            return Pair(words.none(a), ~x)
        case 3:
            return Pair(a == b, x == y)
        case 4:
            return Pair(a ^ b if draw.random() < 0.5 else a != b, x != y)
        case _:
            return Pair(ac.if_then_else(a, b, words.none(b)), np.where(x, y, ~y))


def value_of(draw: Draw, found: Pair) -> Pair:
    """Return a number or a bool that depends on a condition."""
    test, known = found.element, found.array
    match int(draw.integers(4)):
        case 0:
            return Pair(test * 1.5, known * np.float32(1.5))
        case 1:
            return Pair(2 + test, 2 + known.astype(np.int64))
        case 2:
            return Pair(ac.if_then_else(test, 3, -4), np.where(known, 3, -4))
        case _:
            return found


def program(seed: int) -> tuple[ac.ComputeDAG, list[Array], list[Array]]:
    """Return a program of random conditions, its inputs, and what NumPy makes of them."""
    shape = ROWS, COLUMNS
    draw = np.random.default_rng(seed)
    tensors = {d: ac.placeholder(shape, f"in_{d}", d) for d in NUMBERS}
    arrays = {d: draw.choice(values, shape).astype(d) for d, values in NUMBERS.items()}
    expected: list[Array] = []

    def body(i: ac.Scalar, j: ac.Scalar) -> tuple[ac.Scalar, ...]:
        row, column = np.indices(shape)
        axes = {"int64": Pair(i, row)}, {"int64": Pair(j, column)}
        read = {d: Pair(tensor[i, j], arrays[d]) for d, tensor in tensors.items()}
        elements: list[ac.Scalar] = []
        for place in range(AT_ONCE):
            inputs = read | axes[place % 2] if place % 3 else read
            with np.errstate(invalid="ignore"):
                found = value_of(draw, condition(draw, inputs, 3))
            expected.append(np.broadcast_to(found.array, shape))
            elements.append(found.element)
        return tuple(elements)

    outputs = ac.compute_tuple(shape, body, "out")
    return ac.ComputeDAG([*tensors.values(), *outputs]), list(arrays.values()), expected


def check(dag: ac.ComputeDAG, outputs: Sequence[Array], expected: Sequence[Array]) -> None:
    """Compare outputs with what NumPy says; the same bits, but a number's dtype may be wider."""
    for buffer, found, known in zip(dag.outputs, outputs, expected, strict=True):
        np.testing.assert_array_equal(found, known.astype(found.dtype), err_msg=buffer.name)


def programs(count: int) -> list[int]:
    """Return the seeds of as many programs as have `count` conditions."""
    return list(range(-(-count // AT_ONCE)))


@pytest.mark.parametrize(
    ("target", "count"),
    [(target, 2 * AT_ONCE) for target in TARGETS]
    + [pytest.param(target, 2048, marks=pytest.mark.nightly) for target in TARGETS],
)
def test_conditions_are_those_of_numpy(target: str, count: int) -> None:
    for seed in programs(count):
        dag, inputs, expected = program(seed)
        outputs = [np.empty(b.shape, b.dtype.numpy) for b in dag.outputs]
        ac.build(dag, target=target, name="conditions")(*inputs, *outputs)
        check(dag, outputs, expected)


@pytest.mark.parametrize("count", [64, pytest.param(2048, marks=pytest.mark.nightly)])
def test_what_defines_them_says_so_too(count: int) -> None:
    for seed in programs(count):
        dag, inputs, expected = program(seed)
        check(dag, evaluate(dag, inputs), expected)
        outputs = [np.empty(b.shape, b.dtype.numpy) for b in dag.outputs]
        interpret(ac.lower(ac.schedule(dag)), [*inputs, *outputs])
        check(dag, outputs, expected)
        assert ac.ComputeDAG.from_text(dag.to_text()).to_text() == dag.to_text()
