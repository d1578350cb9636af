"""Unrolling has a bound in the schedule and in code generation; equal text is compiled once."""

from __future__ import annotations

import pytest

import ansorc as ac
from ansorc.codegen.build import CompileCache
from ansorc.codegen.llvm.emit import MAX_STATEMENTS, emit_llvm
from ansorc.errors import BuildError
from ansorc.ir.node import walk
from ansorc.ir.parser import parse
from ansorc.ir.stmt import For, LoopKind
from ansorc.schedule import Schedule, lower, schedule
from ansorc.schedule.unrolling import MAX_COPIES
from ansorc.target import detect


def nested(outer: int, inner: int) -> str:
    return f"""kernel f(A: float32[4], B: float32[{outer * inner}]):
    unrolled u in 0..{outer}:
        for s in 0..1000:
            unrolled v in 0..{inner}:
                B[u * {inner} + v] = A[0]
"""


def test_too_many_statements_name_the_loop() -> None:
    emit_llvm(parse(nested(2, 50)), detect())
    words = rf"unrolling the loop 'u' of 100 iterations would write out 10000 .* {MAX_STATEMENTS}:"
    with pytest.raises(BuildError, match=words):
        emit_llvm(parse(nested(100, 100)), detect())


def wide(limit: int) -> Schedule:
    a, b = ac.placeholder((8, 512), name="A"), ac.placeholder((512, 2048), name="B")
    r = ac.reduce_axis(512, name="k")
    c = ac.compute((8, 2048), lambda i, j: ac.sum(a[i, r] * b[r, j], axis=r), name="C")
    state = schedule(ac.ComputeDAG([a, b, c])).split("C", "k", [16, 8]).split("C", "j", [256])
    state = state.reorder("C", ["i", "j.0", "k.0", "k.1", "k.2", "j.1"]).vectorize("C", "j.1")
    return state.pragma("C", "auto_unroll_max_step", limit)


def unrolled(state: Schedule) -> int:
    copies = 1
    for node in walk(lower(state).body):
        if isinstance(node, For) and node.kind is LoopKind.UNROLLED:
            copies *= node.extent
    return copies


def test_the_pragma_counts_vectors_too() -> None:
    assert unrolled(wide(4)) == 1
    assert unrolled(wide(8)) == 8
    assert unrolled(wide(512)) == 128
    assert MAX_COPIES == 256 // 8 * 128  # so the next loop would be too many


def test_equal_text_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def count(text: str, target: object) -> bytes:
        compiled.append(text)
        return bytes(40)

    monkeypatch.setattr("ansorc.codegen.llvm.backend.compile_object", count)
    cache = CompileCache(capacity_bytes=100)
    for text in ("a", "b", "a", "c", "a", "b"):
        assert cache.compile(text, detect()).image == bytes(40)
    assert compiled == ["a", "b", "c", "b"]  # c drove out b, which was not used lately
    assert cache.hits == 2


def test_another_target_is_another_code() -> None:
    cache, text = CompileCache(), emit_llvm(parse(nested(2, 2)), detect())
    other = detect() if not detect().is_x86 else ac.Target.parse("x86_64-linux-gnu -mcpu=haswell")
    first = cache.compile(text, detect())
    assert cache.compile(text, detect()) is first
    assert cache.hits == 1
    cache.compile(text, other)
    assert cache.hits == (1 if other != detect() else 2)
