"""Operators on the bits of integers: the same numbers everywhere, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorc.lang as ac
from ansorc.errors import LanguageError
from ansorc.ir.aligned import Array
from ansorc.ir.arith.bits import bit_bounds
from ansorc.ir.arith.interval import bounds
from ansorc.ir.arith.simplify import simplify
from ansorc.ir.dtype import INT64
from ansorc.ir.expr import Binary, BinaryOp, Var, const
from ansorc.ir.operator import BITWISE, SHIFTS
from tests.support.everywhere import everywhere
from tests.support.nightly import examples

DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
NUMPY: dict[str, Callable[..., Any]] = {
    "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor, "<<": np.left_shift,
    ">>": np.right_shift, "+": np.add, "*": np.multiply,
}  # fmt: skip
UNARY = ("~", "popcount", "clz", "ctz")
ELEMENTS = 24


def digits(values: Array) -> list[str]:
    """Return the bits of each value as text."""
    return [np.binary_repr(int(value), values.itemsize * 8) for value in values]


def unary_of_numpy(name: str, values: Array) -> Array:
    """Return a function of bits, by their text."""
    if name == "~":
        return np.invert(values)
    texts = digits(values)
    counts = {
        "popcount": [text.count("1") for text in texts],
        "clz": [len(text) - len(text.lstrip("0")) for text in texts],
        "ctz": [len(text) - len(text.rstrip("0")) for text in texts],
    }
    return np.array(counts[name], values.dtype)


Formula = tuple[Any, ...]


def formulas(depth: int) -> st.SearchStrategy[Formula]:
    """Draw operators over the inputs 0, 1, 2; a shift is by input 2 or by a number."""
    if depth == 0:
        return st.tuples(st.sampled_from((0, 1, 2)))
    inner = formulas(depth - 1)
    both = st.tuples(st.sampled_from(("&", "|", "^", "+", "*")), inner, inner)
    shifts = st.tuples(st.sampled_from(("<<", ">>")), inner, st.sampled_from(((2,), 0, 1, 5, 7)))
    return st.one_of(inner, both, shifts, st.tuples(st.sampled_from(UNARY), inner))


def of_numpy(formula: Formula | int, inputs: list[Array]) -> Any:
    if isinstance(formula, int):
        return np.array(formula, inputs[0].dtype)
    if len(formula) == 1:
        return inputs[formula[0]]  # pyright: ignore[reportUnknownVariableType]
    parts: list[Any] = [of_numpy(part, inputs) for part in formula[1:]]
    return unary_of_numpy(formula[0], *parts) if len(parts) == 1 else NUMPY[formula[0]](*parts)


def of_language(formula: Formula | int, inputs: list[Any]) -> Any:
    if isinstance(formula, int):
        return formula
    if len(formula) == 1:
        return inputs[formula[0]]
    parts = [of_language(part, inputs) for part in formula[1:]]
    if formula[0] == "~":
        return ~parts[0]
    if len(parts) == 1:
        return getattr(ac, formula[0])(*parts)
    return apply(formula[0], parts[0], parts[1])


def apply(symbol: str, a: Any, b: Any) -> Any:
    """Return `a symbol b` by Python's operator."""
    match symbol:
        case "&":
            return a & b
        case "|":
            return a | b
        case "^":
            return a ^ b
        case "<<":
            return a << b
        case ">>":
            return a >> b
        case "+":
            return a + b
        case _:
            return a * b


def random_inputs(dtype: str, seed: int) -> list[Array]:
    """Return two arrays of any bits, and counts of shifts, also negative ones and too large."""
    rng, info = np.random.default_rng(seed), np.iinfo(dtype)
    arrays = [rng.integers(info.min, info.max, ELEMENTS, dtype, endpoint=True) for _ in range(2)]
    arrays[0][:4] = 0, info.min, info.max, 1
    low, high = max(info.min, -3), info.bits + 3
    return [*arrays, rng.integers(low, high, ELEMENTS, dtype)]


def element_of(formula: Formula, inputs: list[ac.Tensor]) -> Callable[[Any], Any]:
    return lambda i: of_language(formula, [tensor[i] for tensor in inputs])


