"""The measuring worker on a device that fails: the real pycuda on the emulated driver.

Each fault is one failed record, the worker is replaced where nothing works in it any more, and
all other candidates are measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ansorc.errors import MeasureError
from ansorc.lang import ComputeDAG, compute, placeholder
from ansorc.search.measure import (
    Failure,
    FailureKind,
    Measurement,
    MeasureOptions,
    Measurer,
    ProgramText,
    RunOptions,
)
from ansorc.search.task import Task
from ansorc.target import Target
from tests.e2e.cuda.driver_backend import TARGET
from tests.e2e.cuda.emulated_driver import environment, obstacle

pytestmark = pytest.mark.skipif(bool(obstacle()), reason=obstacle())
RUN = RunOptions(min_total_s=0.0, max_total_s=0.0, max_repeats=3)
"""Two to five launches for a candidate."""


def task() -> Task:
    source = placeholder((8, 8), name="A")
    return Task(
        ComputeDAG([source, compute((8, 8), lambda i, j: source[i, j] + 1.0, name="B")]),
        Target.parse(TARGET),
        "added",
    )


def candidate(number: int, body: str = "A[i, j] + 1.0") -> ProgramText:
    """A program whose code no other one's equals, with the same results."""
    body = f"({body}) * {2.0**number} * {0.5**number}"
    loops = f"    for i in 0..8:\n        for j in 0..8:\n            B[i, j] = {body}\n"
    head = "kernel added(A: float32[8, 8], B: float32[8, 8]):\n"
    return ProgramText.of_function(head + loops)


@contextmanager
def measurer(tmp_path: Path, **settings: object) -> Generator[Measurer]:
    options = MeasureOptions(run=RUN, builders=2, batch=16)
    counters = tmp_path / "counters"
    with environment(counters=counters, **settings), Measurer(task(), options) as made:
        yield made


def test_24_candidates_among_faults(tmp_path: Path) -> None:
    faults = (
        "illegal@6", "out-of-memory@3", "out-of-memory@4",  # pycuda tries once more
        "failed@9", "hang@12", "misaligned@15", "lost@18",
    )  # fmt: skip
    with measurer(tmp_path, faults=",".join(faults)) as workers:
        results = list(workers.measure([candidate(number) for number in range(24)]))
    assert len(results) == 24
    failures = [result for result in results if isinstance(result, Failure)]
    assert Counter(failure.kind for failure in failures) == {
        FailureKind.CRASH: 3,
        FailureKind.OUT_OF_MEMORY: 1,
        FailureKind.RUN_TIMEOUT: 1,
        FailureKind.UNKNOWN: 1,
    }
    words = " ".join(failure.message for failure in failures)
    for known in ("illegal memory access", "misaligned address", "unspecified launch failure"):
        assert known in words
    good = [result for result in results if isinstance(result, Measurement)]
    assert all(one.checked and 0 < one.median_s < 1e-2 for one in good)


def test_wrong_programs_are_found(tmp_path: Path) -> None:
    head = "kernel added(A: float32[8, 8], B: float32[8, 8]):\n"
    beside = ProgramText.of_function(
        candidate(1).function + "    B[8, 1] = 1.0\n"  # within the memory of the array's pattern
    )
    nothing = ProgramText.of_function(head + "    B[0, 0] = A[0, 0] + 1.0\n")
    with measurer(tmp_path) as workers:
        found = list(workers.measure([candidate(0, "A[i, j] + 2.0"), beside, nothing]))
        ranked = workers.rank([candidate(2), candidate(3)])
    assert all(isinstance(outcome, Measurement) for outcome in ranked)
    kinds = [outcome.kind for outcome in found if isinstance(outcome, Failure)]
    assert kinds == [FailureKind.WRONG_RESULT] * 3
    assert isinstance(found[1], Failure)
    assert "outside its memory" in found[1].message


def test_cold_caches(tmp_path: Path) -> None:
    options = MeasureOptions(run=RunOptions(cache="cold", max_repeats=4), builders=1)
    with environment(counters=tmp_path / "counters"), Measurer(task(), options) as workers:
        (result,) = workers.measure([candidate(0)])
    assert isinstance(result, Measurement)
    assert len(result.seconds) == 4


def test_without_a_device_nothing_is_measured(tmp_path: Path) -> None:
    with measurer(tmp_path, devices=0) as workers, pytest.raises(MeasureError) as caught:
        list(workers.measure([candidate(0)]))
    assert "no CUDA-capable device is detected" in str(caught.value)
