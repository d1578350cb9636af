"""Programs that update their inputs are measured, checked and bisected with the old ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ansorc as ac
from ansorc.compare.checked_run import check_and_time
from ansorc.compare.turns import Turns
from ansorc.compare.workload_run import ComparedWorkload, compare_workload
from ansorc.errors import MeasureError
from ansorc.fleet.drawn_inputs import DrawnTask
from ansorc.search.bisect import bisect_passes
from ansorc.search.measure.data import TaskData
from ansorc.search.measure.kernel import Bench, load_bench

A, ROW = ac.placeholder((6, 8), "A"), ac.placeholder((8,), "row")


def grown() -> ac.Task:
    """The fourth power of each element by each call: soon 0 or infinite."""
    value = ac.compute(A.shape, lambda i, j: A[i, j] * A[i, j] * 4.0)
    return ac.Task(ac.ComputeDAG([A, ac.update(A, value, name="A2")]), "native", "grown")


def appended() -> ac.Task:
    dag = ac.ComputeDAG([A, ROW, ac.update(A, ROW, at=2, name="A2")])
    return ac.Task(dag, "native", "appended")


def bench_of(task: ac.Task) -> Bench:
    data = TaskData.create(task, np.random.default_rng(0))
    bench = load_bench(data.directory)
    data.remove()
    return bench


def test_old_values_come_back() -> None:
    bench = bench_of(grown())
    (output,) = bench.outputs
    assert bench.names == ("A",)
    assert bench.drifts
    bench.poison()
    (memory,) = bench.arrays()
    assert output.memory is memory
    old = memory.array.copy()
    memory.array[...] = old * old * np.float32(4.0)
    assert bench.check()[1] == ""
    memory.array[2, 3] += 1.0
    assert "element" in bench.check()[1]
    bench.poison()
    np.testing.assert_array_equal(memory.array, old)


def test_what_stays_is_checked_too() -> None:
    bench = bench_of(appended())
    assert not bench.drifts
    bench.poison()
    memory, row = bench.arrays()
    memory.array[2] = row.array
    assert bench.check()[1] == ""
    memory.array[5, 7] = 3.0
    assert "element" in bench.check()[1]


def test_a_tuning_run() -> None:
    result = ac.tune(grown(), trials=2)
    assert "A updated by A2, written in place" in str(result.schedule)
    array = np.full((6, 8), 0.5, np.float32)
    assert ac.build(result.schedule)(array) is None
    np.testing.assert_array_equal(array, 1.0)


def test_a_checked_run_and_a_bisection() -> None:
    task = appended()
    checked = check_and_time(task, ac.build(task.dag), np.random.default_rng(0), threads=1)
    assert checked.error < 1
    finding = bisect_passes(task, ac.lower(ac.schedule(task.dag)))
    assert finding.wrong is None


def test_what_cannot_be_measured_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MeasureError, match="'grown' updates its inputs, which boards cannot"):
        DrawnTask.of(grown(), 3)
    workload = ComparedWorkload(tmp_path / "ops.py", grown(), "grown")
    with pytest.raises(MeasureError, match="'grown' updates its inputs, so each of many calls"):
        compare_workload(workload, [], Turns(2, 1, 0.002), lambda _: None)
