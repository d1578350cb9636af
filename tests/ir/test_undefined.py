"""What nobody wrote: the interpreter lets no result, and no choice, depend on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ansorc.errors import IRError
from ansorc.ir.dtype import SCALARS
from ansorc.ir.interpret import interpret, interpret_partly
from ansorc.ir.parser import parse

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = tuple(name for name in SCALARS if "int" in name)


def with_missing(dtype: str, statement: str, *, more: str = "") -> str:
    """A kernel where T[0] is 1 and T[1] was never written, then `statement`."""
    one = {"bool": "True"}.get(dtype, "1.0" if dtype in FLOATS else "1")
    one = one if dtype in ("int64", "float32", "bool") else f"{dtype}({one})"
    return f"""
kernel k(A: {dtype}[2], R: {dtype}[2]{more}):
    alloc T: {dtype}[2] local
    T[0] = {one}
    {statement}
"""


def run(text: str, *, fresh_outputs: bool = False) -> list[np.ndarray[Any, Any]]:
    function = parse(text)
    arrays = [np.ones(buffer.shape, buffer.dtype.numpy) for buffer in function.params]
    interpret(function, arrays, fresh_outputs=fresh_outputs)
    return arrays


def is_refused(text: str) -> str:
    with pytest.raises(IRError) as caught:
        run(text)
    return str(caught.value)


OF_FLOATS = (
    "T[1]", "T[1] + A[0]", "A[0] - T[1]", "{zero} * T[1]", "T[1] * {zero}", "A[0] / T[1]",
    "min(T[1], A[0])", "max(A[0], T[1])", "exp(T[1])", "pow(A[0], T[1])", "fma({zero}, T[1], A[0])",
    "cast({dtype}, cast(int32, T[1]))", "cast({dtype}, cast(float64, T[1]))",
    "(T[1] if A[0] > {zero} else {zero})", "cast({dtype}, T[1] < A[0])",
    "reduce_max(T[ramp(0, 1, 2)])", "reduce_sum(broadcast({zero}, 2) * T[ramp(0, 1, 2)])",
)  # fmt: skip
OF_INTEGERS = (
    "T[1]", "T[1] + A[0]", "A[0] - T[1]", "{zero} * T[1]", "T[1] * A[0]", "A[0] // T[1]",
    "T[1] % A[0]", "min(T[1], A[0])", "max(A[0], T[1])", "cast({dtype}, cast(float32, T[1]))",
    "cast({dtype}, cast(int8, T[1]))", "cast({dtype}, not T[1] == A[0])",
    "reduce_min(T[ramp(0, 1, 2)])",
)  # fmt: skip
CASES = [
    *((dtype, value) for dtype in FLOATS for value in OF_FLOATS),
    *((dtype, value) for dtype in INTEGERS for value in OF_INTEGERS),
]


@pytest.mark.parametrize(("dtype", "value"), CASES)
def test_what_is_computed_from_it_is_undefined(dtype: str, value: str) -> None:
    zero = "0.0" if dtype in FLOATS else "0"
    zero = zero if dtype in ("int64", "float32") else f"{dtype}({zero})"
    said = is_refused(with_missing(dtype, f"R[1] = {value.format(dtype=dtype, zero=zero)}"))
    assert said.startswith("kernel 'k' stores to R[1] of R: ")
    assert f"an element of T: {dtype}[2] local that nobody wrote" in said


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("bool", "T[1] and A[0]"), ("bool", "A[0] or T[1]"), ("bool", "not T[1]"),
        ("bool", "cast(int32, T[1]) < 2"),
    ],
)  # fmt: skip
def test_so_are_truth_values(dtype: str, value: str) -> None:
    value = value.replace("< 2", "< int32(2)")
    assert "that nobody wrote" in is_refused(with_missing(dtype, f"R[1] = {value}"))


@pytest.mark.parametrize(
    ("terms", "dtype", "total"), [(4, "int8", "int32"), (2, "bfloat16", "float32")]
)
def test_a_dot_product_with_zeros_is_undefined(terms: int, dtype: str, total: str) -> None:
    nothing = f"{dtype}(0)" if dtype == "int8" else f"{dtype}(0.0)"
    left, right = f"broadcast({nothing}, {terms})", f"T[ramp(0, 1, {terms})]"
    zero = "int32(0)" if total == "int32" else "0.0"
    text = f"""
