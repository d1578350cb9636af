"""The interpreter follows the words of expr.py and stmt.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorc.errors import IRError
from ansorc.ir.dtype import SCALARS
from ansorc.ir.interpret import interpret
from ansorc.ir.interpret_math import integer_range
from ansorc.ir.operator import MATH_FUNCTIONS
from ansorc.ir.parser import parse
from ansorc.ir.stmt import Function
from tests.support.ir_strategies import Options, arrays_for, functions
from tests.support.nightly import examples

INTEGERS = tuple(name for name in SCALARS if "int" in name)
FLOATS = ("float16", "float32", "float64")


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


TRUE_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sigmoid": _sigmoid,
    "rsqrt": lambda *args: 1 / math.sqrt(*args),
    "abs": abs,
    "round": round,
    "fma": lambda *args: args[0] * args[1] + args[2],
    "mod": lambda *args: args[0] % args[1],
    "floor_divide": lambda *args: args[0] // args[1],
}


def run(text: str, *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Run the kernel on the arrays and return the last."""
    interpret(parse(text), arrays)
    return arrays[-1]


def evaluate(expr: str, dtype: str, *values: Any, into: str = "") -> Any:
    """Return `expr` over the elements A[0], B[0], … that hold the values."""
    arrays = [np.array([value]).astype(dtype) for value in values]
    out = np.zeros(1, into or dtype)
    params = [f"{name}: {dtype}[1]" for name, _ in zip("ABC", values, strict=False)]
    text = f"kernel k({', '.join(params)}, R: {out.dtype}[1]):\n    R[0] = {expr}\n"
    return run(text, *arrays, out)[0]


@pytest.mark.parametrize("dtype", INTEGERS)
@examples(12, nightly=60)
@given(data=st.data())
def test_integer_arithmetic_wraps_around(dtype: str, data: st.DataObject) -> None:
    low, high = integer_range(SCALARS[dtype])
    a, b = (data.draw(st.integers(low, high)) for _ in range(2))
    for symbol, exact in (("+", a + b), ("-", a - b), ("*", a * b)):
        wrapped = (exact - low) % (high - low + 1) + low
        assert evaluate(f"A[0] {symbol} B[0]", dtype, a, b) == wrapped


@pytest.mark.parametrize("dtype", INTEGERS)
@examples(9, nightly=40)
@given(data=st.data())
def test_division_rounds_down_and_the_rest_has_the_sign_of_the_divisor(
    dtype: str, data: st.DataObject
) -> None:
    low, high = integer_range(SCALARS[dtype])
    a, b = data.draw(st.integers(low, high)), data.draw(st.integers(max(low, -5), 5).filter(bool))
    quotient = a // b
    assert evaluate("A[0] // B[0]", dtype, a, b) == (quotient if quotient <= high else low)
    assert evaluate("A[0] % B[0]", dtype, a, b) == a % b


@pytest.mark.parametrize("dtype", FLOATS)
@examples(12, nightly=60)
@given(data=st.data())
def test_float_arithmetic_rounds_to_the_dtype(dtype: str, data: st.DataObject) -> None:
    with np.errstate(all="ignore"):
        a, b = (np.array(data.draw(st.floats())).astype(dtype)[()] for _ in range(2))
        for symbol, exact in (("+", a + b), ("-", a - b), ("*", a * b), ("/", a / b)):
            found = evaluate(f"A[0] {symbol} B[0]", dtype, a, b)
            assert found.tobytes() == exact.tobytes() or (math.isnan(found) and math.isnan(exact))
    for symbol, function in (("min", np.minimum), ("max", np.maximum)):
        assert_same(evaluate(f"{symbol}(A[0], B[0])", dtype, a, b), function(a, b))


def assert_same(found: Any, wanted: Any) -> None:
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("target", SCALARS)
@pytest.mark.parametrize("source", SCALARS)
def test_casts_are_those_of_numpy(source: str, target: str) -> None:
    for value in (0, 1, 3, 100):
        wanted = np.array(value).astype(source).astype(target)
        assert evaluate(f"cast({target}, A[0])", source, value, into=target) == wanted


