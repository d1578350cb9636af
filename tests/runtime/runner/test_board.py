"""Tuning through runners: what is measured and recorded, and what a lost runner costs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import ansorc as ac
from ansorc.errors import MeasureError, TargetError
from ansorc.fleet.board_labour import BoardLabour
from ansorc.fleet.device import FleetDevice
from ansorc.fleet.jobs import (
    ANSWER,
    JOB,
    TaskOrder,
    decode,
    job_message,
    programs_of,
    results_of,
    with_object_code,
)
from ansorc.fleet.signing import KEY_BYTES, FleetKey
from ansorc.ir.printer import to_text
from ansorc.search.measure import (
    Failure,
    FailureKind,
    Measurement,
    MeasureOptions,
    Outcome,
    ProgramText,
    Stopwatch,
)
from ansorc.search.measure.messages import Message
from ansorc.search.model.training import training_set
from ansorc.search.options import SearchOptions
from ansorc.search.record import Records
from ansorc.search.tune import tune_task
from ansorc.search.tune_options import TuneOptions
from ansorc.search.tune_result import RunProgress
from tests.runtime.runner.runners import MACHINES, needs_aarch64, runner_of


def layer() -> ac.ComputeDAG:
    """Its weights are packed."""
    a, b = ac.placeholder((24, 40), name="A"), ac.placeholder((40, 32), name="B", constant=True)
    return ac.ComputeDAG([a, b, ac.ops.relu(ac.ops.matmul(a, b, name="C"), name="D")])


@pytest.fixture
def board(made: Path) -> Iterator[ac.Board]:
    with ac.Board(runner_of(MACHINES["native"], made)) as opened:
        yield opened


def options(path: Path, board: ac.Board, trials: int) -> TuneOptions:
    search = SearchOptions(cost_model="roofline")
    return TuneOptions(trials, path / "tune.db", threads=1, search=search, measurer=board)


def test_times_of_a_board_are_recorded_as_its_own(tmp_path: Path, board: ac.Board) -> None:
    task = ac.Task(layer(), board.target)
    result = tune_task(task, options(tmp_path, board, 8))
    assert result.best is not None
    assert result.best.checked
    assert not result.failures
    assert not result.notes
    assert result.ranking is not None
    assert board.starts == 1
    here = ac.Target.parse("native").real
    assert board.target.features == here.features
    assert (board.target.triple, board.target.cores) == (here.triple, here.cores)
    with Records.open(tmp_path / "tune.db") as records:
        known = records.all(task.key, board.environment(1, "warm", task.target))
    assert len(known) >= 8
    packed = [one for one in known if one.packed_before]
    assert packed, "some programs read their weights in another order"


def measured(board: ac.Board, task: ac.Task, programs: list[ProgramText]) -> list[Outcome]:
    measurer = board.open(task, MeasureOptions(), 0.0, Stopwatch())
    return list(measurer.measure(programs))


def test_a_wrong_program_is_found_by_the_float64_reference(board: ac.Board) -> None:
    a = ac.placeholder((100,), name="A")
    right, wrong = (ac.compute((100,), lambda i, c=c: a[i] * c, name="B") for c in (2.0, 2.001))
    dag = ac.ComputeDAG([a, right])
    other = ac.lower(ac.schedule(ac.ComputeDAG([a, wrong])))
    programs = [
        ProgramText.of_function(to_text(one)) for one in (other, ac.lower(ac.schedule(dag)))
    ]
    bad, good = measured(board, ac.Task(dag, board.target), programs)
    assert isinstance(bad, Failure)
    assert bad.kind is FailureKind.WRONG_RESULT
    assert "the float64 reference says" in bad.message
    assert isinstance(good, Measurement)
    assert good.checked


def killed_at(board: ac.Board, trials: set[int]) -> Callable[[RunProgress], None]:
    def disturb(trial: RunProgress) -> None:
        if trial.done in trials:
            os.kill(board.pid, signal.SIGKILL)

    return disturb


def test_a_runner_that_is_killed_is_started_again(tmp_path: Path, board: ac.Board) -> None:
    task = ac.Task(layer(), board.target)
    result = tune_task(task, options(tmp_path, board, 6), killed_at(board, {2, 4}))
    assert board.starts == 3
    assert not result.failures
    assert result.best is not None
    assert any("is lost" in note for note in result.notes)


def test_a_command_that_starts_no_runner_ends_in_words(made: Path) -> None:
    with (
        ac.Board("sh -c 'echo no route to host >&2; exit 5'") as nowhere,
        pytest.raises(MeasureError, match=r"no route to host.*ansorc-runner"),
    ):
        _ = nowhere.target
    with (
        ac.Board(runner_of(MACHINES["native"], made)) as board,
        pytest.raises(TargetError, match="does not run code for"),
    ):
        board.require(ac.Target.parse("cuda -arch=sm_90"))


def test_jobs_of_a_fleet_are_done_on_a_board(board: ac.Board) -> None:
    key = FleetKey(b"k" * KEY_BYTES)
    device = FleetDevice(board.announcement("pi", 1e-3), key, BoardLabour(board))
    task = ac.Task(layer(), board.target)
    order = TaskOrder(task, replace(MeasureOptions(), builders=1))
    source = ProgramText.of_function(to_text(ac.lower(ac.schedule(task.dag))))

    def answer(job: Message) -> Message:
        return decode(key.verify(ANSWER, device.answer(key.sign(JOB, job.encode()))))

    try:
        built = answer(job_message(order, "build", "1", [source]))
        job = with_object_code(job_message(order, "measure", "2", [source]), built)
        for message in (job, job_message(order, "rank", "3", [source, source])):
            outcomes = results_of(answer(message), len(programs_of(message)))
            assert outcomes is not None
            assert all(isinstance(outcome, Measurement) for outcome in outcomes)
    finally:
        device.close()


def require_untimed(path: Path, board: ac.Board) -> None:
    """Programs are checked, and no file says how long one took."""
    task = ac.Task(layer(), board.target)
    result = tune_task(task, options(path, board, 3))
    assert result.best is None
    assert result.failures == {"untimed": 3}, result.first_failure
    assert result.first_failure.startswith("right (error ")
    assert any("checked and not timed" in note for note in result.notes)
    with Records.open(path / "tune.db") as records:
        emulated = [one for one in records.all(task.key) if "emulated " in one.environment.cpu]
        assert len(emulated) == 3
        assert all(one.median_s is None for one in emulated)
    again = tune_task(task, options(path, board, 4))
    assert again.measured_now == 1, "none is run twice"


def test_times_of_an_emulator_are_not_recorded(tmp_path: Path, made: Path, board: ac.Board) -> None:
    tune_task(ac.Task(layer(), board.target), options(tmp_path, board, 2))
    real = len(training_set([tmp_path / "tune.db"]).samples)
    assert real >= 2
    emulator = tmp_path / "qemu-pretended"
    emulator.write_text('#!/bin/sh\nexec "$@"\n')
    emulator.chmod(0o755)
    with ac.Board(f"{emulator} {runner_of(MACHINES['native'], made)}") as emulated:
        require_untimed(tmp_path, emulated)
    assert len(training_set([tmp_path / "tune.db"]).samples) == real, "nothing else is learnt"


@needs_aarch64
def test_programs_for_aarch64_are_checked_in_an_emulator(tmp_path: Path, made: Path) -> None:
    with ac.Board(runner_of(MACHINES["aarch64"], made)) as board:
        assert board.target.triple == "aarch64-linux-gnu"
        require_untimed(tmp_path, board)
