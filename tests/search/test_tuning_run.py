"""Tuning in this process: resuming, deciding, ending, and candidates that do harm."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import MeasureError
from ansorc.lang.scalar_type import Scalar
from ansorc.schedule import Names
from ansorc.search import contest, machines, tuning_run
from ansorc.search.measure import (
    FailureKind,
    Measurement,
    Measurer,
    Outcome,
    ProgramText,
    nothing,
)
from ansorc.search.options import ABLATIONS, SearchOptions
from ansorc.search.programs import default_program
from ansorc.search.proposals import Proposals
from ansorc.search.record import Record, Records, current_environment
from ansorc.search.time_budget import TimeBudget
from ansorc.search.tune import tune_task, tune_tasks
from ansorc.search.tune_result import RunProgress
from tests.search.small_tasks import CRASHING, ENDLESS, GREEDY, WRONG, layer, options, product


def recorded(path: Path) -> list[Record]:
    with Records.open(path, create=False) as records:
        return records.all(product().key, current_environment(1))


def test_tune_then_resume(tmp_path: Path) -> None:
    trials: list[RunProgress] = []
    first = tune_task(product(), options(tmp_path, 5), trials.append)
    assert [trial.done for trial in trials] == [1, 2, 3, 4, 5]
    assert (first.trials, first.measured_now, first.interrupted) == (5, 5, False)
    assert first.best is not None
    assert first.best.checked
    assert first.default is not None
    assert first.default.program == default_candidate()
    assert first.curve[0][0] == 1
    assert [time for _, time in first.curve] == sorted((t for _, t in first.curve), reverse=True)
    before = recorded(tmp_path / "tune.db")

    begin = time.process_time()
    again = tune_task(product(), options(tmp_path, 5), trials.append)
    assert time.process_time() - begin < 1.0, "nothing is left to do"
    assert (again.measured_now, again.best, again.curve) == (0, first.best, first.curve)
    assert len(trials) == 5

    more = tune_task(product(), options(tmp_path, 8), trials.append)
    assert (more.trials, more.measured_now) == (8, 3)
    after = recorded(tmp_path / "tune.db")
    assert [record.program_key for record in after[:5]] == [r.program_key for r in before]
    assert len({record.program_key for record in after}) == 8


def test_the_search_shares_the_work_among_the_threads_of_the_kernels(tmp_path: Path) -> None:
    """A run for one thread on a machine of eight begins with the default of one core."""
    a, b = ac.placeholder((256, 256), name="A"), ac.placeholder((256, 256), name="B")
    eight = ac.Task(
        ac.ComputeDAG([a, b, ac.ops.matmul(a, b, name="C")]), replace(product().target, cores=8)
    )
    found = tune_task(eight, options(tmp_path, 1))
    assert found.default is not None
    assert found.default.task_key == eight.key
    assert found.default.program == default_candidate(eight.with_threads(1))
    assert found.default.program != default_candidate(eight)


def default_candidate(task: ac.Task | None = None) -> ProgramText:
    chosen = task or product().with_threads(1)
    return ProgramText.encode(default_program(chosen).steps, Names(chosen.dag))


def test_the_best_is_the_winner_of_a_contest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contests: list[list[ProgramText]] = []

    class Referee(Measurer):
        def rank(self, candidates: Sequence[ProgramText]) -> list[Outcome | None]:
            contests.append(list(candidates))
            first = contests[0]
            places = [first.index(candidate) for candidate in candidates]
            return [Measurement((1e-3 * (len(first) - place),) * 31, True) for place in places]

    monkeypatch.setattr(machines, "Measurer", Referee)
    monkeypatch.setattr(contest, "_FAR", math.inf)  # what was measured before does not count here
    result = tune_task(product(), options(tmp_path))
    assert 2 <= len(contests[0]) <= 5
    assert default_candidate() in contests[0]
    assert result.best is not None
    assert result.best.program == contests[0][-1]
    assert result.best.median_s == 1e-3, "though all were faster before"
    held = len(contests)
    again = tune_task(product(), options(tmp_path))
    assert (again.best, len(contests)) == (result.best, held), "it is decided"


def test_the_least_disturbed_of_the_contests_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steady = [(value, value, value) for value in (4.0, 2.0, 5.0, 6.0, 7.0, 8.0)]
    seconds = iter([(3.0, 3.0, 9.0), *steady, (1.0, 5.0, 9.0)])

    class Disturbed(Measurer):
        def rank(self, candidates: Sequence[ProgramText]) -> list[Outcome | None]:
            none = [None] * (len(candidates) - 1)
            return [Measurement(next(seconds), checked=True), *none]

    monkeypatch.setattr(machines, "Measurer", Disturbed)
    monkeypatch.setattr(contest, "_LIMIT_S", 1e9)
    result = tune_task(product(), options(tmp_path, 3))
    assert result.best is not None
    assert result.best.median_s == 2.0
    assert result.ranking is not None
    assert list(result.ranking.ranked) == [result.best.program]


def test_an_interrupted_contest_is_held_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(Measurer):
        def rank(self, candidates: Sequence[ProgramText]) -> list[Outcome | None]:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(machines, "Measurer", Interrupted)
        stopped = tune_task(product(), options(tmp_path, 4))
    assert stopped.interrupted
    assert stopped.best is not None
    assert stopped.best.median_s == min(
        r.median_s for r in recorded(tmp_path / "tune.db") if r.median_s
    )
    resumed = tune_task(product(), options(tmp_path, 4))
    assert (resumed.measured_now, resumed.interrupted) == (0, False)
    with Records.open(tmp_path / "tune.db") as records:
        assert resumed.best is not None
        assert records.is_winner(resumed.best)


class Saboteur(Measurer):
    """Measures `harm` in the places of the third and later candidates."""

    harm: tuple[ProgramText, ...] = (CRASHING, ENDLESS, GREEDY, WRONG)

    def measure(
        self, candidates: Sequence[ProgramText], meanwhile: Callable[[], None] = nothing
    ) -> Iterator[Outcome]:
        mixed = [*candidates[:2], *self.harm, *candidates[2 + len(self.harm) :]]
        return super().measure(mixed[: len(candidates)], meanwhile)


def test_harmful_candidates_are_one_record_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines, "Measurer", Saboteur)
    result = tune_task(product(), options(tmp_path, 9))
    assert result.trials == result.measured_now == 9
    assert result.failures == {
        "crash": 1, "run timeout": 1, "out of memory": 1, "wrong result": 1
    }  # fmt: skip
    failed = [record for record in recorded(tmp_path / "tune.db") if record.failure]
    kinds = [FailureKind.CRASH, FailureKind.RUN_TIMEOUT, FailureKind.OUT_OF_MEMORY]
    assert [record.failure for record in failed] == [*kinds, FailureKind.WRONG_RESULT]
    assert {(record.median_s, record.checked) for record in failed} == {(None, False)}
    assert result.best is not None
    a, b = (np.ones((32, 32), np.float32) for _ in "ab")
    c = np.zeros_like(a)
    result.build()(a, b, c)
    assert (c == 32.0).all()

    resumed = tune_task(product(), options(tmp_path, 9))
    assert (resumed.measured_now, resumed.best) == (0, result.best)


class Hopeless(Measurer):
    """Measures nothing but wrong programs, each of them wrong in another way."""

    def measure(
        self, candidates: Sequence[ProgramText], meanwhile: Callable[[], None] = nothing
    ) -> Iterator[Outcome]:
        for place in range(len(candidates)):
            text = WRONG.function.replace("= 0.0", f"= {place}.5")
            yield from super().measure([ProgramText.of_function(text)])


def test_a_task_whose_programs_all_fail_ends_with_the_first_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines, "Measurer", Hopeless)
    few = tune_task(product(), options(tmp_path, 3))
    assert few.best is None
    assert few.hint.startswith("3 wrong result of 3 trials; the first: candidate rejected: element")
    with pytest.raises(MeasureError, match="no program of 'product' can be built: 3 wrong result"):
        few.build()
    monkeypatch.setattr(tuning_run, "_ALL_FAILED", 4)
    message = "all of the first 4 programs of 'product' failed; the first one: wrong result, cand"
    with pytest.raises(MeasureError, match=message) as caught:
        tune_task(product(), options(tmp_path, 100))
    assert "\n" not in str(caught.value)


def test_equal_failures_in_a_row_end_a_run_that_has_a_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Tired(Measurer):
        def measure(
            self, candidates: Sequence[ProgramText], meanwhile: Callable[[], None] = nothing
        ) -> Iterator[Outcome]:
            yield from super().measure(candidates[:3])
            raise MeasureError("32 candidates in a row failed alike")

    monkeypatch.setattr(machines, "Measurer", Tired)
    result = tune_task(product(), options(tmp_path, 8))
    assert result.best is not None
    assert result.measured_now == 3
    assert result.notes == ("stopped early: 32 candidates in a row failed alike",)


def test_an_interrupted_run_keeps_what_it_has(tmp_path: Path) -> None:
    def stop(trial: RunProgress) -> None:
        if trial.done == 3:
            raise KeyboardInterrupt

    result = tune_task(product(), options(tmp_path, 50), stop)
    assert (result.interrupted, result.trials) == (True, 3)
    assert result.best is not None


def test_a_run_ends_when_its_time_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour, which passes at the third trial."""
    passed_s = 0.0

    def clock() -> float:
        return time.monotonic() + passed_s

    def wait(trial: RunProgress) -> None:
        nonlocal passed_s
        passed_s = 3600.0 if trial.done == 3 else 0.0

    monkeypatch.setattr(tuning_run, "TimeBudget", partial(TimeBudget, clock=clock))
    result = tune_task(product(), replace(options(tmp_path, 10_000), time_budget=3600.0), wait)
    assert result.measured_now == 3
    assert result.elapsed_s >= 3600.0
    assert result.best is not None