def dag_of(chosen: list[Formula], dtype: str) -> ac.ComputeDAG:
    inputs = [ac.placeholder(ELEMENTS, name, dtype) for name in "ABN"]
    outputs = [
        ac.compute(ELEMENTS, element_of(formula, inputs), f"out{number}")
        for number, formula in enumerate(chosen)
    ]
    return ac.ComputeDAG([*inputs, *outputs])


def check(chosen: list[Formula], dtype: str, seed: int, *, emulates: bool) -> None:
    inputs, dag = random_inputs(dtype, seed), dag_of(chosen, dtype)
    assert ac.ComputeDAG.from_text(dag.to_text()) == dag
    with np.errstate(over="ignore"):
        expected = [of_numpy(formula, inputs) for formula in chosen]
    for way, found in everywhere(dag, inputs, emulates=emulates):
        for formula, got, wanted in zip(chosen, found, expected, strict=True):
            np.testing.assert_array_equal(got, wanted, f"{way}: {formula} of {dtype}")


@examples(4, nightly=80)
@given(st.lists(formulas(3), min_size=3, max_size=3), st.sampled_from(DTYPES), st.integers(0, 99))
def test_random_formulas(chosen: list[Formula], dtype: str, seed: int) -> None:
    check(chosen, dtype, seed, emulates=False)


EVERY: list[Formula] = [
    *((op, (0,), (1,)) for op in "&|^"), ("<<", (0,), (2,)), (">>", (0,), (2,)),
    ("<<", (0,), 5), (">>", (0,), 5), *((op, (0,)) for op in UNARY),
]  # fmt: skip
"""Each operator on its own."""


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_every_operator_on_both_back_ends(dtype: str) -> None:
    check(EVERY, dtype, 0, emulates=dtype in ("int8", "uint32", "int64"))


def body_of(*tensors: ac.Tensor) -> str:
    return str(ac.ComputeDAG(tensors).ops[-1].body)


def test_conditions_are_joined_as_before() -> None:
    a = ac.placeholder(4, "A")
    both = ac.compute(4, lambda i: (a[i] > 0.0) & ~(a[i] > 2.0) ^ (a[i] == 1.0), "c")
    assert body_of(a, both) == "(A[i] > 0.0 and not A[i] > 2.0) != (A[i] == 1.0)"


def test_numbers_on_the_left() -> None:
    n = ac.placeholder(4, "N", "uint8")
    bodies: list[Callable[[Any], Any]] = [
        lambda i: 6 & n[i],
        lambda i: 6 | n[i],
        lambda i: np.uint8(6) ^ n[i],
        lambda i: 1 << n[i],
        lambda i: 200 >> n[i],
    ]
    texts = [body_of(n, ac.compute(4, body, "c")) for body in bodies]
    assert texts == [f"uint8({x}) N[i]".replace(" ", f" {op} ") for x, op in LEFT]


LEFT = ((6, "&"), (6, "|"), (6, "^"), (1, "<<"), (200, ">>"))


def test_bits_of_axes_are_arithmetic() -> None:
    """So that layouts, tiles and bounds know them, and equal definitions have equal keys."""
    table = ac.placeholder((8, 16), "T")
    natural = ac.compute(128, lambda i: table[i >> 4, i & 15], "c")
    plain = ac.compute(128, lambda i: table[i // 16, i % 16], "c")
    assert ac.ComputeDAG([table, natural]).key == ac.ComputeDAG([table, plain]).key
    shifted = ac.compute(4, lambda i: table[(i << 1) >> 1, 0], "c")
    assert body_of(table, shifted) == "T[i * 2 // 2, 0]"


def test_indices_of_data_are_bounded_by_bits() -> None:
    """A mask, and a shift of a promised range, prove that an index is inside of its tensor."""
    table = ac.placeholder(8, "T")
    index = ac.placeholder(32, "I", "int64")
    picked = ac.compute(32, lambda i: table[index[i] & 7], "c")
    dag = ac.ComputeDAG([index, table, picked])
    rng = np.random.default_rng(0)
    places, values = rng.integers(-(2**62), 2**62, 32), rng.random(8, np.float32)
    for _, (found,) in everywhere(dag, [places, values], emulates=False):
        np.testing.assert_array_equal(found, values[places & 7])


FIRST, SECOND = Var("i"), Var("j")


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (Binary(BinaryOp.SHR, FIRST, const(3)), (0, 12)),
        (Binary(BinaryOp.BIT_AND, FIRST, const(7)), (0, 7)),
        (Binary(BinaryOp.BIT_AND, Var("unknown"), const(7)), (0, 7)),
        (Binary(BinaryOp.SHL, SECOND, const(2)) + 1, (-11, 13)),
        (Binary(BinaryOp.BIT_OR, FIRST, const(128)), (128, 255)),
        (Binary(BinaryOp.BIT_XOR, SECOND, const(-1)), (-4, 3)),
    ],
)
def test_bounds(expr: Any, expected: tuple[int, int]) -> None:
    assert bounds(expr, {"i": (0, 99), "j": (-3, 3)}) == expected


