"""Networks of tasks tuned together: interrupted and resumed, given up, and with real programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

import ansorc as ac
from ansorc.errors import MeasureError, OptionError
from ansorc.search import machines, tuning_run
from ansorc.search.contest import Final
from ansorc.search.measure import (
    Failure,
    FailureKind,
    Measurement,
    Outcome,
    ProgramText,
    nothing,
)
from ansorc.search.options import LIMITED_SPACE, Scheduling, SearchOptions
from ansorc.search.record import Records
from ansorc.search.task_scheduler import TaskScheduler
from ansorc.search.time_budget import TimeBudget
from ansorc.search.tune_options import TuneOptions
from ansorc.search.tune_result import RunProgress
from ansorc.search.tune_weighted import (
    RoundReport,
    ScheduledResult,
    WeightedTasks,
    ignore_round,
    tune_weighted,
)
from ansorc.target import Target, machine
from bench.__main__ import main as bench
from tests.search.small_tasks import MEASURING, Inventing, matmul, options
from tests.support.assumed import MACHINES
from tests.support.nightly import sampled

SEARCH = replace(LIMITED_SPACE, population=64, generations=1, starts_from_default=True)
SIX = Scheduling(trials=72, trials_per_round=6, warm_up=6, least_gain=0.0, epsilon=0.2)


class Scaled(Inventing):
    """Times of the size of the task: what is larger takes longer. Nothing competes."""

    def measure(
        self, candidates: Sequence[ProgramText], meanwhile: Callable[[], None] = nothing
    ) -> Iterator[Outcome]:
        for outcome in super().measure(candidates, meanwhile):
            if isinstance(outcome, Failure):
                yield outcome
                continue
            seconds = self.task.dag.flops * 1e-9 * (1 + outcome.median_s)
            yield Measurement((seconds,) * 3, checked=True)


class HalfBroken(Scaled):
    """No program of the smallest task works."""

    def measure(
        self, candidates: Sequence[ProgramText], meanwhile: Callable[[], None] = nothing
    ) -> Iterator[Outcome]:
        for outcome in super().measure(candidates, meanwhile):
            broken = Failure.of(FailureKind.COMPILE, "no such instruction")
            yield broken if self.task.name == "product 16" else outcome


@pytest.fixture(autouse=True)
def invented(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "real" not in request.node.name:
        monkeypatch.setattr(machines, "Measurer", Scaled)
        # Times follow from the texts of programs, and these from the machine.
        assumed = machine.detect().assuming(Target.parse(MACHINES["znver3-2"]))
        monkeypatch.setattr(machine, "detect", lambda: assumed)


def networks() -> list[WeightedTasks]:
    """Two, that share the task in the middle, once under another name."""
    small, middle, large = (matmul(n, 24, 32) for n in (16, 32, 64))
    again = ac.Task(middle.dag, middle.target, "the same")
    return [
        WeightedTasks("first", ((small, 1), (middle, 2))),
        WeightedTasks("second", ((again, 1), (large, 3))),
    ]


def wanted(directory: Path, search: SearchOptions = SEARCH) -> TuneOptions:
    return replace(options(directory), search=replace(search, cost_model="roofline"))


def measured(directory: Path) -> dict[str, list[tuple[str, int]]]:
    with Records.open(directory / "tune.db", create=False) as records:
        return {
            key: [(one.program_key, one.known) for one in records.all(key)]
            for key in records.task_keys()
        }


def test_tasks_of_two_networks_share_the_trials_by_their_weights(tmp_path: Path) -> None:
    reports: list[RoundReport] = []
    trials: list[tuple[str, int]] = []

    def note(task: ac.Task, trial: RunProgress) -> None:
        trials.append((task.name, trial.done))

    result = tune_weighted(networks(), wanted(tmp_path), SIX, reports.append, note)
    assert [one.task.name for one in result.results] == ["product 16", "product 32", "product 64"]
    small, middle, large = (one.trials for one in result.results)
    assert small + middle + large == 72 == len(trials)
    assert small <= middle <= large
    assert all(math.isfinite(latency) for latency in result.latencies)
    bests = [one.best.median_s if one.best else None for one in result.results]
    assert bests[0] is not None
    assert bests[1] is not None
    assert result.latencies[0] == pytest.approx(bests[0] + 2 * bests[1])
    assert result.result_of(networks()[1].tasks[0][0]) is result.results[1]

    assert [report.measured for report in reports[:3]] == [2, 1, 0], "the most work first"
    assert [report.trials for report in reports[:3]] == [6, 12, 18]
    assert math.isinf(reports[0].latencies[0])
    last = reports[-1]
    assert last.trials == last.total == 72
    assert last.eta_s == 0.0
    assert sum(task.share for task in last.tasks) == pytest.approx(1.0)
    assert all(0 < task.expected_gain < 1 for task in last.tasks)
    assert [point.trials for point in result.curve] == [r.trials for r in reports[2:]]
    assert result.curve[-1].latencies == last.latencies


OFTEN = [1, 6, 12, 31, 50]


@pytest.mark.parametrize(
    ("stop_after", "warm_up"),
    [
        ([7], 1),
        ([18, 40], 6),
        *(
            pytest.param(stops, warm_up, marks=pytest.mark.nightly)
            for stops, warm_up in (([7], 6), ([18, 40], 1), (OFTEN, 1), (OFTEN, 6))
        ),
    ],
)
def test_what_was_interrupted_goes_on_as_it_would_have(
    tmp_path: Path, stop_after: list[int], warm_up: int
) -> None:
    """At the ends of rounds exactly; within a round it is completed first, of what is known."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    scheduling = replace(SIX, warm_up=warm_up)
    tune_weighted(networks(), wanted(whole), scheduling)
    for stop in stop_after:

        def interrupt(report: RoundReport, stop: int = stop) -> None:
            if report.trials >= stop:
                raise KeyboardInterrupt

        assert tune_weighted(networks(), wanted(parts), scheduling, interrupt).interrupted
    result = tune_weighted(networks(), wanted(parts), scheduling)
    assert not result.interrupted
    assert measured(parts) == measured(whole)


