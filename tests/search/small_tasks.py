"""A small task whose tuning takes seconds, and programs for it that do harm."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import ansorc as ac
from ansorc.search.measure import (
    Failure,
    FailureKind,
    Measurement,
    MeasureOptions,
    Measurer,
    Outcome,
    ProgramText,
    RunOptions,
    nothing,
)
from ansorc.search.tune_options import TuneOptions

EXTENT = 32
RUN = RunOptions(min_total_s=0.002)
MEASURING = MeasureOptions(run=RUN, builders=1, batch=8)


def product() -> ac.Task:
    a = ac.placeholder((EXTENT, EXTENT), name="A")
    b = ac.placeholder((EXTENT, EXTENT), name="B")
    return ac.Task(ac.ComputeDAG([a, b, ac.ops.matmul(a, b, name="C")]), name="product")


def matmul(n: int, m: int, k: int) -> ac.Task:
    a, b = ac.placeholder((n, k), name="A"), ac.placeholder((k, m), name="B")
    return ac.Task(ac.ComputeDAG([a, b, ac.ops.matmul(a, b, name="C")]), name=f"product {n}")


def layer() -> ac.Task:
    """The same with a constant B."""
    a = ac.placeholder((EXTENT, EXTENT), name="A")
    b = ac.placeholder((EXTENT, EXTENT), name="B", constant=True)
    return ac.Task(ac.ComputeDAG([a, b, ac.ops.matmul(a, b, name="C")]), name="layer")


def options(directory: Path, trials: int = 6, seed: int = 0) -> TuneOptions:
    return TuneOptions(trials, directory / "tune.db", seed, threads=1, measuring=MEASURING)


def loop_program(body: str) -> ProgramText:
    """A program of the task, given as the text of its loops."""
    shape = f"float32[{EXTENT}, {EXTENT}]"
    return ProgramText.of_function(
        f"kernel product(A: {shape}, B: {shape}, C: {shape}):\n    {body}\n"
    )


WRONG = loop_program(f"""for i in 0..{EXTENT}:
        for j in 0..{EXTENT}:
            C[i, j] = 0.0""")
CRASHING = loop_program("C[1099511627776, 0] = 0.0")
ENDLESS = loop_program("for i in 0..35184372088832:\n        C[0, 0] = C[0, 0] * 1.0001 + 0.5")
GREEDY = loop_program("""alloc hoard: float32[1099511627776]
    for i in 0..1099511627776:
        hoard[i] = 0.0""")
"""Wants a buffer of 4 TiB."""


class Inventing(Measurer):
    """Runs nothing: the time of a program follows from its text, and some fail."""

    def __init__(self, task: ac.Task, *_: object) -> None:
        self.task = task

    def measure(
        self, candidates: Sequence[ProgramText], meanwhile: Callable[[], None] = nothing
    ) -> Iterator[Outcome]:
        meanwhile()
        for source in candidates:
            number = zlib.crc32(source.key.encode())
            seconds = 1e-3 * (1 + number % 100)
            failure = Failure.of(FailureKind.WRONG_RESULT, "element 3")
            yield failure if number % 7 == 3 else Measurement((seconds,) * 3, checked=True)

    def rank(self, candidates: Sequence[ProgramText]) -> list[Outcome | None]:
        return list(self.measure(candidates))

    def close(self) -> None:
        pass