def test_a_space_of_one_program_is_exhausted_at_once(tmp_path: Path) -> None:
    a = ac.placeholder((1,), name="A")

    def twice(i: Scalar) -> Scalar:
        return a[i] * 2.0

    task = ac.Task(ac.ComputeDAG([a, ac.compute((1,), twice, name="B")]))
    first = tune_task(task, options(tmp_path, 100))
    assert (first.exhausted, first.trials) == (True, 1)
    begin = time.process_time()
    again = tune_task(task, options(tmp_path, 100))
    assert (again.exhausted, again.measured_now, again.best) == (True, 0, first.best)
    assert time.process_time() - begin < 1.0


def test_the_same_seed_proposes_the_same_programs() -> None:
    search_options = SearchOptions(population=256, generations=2)

    def proposed(seed: int) -> list[list[str]]:
        search = Proposals(product(), search_options, np.random.default_rng([seed, 0]))
        batches: list[list[str]] = []
        known: set[str] = set()
        for _ in range(2):
            batch = search.propose(20, known)
            batches.append([program.key for program in batch])
            known.update(batches[-1])
            for place, program in enumerate(batch):
                search.learn(program, None if place % 7 == 3 else 1e-3 * (1 + place % 5))
        return batches

    once = proposed(3)
    assert once == proposed(3)
    assert once != proposed(4)
    assert not set(once[0]) & set(once[1])


