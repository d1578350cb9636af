"""Tuning for a GPU from end to end: the real pycuda on an emulated driver, which fails at times."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import ansorc as ac
from ansorc.lang import ComputeDAG
from ansorc.search.measure import FailureKind
from ansorc.search.record import Environment, Records
from ansorc.search.task import Task
from ansorc.target import Target
from tests.e2e.cuda.driver_backend import TARGET
from tests.e2e.cuda.emulated_driver import obstacle, process

pytestmark = pytest.mark.skipif(bool(obstacle()), reason=obstacle())
GPU = Environment("Emulated GPU 0", ("sm_90",), 4, 0)


def product() -> Task:
    a, b = ac.placeholder((64, 64), name="A"), ac.placeholder((64, 64), name="B")
    r = ac.reduce_axis(64, name="k")
    c = ac.compute((64, 64), lambda i, j: ac.sum(a[i, r] * b[r, j], axis=r), name="C")
    return Task(ComputeDAG([a, b, c]), Target.parse(TARGET), "product")


def tuned(records: Path, trials: int) -> float:
    result = ac.tune(product(), trials=trials, records=records, seed=1)
    assert result.best is not None
    assert result.best.median_s is not None
    return result.best.median_s


def failures(records: Path, trials: int) -> Counter[FailureKind]:
    """The failures among what was recorded, all of it measured on the GPU."""
    with Records.open(records, create=False) as opened:
        found = opened.all(product().key, GPU)
    assert len(found) == trials
    assert all(record.checked for record in found if record.failure is None)
    return Counter(record.failure for record in found if record.failure is not None)


def test_a_short_run(tmp_path: Path) -> None:
    with process(counters=tmp_path / "counters", faults="illegal@3") as pool:
        assert pool.submit(tuned, tmp_path / "r.db", 4).result() > 0
    assert failures(tmp_path / "r.db", 4) == {FailureKind.CRASH: 1}


@pytest.mark.slow
def test_64_trials_among_faults(tmp_path: Path) -> None:
    faults = (
        "illegal@10", "out-of-memory@8", "out-of-memory@9",  # pycuda tries once more
        "failed@15", "hang@20", "misaligned@25", "lost@30",
    )  # fmt: skip
    # Programs of equal machine code run once, so fewer than 64 may run.
    with process(counters=tmp_path / "counters", faults=",".join(faults)) as pool:
        assert pool.submit(tuned, tmp_path / "r.db", 64).result() > 0
    assert failures(tmp_path / "r.db", 64) == {
        FailureKind.CRASH: 3,
        FailureKind.OUT_OF_MEMORY: 1,
        FailureKind.RUN_TIMEOUT: 1,
        FailureKind.UNKNOWN: 1,
    }
