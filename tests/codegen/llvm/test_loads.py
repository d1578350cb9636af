"""Elements loaded before, every other one, and those at places that are data."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ansorc.codegen.llvm.emit import emit_llvm
from ansorc.ir.parser import parse
from ansorc.target import detect
from tests.codegen.llvm.llvm_harness import run
from tests.support.guarded_memory import guarded

PROGRAM = """
kernel chosen(A: float32[64], I: int64[20], D: int32[8], B: float32[20], C: float32[20, 8]):
    for i in 0..20:
        B[i] = A[FIRST]
        C[i, ramp(0, 1, 8)] = (broadcast(A[min(i * 3 + 5, I[i])], 8)
            if D[ramp(0, 1, 8)] < broadcast(int32(4), 8) else broadcast(1.0, 8))
"""
CHOSEN = r"select i1 %\w+, ptr "


def outcome(first: str) -> tuple[str, np.ndarray]:
    """Return the code of the program, and what it stores to C."""
    function = parse(PROGRAM.replace("FIRST", first))
    data, most = np.arange(64, dtype=np.float32), np.full(20, 63)
    found = np.zeros(20, np.float32), np.zeros((20, 8), np.float32)
    run(function, data, most, np.arange(8, dtype=np.int32), *found)
    return emit_llvm(function, detect()), found[1]


def test_what_is_loaded_already_needs_no_condition() -> None:
    expected = [[min(3 * i + 5, 63)] * 4 + [1.0] * 4 for i in range(20)]
    text, found = outcome("min(i * 3 + 5, I[i])")
    np.testing.assert_array_equal(found, expected)
    assert not re.search(CHOSEN, text)
    text, found = outcome("i * 3")
    np.testing.assert_array_equal(found, expected)
    assert re.search(CHOSEN, text), "nothing may be read where no lane wants it"


@pytest.mark.parametrize("kind", ["int8", "uint16", "int16", "float16", "float32"])
@pytest.mark.parametrize(("start", "lanes"), [(0, 8), (1, 16), (0, 32), (7, 4)])
def test_every_other_element_is_picked_out_of_vectors(kind: str, start: int, lanes: int) -> None:
    """Up to the last element of the array, after which nothing may be read."""
    shape = start + 2 * lanes - 1
    place, vector = f"ramp({start}, 2, {lanes})", f"ramp(0, 1, {lanes})"
    head = f"kernel f(A: {kind}[{shape}], B: {kind}[{lanes}]):"
    function = parse(f"{head}\n    B[{vector}] = A[{place}]\n")
    data = np.arange(shape).astype(kind)
    given, found = guarded(data, at_end=True), guarded(np.zeros(lanes, kind), at_end=True)
    run(function, given, found)
    np.testing.assert_array_equal(found, data[start::2])
    assert "insertelement" not in emit_llvm(function, detect())


def test_parts_of_pairs_are_alike_where_memory_goes_on() -> None:
    text = "kernel f(A: uint16[5, 32], B: uint16[5, 16]):\n    for i in 0..5:\n"
    function = parse(text + "        B[i, ramp(0, 1, 16)] = A[i, ramp(0, 2, 16)]\n")
    data, found = np.arange(160, dtype=np.uint16).reshape(5, 32), np.zeros((5, 16), np.uint16)
    run(function, data, found)
    np.testing.assert_array_equal(found, data[:, ::2])
    text = emit_llvm(function, detect())
    assert "insertelement" not in text
    assert "i64 32" in text, "the second part begins where the first one ends"


@pytest.mark.parametrize("kind", ["uint8", "int8", "uint16", "int16", "int32", "uint32", "int64"])
@pytest.mark.parametrize("place", ["cast(int64, {i})", "cast(int64, cast(int32, {i}))",
                                   "cast(int64, min({i}, broadcast({kind}(9), 8)))"])  # fmt: skip
def test_places_are_taken_out_of_vectors_of_narrow_integers(kind: str, place: str) -> None:
    """Numbers may be below 0, or fill all bits, where the place is the sum of them and another."""
    loaded = "I[ramp(0, 1, 8)]"
    index = place.format(i=loaded, kind=kind)
    text = f"kernel f(A: float32[500], I: {kind}[8], B: float32[8]):\n"
    function = parse(f"{text}    B[ramp(0, 1, 8)] = A[{index} + broadcast(200, 8)]\n")
    lowest = 0 if kind.startswith("u") else -120
    numbers = np.array([lowest, 0, 1, 9, 10, 127, 100 + lowest // 2, 3], kind)
    data, found = np.arange(500, dtype=np.float32), np.zeros(8, np.float32)
    run(function, data, numbers, found)
    values = numbers.astype(np.int64)
    expected = (np.minimum(values, 9) if "min" in place else values) + 200
    np.testing.assert_array_equal(found, data[expected])


@pytest.mark.parametrize("kinds", [("int32", "int32"), ("uint8", "int16"), ("uint32", "int64")])
@pytest.mark.parametrize("more", ["", " + broadcast(1, 8)"])
def test_places_along_several_dimensions(kinds: tuple[str, str], more: str) -> None:
    """Those of lanes that are not wanted may be anywhere."""
    first, second = kinds
    lanes = "ramp(0, 1, 8)"
    place = f"cast(int64, I[{lanes}])"
    program = f"""
kernel f(A: float32[3, 5, 41], I: {first}[8], J: {second}[8], M: int32[8], B: float32[3, 8],
         C: float32[3, 8]):
    for i in 0..3:
        B[i, {lanes}] = A[i, min({place}{more}, broadcast(4, 8)), cast(int64, J[{lanes}])]
        C[i, {lanes}] = (A[i, {place}, cast(int64, J[{lanes}]){more}]
            if M[{lanes}] > broadcast(int32(0), 8) else broadcast(7.0, 8))
"""
    rows, columns = (
        np.array([0, 4, 2, 1, 3, 3, 0, 2], first),
        np.array([0, 39, 7, 1, 2, 30, 5, 9], second),
    )
    wanted = np.array([1, 0, 1, 1, 0, 1, 1, 1], np.int32)
    data = np.arange(615, dtype=np.float32).reshape(3, 5, 41)
    results = np.zeros((3, 8), np.float32), np.zeros((3, 8), np.float32)
    run(parse(program), data, rows, columns, wanted, *results)
    far = 1 if more else 0
    np.testing.assert_array_equal(results[0], data[:, np.minimum(rows + far, 4), columns])
    np.testing.assert_array_equal(results[1], np.where(wanted > 0, data[:, rows, columns + far], 7))
    rows[wanted == 0] = np.iinfo(first).max
    masked = program.replace("        B[", "        C[", 1)
    lines = [line for line in masked.splitlines() if "C[i, ramp(0, 1, 8)] = A" not in line]
    run(parse("\n".join(lines)), data, rows, columns, wanted, *results)
    np.testing.assert_array_equal(
        results[1], np.where(wanted > 0, data[:, rows % 5, columns + far], 7)
    )
