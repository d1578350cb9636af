"""Elements that some lanes want: from elsewhere where none does, or loaded before."""

from __future__ import annotations

import re

import numpy as np

from ansorc.codegen.llvm.emit import emit_llvm
from ansorc.ir.parser import parse
from ansorc.target import detect
from tests.codegen.llvm.llvm_harness import run

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
