"""Many runs in turns in one process: each as it would be alone, and nothing is left of them."""

from __future__ import annotations

import gc
import resource
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

import ansorc as ac
from ansorc.search import machines
from ansorc.search.machines import ThisMachine
from ansorc.search.options import LIMITED_SPACE, SearchOptions
from ansorc.search.proposals import Proposals
from ansorc.search.record import Records
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import Space
from ansorc.search.tune import tune_task
from ansorc.search.tune_options import TuneOptions
from ansorc.search.tuning_run import Batch, TuningRun
from tests.search.small_tasks import MEASURING, Inventing, matmul, product
from tests.support.nightly import also_nightly, amount

SEARCH = SearchOptions(population=64, generations=1)
FEW_SKETCHES = replace(LIMITED_SPACE, population=64, generations=1, starts_from_default=True)
SIZES = (12, 12)
"""Of the rounds; the model has enough to learn from after the second."""
RUN_BYTES = 40 << 20


def tasks(count: int) -> list[ac.Task]:
    return [matmul(16 + 4 * number, 24, 32) for number in range(count)]


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThisMachine]:
    monkeypatch.setattr(machines, "Measurer", Inventing)
    with ThisMachine(MEASURING) as made:
        yield made
        assert made.pids() == [], "nobody needed them"


def options(search: SearchOptions = SEARCH, trials: int = 60) -> TuneOptions:
    return TuneOptions(trials, threads=1, search=search, measuring=MEASURING)


def keys(run: TuningRun, count: int, *, is_local_search: bool = False) -> list[str]:
    return keys_of(run.propose(count, is_local_search=is_local_search))


def keys_of(batch: Batch) -> list[str]:
    return [program.key for program in batch]


def sketches_of(run: TuningRun) -> tuple[Sketch, ...]:
    proposals: Proposals = vars(run)["_proposals"]
    space: Space = vars(proposals)["_space"]
    return space.sketches


def advance(run: TuningRun, count: int) -> list[str]:
    """One round; return the keys of what was proposed."""
    batch = run.propose(count)
    run.measure(batch)
    return keys_of(batch)


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@also_nightly
def test_runs_in_turns_propose_what_each_would_alone(tmp_path: Path, workers: ThisMachine) -> None:
    count = amount(6, 20)
    alone: list[list[str]] = []
    for number, task in enumerate(tasks(count)):
        with Records.open(tmp_path / f"{number}.db") as records:
            run = TuningRun(task, replace(options(FEW_SKETCHES), seed=number), records, workers)
            alone.append([key for size in SIZES for key in advance(run, size)])
    with Records.open(tmp_path / "all.db") as records:
        runs = [
            TuningRun(task, replace(options(FEW_SKETCHES), seed=number), records, workers)
            for number, task in enumerate(tasks(count))
        ]
        turns: list[list[str]] = [[] for _ in runs]
        for size in SIZES:
            for number in range(count):
                turns[number] += advance(runs[number], size)
        assert turns == alone
        assert [run.trials for run in runs] == [sum(SIZES)] * count
        assert all(run.curve[-1][1] == run.best.median_s for run in runs if run.best)
        spaces = [weakref.ref(vars(run)["_proposals"]) for run in runs]
        sketches = [weakref.ref(sketch) for run in runs for sketch in sketches_of(run)]
        del runs
        gc.collect()
        assert sketches
        assert {each() for each in (*spaces, *sketches)} == {None}


@pytest.mark.parametrize("cost_model", ["trees", "roofline"])
def test_a_run_that_is_made_again_from_its_records_goes_on_alike(
    tmp_path: Path, workers: ThisMachine, cost_model: str
) -> None:
    """Also where the trees were corrected, not grown anew, since they were last grown."""
    chosen = options(replace(SEARCH, cost_model=cost_model))
    with Records.open(tmp_path / "tune.db") as records:
        run = TuningRun(product(), chosen, records, workers)
        for size in (*SIZES, 12, 3, 2):
            advance(run, size)
        again = TuningRun(product(), chosen, records, workers)
        assert (again.trials, again.best, again.curve) == (run.trials, run.best, run.curve)
        assert keys(again, 8) == keys(run, 8)
        assert keys(again, 4, is_local_search=True) == keys(run, 4, is_local_search=True)


def convolution(channels: int) -> ac.Task:
    x = ac.placeholder((1, 14, 14, channels), name="x")
    w = ac.placeholder((3, 3, channels, channels), name="w", constant=True)
    return ac.Task(ac.ComputeDAG([x, w, ac.ops.conv2d(x, w, padding=1, name="conv")]))


@also_nightly
def test_a_run_takes_40_mb_at_most_and_frees_them(tmp_path: Path, workers: ThisMachine) -> None:
    """With the search's own options: what the first one takes is what all of them share."""
    more = (32, 48)[: amount(1, 2)]
    with Records.open(tmp_path / "tune.db") as records:

        def started(channels: int) -> TuningRun:
            run = TuningRun(convolution(channels), options(SearchOptions()), records, workers)
            advance(run, 16)
            advance(run, 4)
            return run

        kept = [started(16)]
        before = resident_bytes()
        kept += map(started, more)
        gc.collect()
        assert resident_bytes() - before <= len(more) * RUN_BYTES
        full = resident_bytes()
        del kept[:]
        gc.collect()
        kept += [started(32)]
        assert resident_bytes() - full <= RUN_BYTES / 2, "the others' memory is used again"


def test_real_runs_share_workers_and_a_record_file(tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    with ExitStack() as stack:
        workers = stack.enter_context(ThisMachine(MEASURING))
        records = stack.enter_context(Records.open(path))
        runs = [
            stack.enter_context(closing(TuningRun(task, options(), records, workers)))
            for task in tasks(3)
        ]
        assert workers.pids() == [], "to make a run starts no process"
        pids: set[int] = set()
        for _ in range(2):
            for run in runs:
                run.measure(run.propose(3))
                pids.update(workers.pids())
        assert len(pids) == 1 + MEASURING.builders, "the same processes served all of them"
        for run in runs:
            run.finish()
        results = [run.result() for run in runs]
    for task, result in zip(tasks(3), results, strict=True):
        assert (result.trials, result.measured_now, result.failures) == (6, 6, {})
        assert result.best is not None
        assert result.best.task_key == task.key
        found = tune_task(task, replace(options(trials=6), records=path))
        assert (found.measured_now, found.best) == (0, result.best), "it is decided"