def test_a_round_that_was_killed_in_the_middle_is_completed_by_the_same_task(
    tmp_path: Path,
) -> None:
    seen: list[int] = []

    def kill(_: ac.Task, trial: RunProgress) -> None:
        seen.append(trial.done)
        if len(seen) == 27:
            raise KeyboardInterrupt

    stopped = tune_weighted(networks(), wanted(tmp_path), SIX, ignore_round, kill)
    assert stopped.interrupted
    (open_one,) = [n for n, one in enumerate(stopped.results) if one.trials % 6]
    reports: list[RoundReport] = []
    result = tune_weighted(networks(), wanted(tmp_path), SIX, reports.append)
    assert reports[0].measured == open_one
    assert reports[0].trials == 30
    assert sum(one.trials for one in result.results) == 72
    assert tune_weighted(networks(), wanted(tmp_path), SIX).results[0].measured_now == 0


def test_the_history_of_gains_is_that_of_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradients right after a restart are those before it: the window is full at once."""
    asked: list[list[float]] = []
    by_gradient = TaskScheduler.gradients

    def noted(self: TaskScheduler, tasks: Sequence[object]) -> list[float]:
        asked.append(by_gradient(self, tasks))  # pyright: ignore[reportArgumentType]
        return asked[-1]

    def interrupt(report: RoundReport) -> None:
        if report.trials == 48:
            raise KeyboardInterrupt

    never = replace(SIX, epsilon=0.0)
    tune_weighted(networks(), wanted(tmp_path), never, interrupt)
    monkeypatch.setattr(TaskScheduler, "gradients", noted)
    tune_weighted(networks(), wanted(tmp_path), never)
    resumed = [*asked]
    asked.clear()
    whole = tmp_path / "whole"
    whole.mkdir()
    tune_weighted(networks(), wanted(whole), never)
    assert resumed == asked[-len(resumed) :]


def test_a_task_of_failures_alone_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines, "Measurer", HalfBroken)
    scheduling = replace(SIX, most_failures=10)
    result = tune_weighted(networks(), wanted(tmp_path), scheduling)
    broken, *others = result.results
    assert broken.trials == 12, "two rounds, that is 10 and the end of a round"
    assert broken.best is None
    assert "given up: none of its 12 programs has a time" in broken.notes
    assert all(one.best for one in others)
    assert sum(one.trials for one in result.results) == 72
    assert math.isinf(result.latencies[0])
    assert math.isfinite(result.latencies[1])
    only = [WeightedTasks("broken", networks()[0].tasks[:1])]
    assert tune_weighted(only, wanted(tmp_path), scheduling).results[0].measured_now == 0


def test_an_error_of_one_task_is_a_note_and_of_all_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(Scaled):
        def measure(
            self, candidates: Sequence[ProgramText], meanwhile: Callable[[], None] = nothing
        ) -> Iterator[Outcome]:
            if self.task.name != "product 64":
                raise MeasureError("no room for its inputs")
            return super().measure(candidates, meanwhile)

    monkeypatch.setattr(machines, "Measurer", Refusing)
    result = tune_weighted(networks(), wanted(tmp_path), SIX)
    assert "given up: no room for its inputs" in result.results[0].notes
    assert result.results[2].trials == 72
    with pytest.raises(MeasureError, match="no room for its inputs"):
        tune_weighted(networks()[:1], wanted(tmp_path), SIX)


def test_of_a_limited_time_every_task_has_some_and_a_contest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, order = [0.0], list[str]()

    class Slow(Scaled):
        """A program takes a second, and in a contest as long."""

        def measure(
            self, candidates: Sequence[ProgramText], meanwhile: Callable[[], None] = nothing
        ) -> Iterator[Outcome]:
            for result in super().measure(candidates, meanwhile):
                clock[0] += 1.0
                yield result

        def rank(self, candidates: Sequence[ProgramText]) -> list[Outcome | None]:
            order.append(self.task.name)
            clock[0] += len(candidates)
            return list(super().measure(candidates))

    monkeypatch.setattr(machines, "Measurer", Slow)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    reports: list[RoundReport] = []
    limited = replace(wanted(tmp_path), time_budget=50.0)
    result = tune_weighted(
        networks(), limited, replace(SIX, warm_up=1, epsilon=0.0), reports.append
    )
    assert [(one.measured, one.trials) for one in reports[:3]] == [(2, 1), (1, 2), (0, 3)]
    assert (2, 6) in [(one.measured, one.tasks[2].trials) for one in reports[3:5]]
    assert order == ["product 64", "product 32", "product 16"], "by the time that they take"
    assert not any("compared" in note for one in result.results for note in one.notes)
    assert 45.0 <= clock[0] <= 50.0 + 1, "little of the time is left over, and no more is taken"
    assert sum(one.measured_now for one in result.results) < 45, "and what the contests took"


def test_a_task_without_time_for_one_more_program_gets_no_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OneRound(TimeBudget):
        """Has time for the programs of one round."""

        def affordable(self, most: int, at_once: int, best_s: float) -> int:
            self.is_spent = self._count > 0
            return 0 if self.is_spent else most

    monkeypatch.setattr(tuning_run, "TimeBudget", OneRound)
    reports: list[RoundReport] = []
    result = tune_weighted(
        networks(), replace(wanted(tmp_path), time_budget=20.0), SIX, reports.append
    )
    sums = [0, *(sum(task.trials for task in done.tasks) for done in reports)]
    assert sums[-1] >= 6 * len(result.results)
    assert sum(old == new for old, new in pairwise(sums)) <= len(result.results)
    assert result.trials_spared == 0, "the time was up, not what can be gained"


def test_contests_have_the_time_that_rounds_leave_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, limits = [0.0], list[float]()

    class Slow(Scaled):
        def measure(
            self, candidates: Sequence[ProgramText], meanwhile: Callable[[], None] = nothing
        ) -> Iterator[Outcome]:
            for result in super().measure(candidates, meanwhile):
                clock[0] += 3.0
                yield result

    def read() -> float:
        return clock[0]

    def hold(self: Final, measurer: object, record: object, limit_s: float) -> None:
        limits.append(limit_s)

    monkeypatch.setattr(machines, "Measurer", Slow)
    monkeypatch.setattr("time.monotonic", read)
    monkeypatch.setattr(tuning_run, "TimeBudget", partial(TimeBudget, clock=read))
    monkeypatch.setattr(Final, "hold", hold)
    tune_weighted(networks(), replace(wanted(tmp_path), time_budget=50.0), SIX)
    assert clock[0] < 50.0
    assert limits[-1] == pytest.approx(50.0 - clock[0]), "the last one has all that is left"


def test_spaces_that_are_exhausted_end_tuning(tmp_path: Path) -> None:
    net = [WeightedTasks("tiny", ((matmul(2, 2, 2), 1), (matmul(2, 2, 1), 1)))]
    result = tune_weighted(net, wanted(tmp_path), replace(SIX, trials=10_000))
    assert all(one.exhausted and not one.interrupted for one in result.results)
    assert sum(one.trials for one in result.results) < 1000
    assert result.trials_spared == 10_000 - sum(one.trials for one in result.results)


def test_runs_that_rest_hold_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    close = tuning_run.TuningRun.close

    def noted(self: tuning_run.TuningRun) -> None:
        closed.append(self.task.name)
        close(self)
        assert "_proposals" not in vars(self)

    monkeypatch.setattr(tuning_run.TuningRun, "close", noted)
    resting = replace(SIX, least_gain=0.5, trials=20)
    result = tune_weighted(networks(), wanted(tmp_path), resting)
    assert closed[:1] == ["product 32"], "before the others were tuned"
    assert all(one.best for one in result.results)


def test_wrong_networks_are_refused_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="'empty' needs tasks"):
        WeightedTasks("empty", ())
    with pytest.raises(OptionError, match="no networks"):
        tune_weighted([], wanted(tmp_path))
    with pytest.raises(OptionError, match="0 times for 2 networks"):
        tune_weighted(networks(), wanted(tmp_path), Scheduling(objective="f3"))
    assert not (tmp_path / "tune.db").exists()


def test_the_bench_compares_strategies_on_what_was_recorded(tmp_path: Path) -> None:
    tune_weighted(networks(), wanted(tmp_path), replace(SIX, strategy="round-robin"))
    command = ["schedule", "--records", str(tmp_path / "tune.db"), "--weights", "product 64=3"]
    shown = CliRunner().invoke(bench, [*command, "--trials", "60"])
    assert shown.exit_code == 0, shown.output
    (heavy,) = [line for line in shown.output.splitlines() if "product 64" in line]
    assert [cell.strip() for cell in heavy.split("│")[2:4]] == ["3", "24"]
    assert "latency of the network, ms, of 60 trials" in shown.output
    assert CliRunner().invoke(bench, [*command[:3], "--weights", "x"]).exit_code != 0


@pytest.mark.parametrize("strategy", sampled(["gradient", "equal"], ["gradient"]))
def test_real_programs_of_a_small_network(tmp_path: Path, strategy: str) -> None:
    scheduling = Scheduling(strategy, trials=12, trials_per_round=3)  # pyright: ignore[reportArgumentType]
    chosen = replace(
        options(tmp_path), measuring=MEASURING, search=SearchOptions(population=64, generations=1)
    )
    result: ScheduledResult = tune_weighted(networks(), chosen, scheduling)
    assert sum(one.trials for one in result.results) == 12
    assert all(one.best and not one.failures for one in result.results)
    again = tune_weighted(networks(), chosen, scheduling)
    assert again.latencies == result.latencies, "it is decided"
    assert sum(one.measured_now for one in again.results) == 0
