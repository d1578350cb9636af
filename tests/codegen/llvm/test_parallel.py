"""Loops shared statically and dynamically: same results, and uneven work evenly divided."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.call.build import compile_module
from ansorc.codegen.call.module import Module
from ansorc.codegen.llvm.emit import emit_llvm
from ansorc.errors import IRError, ParseError
from ansorc.ir.parser import parse
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import For, LoopKind
from ansorc.ir.verify import verify
from ansorc.schedule import lower, schedule
from ansorc.target import detect

SUMS = """\
kernel sums(A: float64[{n}, {n}], C: float64[{n}]):
    parallel i in 0..{n}{sharing}:
        C[i] = float64(0.0)
        for k in 0..{n}:
            if k <= i:
                C[i] = C[i] + A[i, k]
"""


def sums(n: int, sharing: str) -> Module:
    """Sums of the rows of a lower triangle: the last rows are the longest."""
    return compile_module(parse(SUMS.format(n=n, sharing=sharing)), detect())


@pytest.mark.parametrize("sharing", ["", " dynamic 1", " dynamic 4", " dynamic 1000"])
def test_each_iteration_runs_once(sharing: str) -> None:
    for n in (1, 2, 9, 64):
        kernel = sums(n, sharing)
        a = np.random.default_rng(n).random((n, n))
        for threads in (0, 1, 2, 3, 4, 5):
            c = np.full(n, np.nan)
            kernel(a, c, threads=threads)
            np.testing.assert_allclose(c, np.tril(a).sum(axis=1), 1e-12)


def test_each_chunk_has_buffers_of_its_own() -> None:
    text = """\
kernel squares(A: float32[50, 40000], C: float32[50, 40000]):
    parallel i in 0..50 dynamic 3:
        alloc L: float32[40000] local
        for j in 0..40000:
            L[j] = A[i, j] * A[i, j]
        for j in 0..40000:
            C[i, j] = L[39999 - j]
"""
    a = np.random.default_rng(0).random((50, 40000), np.float32)
    c = np.full_like(a, np.nan)
    compile_module(parse(text), detect())(a, c, threads=3)
    np.testing.assert_array_equal(c, (a * a)[:, ::-1])


def test_a_schedule_asks_for_it() -> None:
    a = ac.placeholder((9, 5), name="A")
    c = ac.compute((9, 5), lambda i, j: a[i, j] * 2.0, name="C")
    state = schedule(ac.ComputeDAG([a, c])).parallel("C", "i", sharing="dynamic", chunk=2)
    assert str(state).splitlines()[0] == "parallel i in 0..9 dynamic 2"
    function = lower(state)
    assert "    parallel i in 0..9 dynamic 2:" in to_text(function)
    assert parse(to_text(function)) == function
    data, found = np.ones((9, 5), np.float32), np.zeros((9, 5), np.float32)
    ac.build(state, name="kernel")(data, found, threads=3)
    assert (found == 2).all()


def test_only_the_call_differs() -> None:
    static, dynamic = (
        emit_llvm(parse(SUMS.format(n=9, sharing=sharing)), detect())
        for sharing in ("", " dynamic 2")
    )
    assert "@ansorc_parallel_for_dynamic" not in static
    assert "i64 9, i64 2, i32 %threads)" in dynamic
    shown = dynamic.replace("_dynamic(ptr, ptr, i64, i64", "(ptr, ptr, i64")
    assert shown.replace("_dynamic", "").replace("i64 9, i64 2", "i64 9") == static


def test_a_loop_variable_may_be_called_dynamic() -> None:
    function = parse(
        "kernel f(A: float32[4]):\n    parallel dynamic in 0..4:\n        A[0] = 1.0\n"
    )
    assert parse(to_text(function)) == function


def test_chunks_of_other_loops() -> None:
    loop = "kernel f(A: float32[4]):\n    {} i in 0..4 dynamic {}:\n        A[i] = 1.0\n"
    with pytest.raises(ParseError, match="'dynamic'"):
        parse(loop.format("for", 2))
    with pytest.raises(ParseError, match="a chunk has 1 iteration or more"):
        parse(loop.format("parallel", 0))
    function = parse(loop.format("parallel", 2))
    verify(function)
    assert isinstance(function.body, For)
    for change, words in (
        ({"chunk": -1}, "the chunk of 'i' is -1, no Python int above 0"),
        ({"kind": LoopKind.UNROLLED}, "the unrolled loop over 'i' has chunks; only parallel loops"),
    ):
        with pytest.raises(IRError, match=words):
            verify(replace(function, body=replace(function.body, **change)))