kernel k(R: {total}[1]):
    alloc T: {dtype}[{terms}] local
    R[0] = dot{terms}({zero}, {left}, {right})
"""
    assert "that nobody wrote" in is_refused(text)


def test_what_is_not_chosen_does_not_matter() -> None:
    value = "(T[1] if A[0] < 0.0 else 2.0) * T[0]"
    assert run(with_missing("float32", f"R[0] = {value}"))[1][0] == 2.0


def test_what_is_written_over_does_not_matter() -> None:
    text = with_missing("float32", "R[0] = T[1]\n    R[0] = T[0]")
    assert run(text)[1][0] == 1.0


def test_lanes_that_are_masked_do_not_matter() -> None:
    text = """
kernel k(A: float32[4]):
    alloc T: float32[4] local
    if ramp(0, 1, 4) < broadcast(3, 4):
        T[ramp(0, 1, 4)] = broadcast(2.0, 4)
    if ramp(0, 1, 4) < broadcast(3, 4):
        A[ramp(0, 1, 4)] = T[ramp(0, 1, 4)] * A[ramp(0, 1, 4)]
"""
    assert list(run(text)[0]) == [2.0, 2.0, 2.0, 1.0]


def test_memory_is_undefined_again_in_the_next_iteration() -> None:
    text = """
kernel k(A: int64[2]):
    for i in 0..2:
        alloc T: int64[1] local
        if i == 0:
            T[0] = i
        A[i] = T[0]
"""
    assert "stores to A[1] of A: int64[2] what it computed from" in is_refused(text)


@pytest.mark.parametrize(
    "statement",
    [
        "if T[1] == 1:\n        R[0] = 1",
        "R[T[1]] = 1",
        "R[0] = A[T[1] % 2]",
        "R[0] = (1 if T[1] > 0 else 2)",
        "if ramp(0, 1, 2) < broadcast(T[1], 2):\n        R[ramp(0, 1, 2)] = broadcast(1, 2)",
    ],
)
def test_choosing_by_it_is_refused_with_the_place(statement: str) -> None:
    inner = statement.replace("\n    ", "\n        ")
    text = with_missing("int64", f"for i in 0..1:\n        {inner}")
    said = is_refused(text)
    first = statement.splitlines()[0]
    assert "chooses by an element of T: int64[2] local that nobody wrote" in said
    assert first.strip().split(" = ")[0].rstrip(":") in said
    assert said.endswith("where i=0")


def test_every_element_of_an_output_has_to_be_stored() -> None:
    text = """
kernel k(R: float32[2, 3]):
    for i in 0..2:
        for j in 0..3:
            if i * 3 + j < 5:
                R[i, j] = 1.0
"""
    run(text)
    with pytest.raises(IRError, match=r"never stores to R\[1, 2\] of R: float32\[2, 3\]"):
        run(text, fresh_outputs=True)


def test_an_output_that_is_read_before_it_is_stored() -> None:
    text = "\nkernel k(R: float32[1]):\n    R[0] = R[0] + 1.0\n"
    assert run(text)[0][0] == 2.0
    with pytest.raises(IRError, match=r"never stores to R\[0\]"):
        run(text, fresh_outputs=True)


def test_threads_share_what_nobody_wrote() -> None:
    text = """
kernel k(A: float32[4], R: float32[4]):
    alloc S: float32[4] shared
    bound threadIdx.x t in 0..4:
        if t < 3:
            S[t] = A[t]
        barrier shared
        R[t] = A[t] + 0.0 * S[3 - t]
"""
    function = parse(text)
    with pytest.raises(IRError, match=r"R\[0\] of R: float32\[4\] what it computed from an elem"):
        interpret(function, [np.ones(4, np.float32), np.ones(4, np.float32)])


def test_which_elements_are_undefined() -> None:
    text = with_missing("float32", "for i in 0..2:\n        R[i] = T[i] * 3.0")
    arrays = [np.ones(2, np.float32), np.full(2, 7, np.float32)]
    masks = interpret_partly(parse(text), arrays)
    assert [list(mask) for mask in masks] == [[False, False], [False, True]]
    assert list(arrays[1]) == [3.0, 7.0]
