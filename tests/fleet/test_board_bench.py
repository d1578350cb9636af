"""A contest on a board, whose runner is made up here."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import cast

from ansorc.codegen.package.signature import Signature
from ansorc.fleet.board_bench import BoardBench, RunOrder
from ansorc.fleet.board_runner import (
    BoardProgram,
    BoardRunner,
    BoardTrial,
    ProgramTimes,
    TrialOutcome,
    TrialReport,
)
from ansorc.fleet.drawn_inputs import DrawnTask
from ansorc.search.measure import Failure, FailureKind, Measurement, RunCost, RunOptions
from ansorc.search.measure.messages import CompiledKernel
from ansorc.search.measure.result import Outcome
from tests.fleet.made_up import product

KERNELS = [CompiledKernel(Signature("k", (), 0, parallel=False), code) for code in (b"a", b"b")]
ALONE = [Measurement((seconds,), checked=True, run=RunCost(1.0)) for seconds in (2e-3, 1e-3)]
ORDER = RunOrder(RunOptions(), 1.0)
SEGFAULT = TrialReport(TrialOutcome.SIGNAL, signal.SIGSEGV, "in its first call", 1, ())


class Machine:
    emulated = ""


class Runner:
    """Answers a trial of several programs with `report`."""

    machine = Machine()

    def __init__(self, report: TrialReport) -> None:
        self._report = report

    def allocate(self, size: int) -> int:
        return size

    def draw(self, array: int, draw: object) -> None:
        """Nothing is held."""

    def run(self, trial: BoardTrial) -> TrialReport:
        assert trial.in_turns
        assert len(trial.programs) == 2
        return self._report


class Bench(BoardBench):
    """A refused kernel, and two that are right alone."""

    def _load(self, kernel: CompiledKernel, code: int) -> BoardProgram:
        return BoardProgram(code, 0, ())

    def _try(self, kernel: CompiledKernel, order: RunOrder, *, is_timed: bool) -> Outcome:
        assert not is_timed
        if kernel.code == b"refused":
            return Failure.of(FailureKind.COMPILE, "refused")
        return ALONE[KERNELS.index(kernel)]


def ranked(report: TrialReport) -> list[Outcome | None]:
    bench = Bench(cast("BoardRunner", Runner(report)), DrawnTask.of(product(), 0))
    return bench.rank([replace(KERNELS[0], code=b"refused"), *KERNELS], ORDER)


def test_one_that_fails_beside_others_leaves_them_without_an_outcome() -> None:
    refused, right, failed = ranked(SEGFAULT)
    assert isinstance(refused, Failure)
    assert right is None, "it did not fail, and has no time"
    assert isinstance(failed, Failure)
    assert failed.kind is FailureKind.CRASH
    assert failed.run == ALONE[1].run


def test_bits_that_differ_beside_others_are_a_wrong_result() -> None:
    times = tuple(ProgramTimes(0.0, (float(n),), False, b"unknown bits") for n in range(2))
    done = TrialReport(TrialOutcome.DONE, 0, "", 0, times)
    _, *outcomes = ranked(done)
    kinds = [outcome.kind for outcome in outcomes if isinstance(outcome, Failure)]
    assert kinds == [FailureKind.WRONG_RESULT] * 2


def test_times_taken_in_turns_replace_those_of_the_check() -> None:
    times = tuple(ProgramTimes(0.0, (float(n),) * 3, False, b"known bits") for n in (1, 2))
    bench = Bench(
        cast("BoardRunner", Runner(TrialReport(TrialOutcome.DONE, 0, "", 0, times))),
        DrawnTask.of(product(), 0),
    )
    vars(bench)["_verdicts"][b"known bits"] = None
    first, second = bench.rank(KERNELS, ORDER)
    assert isinstance(first, Measurement)
    assert isinstance(second, Measurement)
    assert (first.seconds, second.seconds) == ((1.0,) * 3, (2.0,) * 3)
    assert first.run == ALONE[0].run