def test_bits_of_indices_are_simplified() -> None:
    ranges = {"i": (0, 99), "j": (0, 7)}
    of_sum = FIRST * 8 + SECOND
    assert simplify(Binary(BinaryOp.SHR, of_sum, const(3)), ranges) == FIRST
    assert simplify(Binary(BinaryOp.BIT_AND, of_sum, const(7)), ranges) == SECOND
    assert simplify(Binary(BinaryOp.SHL, FIRST, const(3)) - FIRST * 8 + SECOND, ranges) == SECOND


@examples(36, nightly=2000)
@given(st.sampled_from(BITWISE), st.tuples(*[st.tuples(*[st.integers(-20, 20)] * 2)] * 2))
def test_bounds_hold(op: BinaryOp, ends: tuple[tuple[int, int], tuple[int, int]]) -> None:
    """All pairs of numbers of 6 bits within bounds give what the bounds say."""
    (a, b), (c, d) = map(sorted, ends)
    low, high = bit_bounds(op, (a, b), (c, d), 6)
    for x in range(a, b + 1):
        for y in range(c, d + 1):
            beyond = op in SHIFTS and not 0 <= y < 6
            if op is BinaryOp.SHL:
                value = 0 if beyond else x << y
            elif op is BinaryOp.SHR:
                value = (x >> 6) if beyond else x >> y
            else:
                value = apply(op.value, x, y)
            assert low <= value <= high, (op, x, y)


def test_dtype_of_counts_is_that_of_the_operand() -> None:
    n = ac.placeholder(4, "N", "uint8")
    assert ac.compute(4, lambda i: ac.popcount(n[i]), "c").dtype.name == "uint8"
    wide = ac.compute(4, lambda i: ac.popcount(n[i].astype("int64")), "c")
    assert ac.ComputeDAG([n, wide]).ops[0].buffer.dtype == INT64


F: Any = ac.placeholder(4, "F")
M: Any = ac.placeholder(4, "M", "bool")
U: Any = ac.placeholder(4, "U", "uint8")
S: Any = ac.placeholder(4, "S", "int32")


REFUSALS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda i: F[i] & F[i], "'&' needs a bool or an integer on both sides, not a float"),
    (lambda i: M[i] | F[i], "'|' needs a bool or an integer on both sides, not a float"),
    (lambda i: M[i] & S[i], "'&' needs a bool, not int32; compare first"),
    (lambda i: U[i] ^ S[i], "'^' on uint8 and int32: cast one operand"),
    (lambda i: U[i] & 256, "256"),
    (lambda i: ~F[i], "'~' needs a bool, not float32; compare first"),
    (lambda i: F[i] << 1, "'<<' shifts the bits of an integer, not of float32; cast first"),
    (lambda i: M[i] >> M[i], "'>>' shifts the bits of an integer, not of bool; cast first"),
    (lambda i: U[i] << 8, "'<<' by 8: uint8 has 8 bits; shift by 0 to 7"),
    (lambda i: S[i] >> -1, "'>>' by -1: int32 has 32 bits; shift by 0 to 31"),
    (lambda i: i >> 64, "'>>' by 64: int64 has 64 bits; shift by 0 to 63"),
    (lambda i: S[i] & True, "a Python bool is not a condition of the program"),
    (lambda i: ac.popcount(F[i]), "popcount counts bits of an integer, not of float32"),
    (lambda i: ac.clz(M[i]), "clz counts bits of an integer, not of bool; cast first"),
]


@pytest.mark.parametrize(("body", "words"), REFUSALS)
def test_refusals(body: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(LanguageError) as caught:
        ac.compute(4, body, "c")
    assert words in str(caught.value)