@pytest.mark.parametrize(
    ("source", "target", "value", "wanted"),
    [
        ("float32", "int32", -2.75, -2),
        ("int32", "uint8", -1, 255),
        ("int64", "int8", 200, -56),
        ("uint64", "int64", 2**64 - 1, -1),
        ("float64", "float32", 0.1, np.float32(0.1)),
        ("float64", "float16", 1e6, np.inf),
        ("int64", "float32", 2**60 + 2**36 + 1, np.float32(2.0**60 + 2.0**37)),
        ("float32", "bool", 0.5, True),
    ],
)
def test_casts_that_change_the_value(source: str, target: str, value: Any, wanted: Any) -> None:
    assert evaluate(f"cast({target}, A[0])", source, value, into=target) == wanted


@pytest.mark.parametrize("name", MATH_FUNCTIONS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_math_functions_round_the_true_value(name: str, dtype: str) -> None:
    function = TRUE_FUNCTIONS.get(name) or getattr(math, name)
    for value in (0.5, 1.0, 1.5, 2.5, 3.25):
        args = (value, 1.25, -0.75)[: MATH_FUNCTIONS[name]]
        call = f"{name}({', '.join('ABC'[: len(args)])})".replace("A", "A[0]")
        call = call.replace("B", "B[0]").replace("C", "C[0]")
        found = evaluate(call, dtype, *args)
        np.testing.assert_allclose(found, np.array(function(*args)).astype(dtype), rtol=1e-15)


@pytest.mark.parametrize("value", [-1000.0, -740.0, 1000.0])
def test_sigmoid_neither_overflows_nor_vanishes_too_early(value: float) -> None:
    wanted = math.exp(value) if value < 0 else 1.0
    assert evaluate("sigmoid(A[0])", "float64", value) == wanted


def test_fma_rounds_once() -> None:
    # a * b is 1 - 2**-46 exactly, which rounds to 1 if it is rounded before -1 is added
    a, b = 1 + 2.0**-23, 1 - 2.0**-23
    assert evaluate("fma(A[0], B[0], C[0])", "float32", a, b, -1.0) == -(2.0**-46)
    assert evaluate("A[0] * B[0] + C[0]", "float32", a, b, -1.0) == 0.0
    # 1 + 2**-24 + 2**-80: a float64 in between drops the last term, and the tie goes to even
    tie = evaluate("fma(A[0], B[0], C[0])", "float32", 2.0**-24, 1 + 2.0**-23, 1.0)
    assert tie == np.float32(1 + 2.0**-23)
    assert evaluate("fma(A[0], B[0], C[0])", "float64", np.inf, 1.0, 2.0) == np.inf


def test_select_evaluates_only_the_chosen_arm() -> None:
    text = """
kernel shift(A: float32[4], B: float32[4]):
    for i in 0..4:
        B[i] = (A[i - 1] if i >= 1 else 0.0)
"""
    assert_same(run(text, np.arange(1, 5, dtype="f4"), np.empty(4, "f4")), [0, 1, 2, 3])


def test_select_by_lanes_evaluates_only_the_chosen_lanes() -> None:
    text = """
kernel shift(A: float32[4], B: float32[4]):
    B[ramp(0, 1, 4)] = (A[ramp(-1, 1, 4)] if ramp(0, 1, 4) >= 1 else 0.0)
"""
    assert_same(run(text, np.arange(1, 5, dtype="f4"), np.empty(4, "f4")), [0, 1, 2, 3])


def test_a_vector_store_reads_before_it_writes() -> None:
    text = """
kernel move(A: int64[5]):
    A[ramp(1, 1, 4)] = A[ramp(0, 1, 4)]
"""
    assert_same(run(text, np.arange(5)), [0, 0, 1, 2, 3])


def test_the_last_lane_wins() -> None:
    text = """
kernel collide(A: int64[2]):
    A[ramp(0, 1, 5) % 2] = ramp(10, 1, 5)
"""
    assert_same(run(text, np.zeros(2, "i8")), [14, 13])


def test_scalars_go_with_vectors() -> None:
    text = """
kernel scale(A: float32[2, 4], B: float32[2, 4]):
    for i in 0..2:
        B[i, ramp(0, 1, 4)] = A[i, ramp(3, -1, 4)] * 2.0 + broadcast(A[i, 0], 4)
"""
    a = np.arange(8, dtype="f4").reshape(2, 4)
    assert_same(run(text, a, np.zeros_like(a)), a[:, ::-1] * 2 + a[:, :1])


def test_branches_and_empty_statements() -> None:
    text = """
kernel choose(A: int64[3]):
    for i in 0..3:
        if i == 1 or i == 2 and not True:
            A[i] = 10
        else:
            pass
"""
    assert_same(run(text, np.zeros(3, "i8")), [0, 10, 0])


def test_twenty_five_nested_loops() -> None:
    loops = "".join("    " * (n + 1) + f"for i{n} in 0..1:\n" for n in range(24))
    text = f"kernel deep(A: int64[1]):\n{loops}{'    ' * 25}for k in 0..7:\n{'    ' * 26}"
    assert run(text + "A[i3] = A[i0] + k\n", np.zeros(1, "i8"))[0] == 21


def test_arrays_need_not_be_contiguous() -> None:
    whole = np.zeros((4, 6), "f4")
    text = "kernel one(A: float32[2, 3]):\n    A[1, 2] = 5.0\n"
    run(text, whole[::2, ::2])
    assert whole[2, 4] == 5.0
    assert whole.sum() == 5.0


@pytest.mark.parametrize("index", ["i - 1", "i + 1", "i * 2"])
def test_an_index_outside_the_buffer_is_refused(index: str) -> None:
    text = f"kernel out(A: float32[3, 4]):\n    for i in 0..4:\n        A[1, {index}] = 1.0\n"
    array = np.zeros((3, 4), "f4")
    value = -1 if "-" in index else 4
    place = rf"kernel 'out' goes to A\[1, {index.replace('+', '.').replace('*', '.')}\]"
    where = rf"index {value}, .* dimension 1 of A: float32\[3, 4\]"
    with pytest.raises(IRError, match=f"{place} with {where}"):
        run(text, array)
    assert_same(array, np.zeros((3, 4)))


def test_loaded_indices_are_checked() -> None:
    text = "kernel gather(I: int64[1], A: float32[4]):\n    A[I[0]] = A[I[0] * 2]\n"
    run(text, np.array([1]), np.zeros(4, "f4"))
    with pytest.raises(IRError, match=r"index 6, which is outside dimension 0 of A"):
        run(text, np.array([3]), np.zeros(4, "f4"))
    overflow = np.array([2**62])  # times 2 it wraps around to a negative index
    with pytest.raises(IRError, match=r"index -9223372036854775808"):
        run(text, overflow, np.zeros(4, "f4"))


def test_division_by_zero_is_refused() -> None:
    text = "kernel div(A: int32[2]):\n    for i in 0..2:\n        A[0] = A[0] // A[1]\n"
    with pytest.raises(IRError, match=r"kernel 'div' divides by zero in A\[0\] // A\[1\]"):
        run(text, np.zeros(2, "i4"))


def test_unfitting_arrays_are_refused() -> None:
    text = "kernel k(A: float32[2]):\n    A[0] = 1.0\n"
    with pytest.raises(IRError, match="kernel 'k' takes 1 arrays, not 2"):
        run(text, np.zeros(2, "f4"), np.zeros(2, "f4"))
    with pytest.raises(IRError, match=r"takes A: float32\[2\], not an array float64\[2\]"):
        run(text, np.zeros(2))
    with pytest.raises(IRError, match=r"not an array float32\[3\]"):
        run(text, np.zeros(3, "f4"))


def test_illegal_programs_are_refused() -> None:
    with pytest.raises(IRError, match="is not legal"):
        run("kernel k(A: float32[2]):\n    A[0] = 1\n", np.zeros(2, "f4"))


@examples(24, nightly=100)
@given(functions(Options(is_wild=True)))
def test_wild_programs_run_without_warnings(function: Function) -> None:
    interpret(function, arrays_for(function, 0))
