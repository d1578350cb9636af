"""How many threads an operator gets: the choice, and that it is built in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.codegen.call.build import compile_module
from ansorc.codegen.call.library import load_kernel
from ansorc.ir.parser import parse
from ansorc.ir.printer import to_text
from ansorc.search.measure import Measurer, ProgramText
from ansorc.search.programs import ProgramChoice, choose_program
from ansorc.search.record import Records
from ansorc.search.thread_count_op import (
    ThreadMeasurer,
    choose_threads,
    estimate_choosing_s,
    fastest_count,
)
from ansorc.target import Target

COUNTS = (0, 1, 2, 4, 8)
NUMBERS = st.lists(st.floats(1e-6, 1e-3), min_size=5, max_size=5)


@given(st.lists(st.floats(0.5, 3.0), min_size=1, max_size=9), NUMBERS)
def test_the_fastest_number_is_found_however_slow_a_turn_is(
    slow: list[float], seconds: list[float]
) -> None:
    found = fastest_count(COUNTS, [[factor * one for one in seconds] for factor in slow])
    best = min(seconds)
    if found == 0:
        assert best >= 0.979 * seconds[0]
    else:
        assert seconds[COUNTS.index(found)] == pytest.approx(best)
        assert best < 0.981 * seconds[0]


def test_ties_get_all_threads() -> None:
    assert fastest_count(COUNTS, [[1.0, 0.985, 1.0, 1.0, 1.0]] * 3) == 0
    assert fastest_count(COUNTS, [[1.0, 2.0, 0.9, 0.8, 0.95]] * 3) == 4
    # one turn that was disturbed decides nothing
    assert fastest_count((0, 1), [[1.0, 1.2], [1.0, 1.2], [5.0, 1.2]]) == 0


class Made:
    """A measurer that makes its times up."""

    def __init__(self, seconds: Sequence[float]) -> None:
        self.seconds, self.asked = list(seconds), list[tuple[int, ...]]()

    def time_threads(self, program: ProgramText, counts: Sequence[int]) -> list[float]:
        assert program.steps
        self.asked.append(tuple(counts))
        return self.seconds[: len(counts)]


def tuned(path: Path, **settings: Any) -> ac.TuneResult:
    a, b = ac.placeholder((32, 64), name="A"), ac.placeholder((64, 32), name="B")
    task = ac.Task(ac.ComputeDAG([a, b, ac.ops.matmul(a, b)]), "native", "product")
    return ac.tune(task, trials=2, records=path, **settings)


def test_the_choice_is_measured_once_kept_and_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, ...]] = []

    def time_threads(_: Measurer, program: ProgramText, counts: Sequence[int]) -> list[float]:
        assert program.steps
        asked.append(tuple(counts))
        return [1.0, *(0.5 for _ in counts[1:])]

    monkeypatch.setattr(Measurer, "time_threads", time_threads)
    result = tuned(tmp_path / "tune.db", threads=2)
    assert result.best is not None
    assert set(asked) == {(result.best.environment.threads, 1)}
    assert result.threads == 1
    environment = replace(result.best.environment, threads=1)
    assert estimate_choosing_s(result.best) > 0.0
    assert estimate_choosing_s(replace(result.best, environment=environment)) == 0.0
    program = choose_program(result.task, ProgramChoice(tmp_path / "tune.db", threads=2))
    assert program.threads == result.build().signature.threads == 1
    with Records.open(tmp_path / "tune.db") as records:
        none = Made([])
        assert isinstance(none, ThreadMeasurer)
        assert choose_threads(none, records, result.best) == 1
        assert none.asked == []
        another = replace(result.best, program_key="another")  # says nothing of this one
        assert choose_threads(Made([1.0, 2.0]), records, another) == 0
    program = choose_program(result.task, ProgramChoice(tmp_path / "tune.db", threads=2))
    assert program.threads == 0


def test_the_limit_is_part_of_the_text() -> None:
    text = "kernel k(A: float32[4]) threads 4:\n    parallel i in 0..4:\n        A[i] = 1.0\n"
    assert parse(text).threads == 4
    assert to_text(parse(text)) == text


_CALLS = """
import os, sys
import numpy as np
from ansorc.codegen.call.build import compile_module
from ansorc.ir.parser import parse

text = "kernel k(A: float32[64]):\\n    parallel i in 0..64:\\n        A[i] = 1.0\\n"
threads = lambda: len(os.listdir("/proc/self/task"))
for limit, allowed, started in ((1, 0, 0), (1, 4, 0), (4, 1, 0), (2, 0, 1), (2, 4, 1), (4, 3, 2)):
    kernel = compile_module(parse(text), sys.modules["ansorc.target"].Target.parse("native"),
                            f"k{limit}", threads=limit)
    array = np.full(64, np.nan, np.float32)
    kernel(array, threads=allowed)
    assert (array == 1).all()
    begin = begin if "begin" in globals() else threads()
    assert threads() - begin == started, (limit, allowed, threads() - begin)
"""


def test_a_call_has_no_more_threads_than_were_the_fastest() -> None:
    """A process that is new tells by its threads: the pool starts those that a call asks for."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "ANSORC_NUM_THREADS": "4"}
    subprocess.run([sys.executable, "-c", _CALLS], env=environment, check=True)


def test_a_saved_kernel_says_its_limit(tmp_path: Path) -> None:
    text = "kernel k(A: float32[64]):\n    parallel i in 0..64:\n        A[i] = 1.0\n"
    kernel = compile_module(parse(text), Target.parse("native"), "k", threads=1)
    saved = kernel.save(tmp_path / "k.so")
    assert "no more than 1 ever do" in saved.header.read_text()
    loaded = load_kernel(saved.library)
    assert loaded.signature.threads == 1
    array = np.full(64, np.nan, np.float32)
    loaded(array, threads=2)
    assert (array == 1).all()