def invented_seconds(program: ProgramText) -> float | None:
    """A time that is the same whenever the program is asked about; some programs fail."""
    number = zlib.crc32(program.key.encode())
    return None if number % 7 == 3 else 1e-3 * (1 + number % 100)


@pytest.mark.parametrize("task", [product, layer])
def test_a_search_that_starts_again_from_its_records_goes_on_alike(
    task: Callable[[], ac.Task],
) -> None:
    """Proposals follow from the seed and the records, not from how often it was asked."""
    search_options = SearchOptions(population=256, generations=2)
    known: list[ProgramText] = []
    search = Proposals(task(), search_options, np.random.default_rng(5))
    for round_number in range(4):
        restarted = Proposals(task(), search_options, np.random.default_rng(5))
        restarted.expect(known)
        for program in known:
            restarted.learn(program, invented_seconds(program))
        is_local_search = round_number == 3
        keys = {program.key for program in known}
        batch = search.propose(12, keys, is_local_search=is_local_search)
        other = restarted.propose(12, keys, is_local_search=is_local_search)
        assert batch == other
        assert len(batch) == 12
        for program in batch:
            search.learn(program, invented_seconds(program))
        known += batch
    assert len(known) == 48


def test_the_last_trials_search_near_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, bool]] = []

    class Watched(Proposals):
        def propose(
            self, count: int, known: AbstractSet[str], *, is_local_search: bool = False
        ) -> list[ProgramText]:
            asked.append((count, is_local_search))
            return super().propose(count, known, is_local_search=is_local_search)

    monkeypatch.setattr(tuning_run, "Proposals", Watched)
    search = SearchOptions(population=64, generations=1, polish_share=0.5)
    tune_task(product(), replace(options(tmp_path, 24), search=search))
    assert asked == [(11, False), (6, True), (6, True)]
    asked.clear()
    search = replace(search, polish_share=0.0)
    tune_task(product(), replace(options(tmp_path, 40), search=search))
    assert asked == [(16, False)]


def test_what_was_proposed_and_is_not_measured_yet_is_not_proposed_again() -> None:
    search_options = SearchOptions(population=64, generations=1)
    search = Proposals(product(), search_options, np.random.default_rng(0))
    batches = [search.propose(20, set()) for _ in range(3)]
    assert [len(batch) for batch in batches] == [20, 20, 20]
    assert len({program.key for batch in batches for program in batch}) == 60


def test_records_of_another_machine_are_told_of_and_not_used(tmp_path: Path) -> None:
    elsewhere = replace(current_environment(1), cpu="another CPU")
    fast = Record(
        product().key, default_candidate().key, default_candidate().steps, "", elsewhere, 1e-9,
        checked=True,
    )  # fmt: skip
    with Records.open(tmp_path / "tune.db") as records:
        records.add(fast)
    result = tune_task(product(), options(tmp_path, 2))
    assert result.measured_now == 2
    assert result.best is not None
    assert (result.best.median_s or 0.0) > 1e-9
    assert result.notes[-1].startswith("1 records of this task come from another machine")


@pytest.mark.parametrize("name", ["beam", "no-fine-tuning", "limited-space"])
def test_an_ablation_tunes_too(tmp_path: Path, name: str) -> None:
    search = replace(ABLATIONS[name], population=128, generations=1)
    result = tune_task(product(), replace(options(tmp_path, 4), search=search))
    assert (result.measured_now, result.failures) == (4, {})
    assert result.best is not None
    assert (result.default is not None) == search.starts_from_default


def test_several_tasks_share_the_time(tmp_path: Path) -> None:
    tasks = [product(), replace_name(product(), "again")]
    results = tune_tasks(tasks, options(tmp_path, 2))
    assert [result.task.name for result in results] == ["product", "again"]
    assert [result.measured_now for result in results] == [2, 0], "names do not count"


def replace_name(task: ac.Task, name: str) -> ac.Task:
    return ac.Task(task.dag, task.target, name)
