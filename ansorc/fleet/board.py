"""`ac.Board`: a machine without Python, where a static program runs what is built here."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from ansorc.errors import MeasureError, TargetError
from ansorc.fleet.announcement import Announcement
from ansorc.fleet.board_bench import BoardBench, RunOrder
from ansorc.fleet.board_runner import MOST_PROGRAMS, BoardRunner
from ansorc.fleet.drawn_inputs import DrawnTask
from ansorc.fleet.object_builds import ObjectBuilds
from ansorc.fleet.runner_link import LinkError, RefusedError
from ansorc.fleet.runner_machine import RunnerMachine
from ansorc.search.machines import TaskMeasurer
from ansorc.search.measure import (
    CachePolicy,
    Failure,
    FailureKind,
    Measurement,
    MeasureOptions,
    Outcome,
    ProgramText,
    Stopwatch,
    concurrently,
    nothing,
)
from ansorc.search.measure.messages import CompiledKernel, Message, build_cost_of, failure_of
from ansorc.search.measure.options import eviction_limit_s, run_limit_s
from ansorc.search.measure.pool import Reply
from ansorc.search.record import Environment
from ansorc.search.task import Task
from ansorc.target import Target

Achieved = TypeVar("Achieved")
_STARTS, _PAUSE_S = 3, 0.5
"""So often a runner is started before the board counts as unreachable."""
_TRIES = 2
"""So often a program is run with which the runner was lost."""
_TASKS = 8
"""Tasks whose arrays are kept on the board."""
_EMULATED_FACTOR = 30.0
"""Factor on time limits in an emulator."""


class Board:
    """The machine of an `ansorc-runner` that the command `through` starts, as a shell's words.

        board = ac.Board("ssh pi ./ansorc-runner")
        task = ac.Task(dag, board.target)
        result = ac.tune(task, measurer=board)

    Programs are built here and checked here against float64; the board runs and times them, each in
    a process of its own. A runner that is lost is started again. In an emulator programs are
    checked and not timed: each is recorded as a failure of the kind "untimed".

    Raise MeasureError where no runner answers, TargetError for a machine that ansorc makes no code
    for. Close it, or use it as a context manager, in the thread that measures.
    """

    def __init__(self, through: str) -> None:
        self.through = through
        self._runner: BoardRunner | None = None
        self._machine: RunnerMachine | None = None
        self._builds: ObjectBuilds | None = None
        self._drawn: OrderedDict[tuple[str, int], DrawnTask] = OrderedDict()
        self._benches: dict[tuple[str, int], BoardBench] = {}
        self._notes: dict[str, None] = {}
        self.starts = 0
        """The number of times that a runner was started."""

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the runner and the builders; may be called twice. The board may be used again."""
        self._end_runner()
        if self._builds is not None:
            self._builds.close()
            self._builds = None
        self._drawn.clear()

    @property
    def machine(self) -> RunnerMachine:
        """The machine that the runner proves to be on; the runner is started."""
        return self._machine or self._live().machine

    @property
    def pid(self) -> int:
        """The process id of the command."""
        return self._live().link.pid

    @property
    def target(self) -> Target:
        """The board, for which its tasks are to be."""
        return self.machine.target

    @property
    def emulated(self) -> str:
        """Why its times are worth nothing; empty on a real machine."""
        return self.machine.emulated

    @property
    def notes(self) -> tuple[str, ...]:
        """The faults of the runner so far, and that the machine is emulated."""
        return tuple(self._notes)

    def announcement(self, label: str, probe_s: float | None = None) -> Announcement:
        """Return the announcement of the board as `label`; `probe_s` is measured unless given."""
        known = self.machine.announcement(label)
        if probe_s is None:
            return known
        return replace(known, probe_s=probe_s, probe_is_given=True)

    def require(self, target: Target, cache: CachePolicy = "warm") -> None:
        """Raise TargetError where the board cannot run code for `target`, or with such caches."""
        board_target, real = self.target, target.real
        if real.is_gpu or real.triple.partition("-")[0] != board_target.triple.partition("-")[0]:
            raise TargetError(
                f"the board is {board_target.text}, which does not run code for "
                f"{target.text}; make tasks for `Board.target`"
            )
        if missing := sorted({*real.features} - {*board_target.features}):
            raise TargetError(
                f"the board lacks {', '.join(missing)}, which {target.text} has; make tasks for "
                "`Board.target`"
            )
        if cache != "warm" and not self.machine.can_be_cold:
            raise TargetError("the board has no instructions that empty its caches")

    def environment(self, threads: int, cache: CachePolicy, target: Target) -> Environment:
        """Return the environment of the board, under which its times are recorded."""
        del target
        return self.announcement("").environment(threads, cache)

    def open(
        self, task: Task, options: MeasureOptions, best_s: float, watch: Stopwatch
    ) -> BoardMeasurer:
        """Return a measurer of `task`; raise MeasureError where no runner answers."""
        with watch.phase("start"):
            self._live()
        return BoardMeasurer(self, task, options, best_s, watch)

    def build(
        self, task: Task, programs: Sequence[ProgramText], options: MeasureOptions
    ) -> list[Reply]:
        """Return the object code of programs, built here, or why there is none."""
        if self._builds is None:
            self._builds = ObjectBuilds(options)
        replies = dict(self._builds.build(task, programs, options.build_timeout_s))
        return [replies[number] for number in range(len(programs))]

    def attempt(
        self, task: Task, seed: int, action: Callable[[BoardBench], Achieved]
    ) -> Achieved | Failure:
        """Do `action` with `task` on the board; again, with a new runner, if that was lost.

        Return a failure of the measuring if it is lost each time; raise MeasureError where none
        starts.
        """
        words = ""
        for _ in range(_TRIES):
            try:
                return action(self._bench(task, seed))
            except LinkError as error:
                words = str(error)
                self._notes[words] = None
                self._end_runner()
            except RefusedError as error:
                self._end_runner()  # which frees all that it had
                raise MeasureError(f"the board's runner refuses: {error}") from error
        return Failure.of(FailureKind.UNKNOWN, words)

    def _bench(self, task: Task, seed: int) -> BoardBench:
        key = task.key, seed
        runner = self._live()
        if key not in self._drawn:
            self._drawn[key] = DrawnTask.of(task, seed)
        self._drawn.move_to_end(key)
        while len(self._drawn) > _TASKS:
            old, _ = self._drawn.popitem(last=False)
            if (bench := self._benches.pop(old, None)) is not None:
                bench.close()
        if key not in self._benches:
            self._benches[key] = BoardBench(runner, self._drawn[key])
        return self._benches[key]

    def _live(self) -> BoardRunner:
        """The runner; started if there is none."""
        if self._runner is not None:
            return self._runner
        words = ""
        for attempt in range(_STARTS):
            time.sleep(_PAUSE_S * attempt)
            try:
                self._runner = BoardRunner(self.through)
                break
            except LinkError as error:
                words = str(error)
        if self._runner is None:
            raise MeasureError(f"{words} ({_STARTS} times; is there an `ansorc-runner`?)")
        self.starts += 1
        machine, known = self._runner.machine, self._machine
        if known is not None and not known.is_same(machine):
            self._end_runner()
            raise MeasureError(f"`{self.through}` is on another machine than before")
        self._machine = machine
        if self.emulated:
            self._notes[f"programs were checked and not timed: {self.emulated}"] = None
        return self._runner

    def _end_runner(self) -> None:
        self._benches.clear()
        if self._runner is not None:
            self._runner.close()
            self._runner = None


class BoardMeasurer(TaskMeasurer):
    """Measures programs of one task on a board. `best_s`: see `Measurer`."""

    def __init__(
        self, board: Board, task: Task, options: MeasureOptions, best_s: float, watch: Stopwatch
    ) -> None:
        self.best_s = best_s
        self._board, self._task, self._options, self._watch = board, task, options, watch

    def measure(
        self, candidates: Sequence[ProgramText], meanwhile: Callable[[], None] = nothing
    ) -> Iterator[Outcome]:
        """Measure `candidates`, doing `meanwhile` while the last are built; yield in this order."""
        size = self._options.batch
        for begin in range(0, len(candidates), size):
            batch = candidates[begin : begin + size]
            is_last = begin + size >= len(candidates)
            build = self._build_here(batch, meanwhile if is_last else nothing)
            for candidate, reply in zip(batch, build, strict=True):
                yield self.measure_built(candidate, reply)

    def rank(self, candidates: Sequence[ProgramText]) -> list[Outcome | None]:
        """Time the first 16 programs in turns; return the outcomes in this order."""
        outcomes: list[Outcome | None] = [None] * len(candidates)
        entered = candidates[:MOST_PROGRAMS]
        kernels: dict[int, Message] = {}
        for number, reply in enumerate(self._build_here(entered)):
            failure = reply if isinstance(reply, Failure) else failure_of(reply)
            if failure is not None:
                outcomes[number] = failure
            elif isinstance(reply, Message):
                kernels[number] = reply
        compiled = [CompiledKernel.of(message) for message in kernels.values()]
        with self._watch.phase("contest"):
            order = self._order(is_contest=True)
            answer = self._board.attempt(
                self._task, self._options.seed, lambda bench: bench.rank(compiled, order)
            )
        if isinstance(answer, Failure):
            return [answer] * len(candidates)
        for (number, message), outcome in zip(kernels.items(), answer, strict=True):
            if outcome is not None:
                outcomes[number] = replace(outcome, build=build_cost_of(message))
        return outcomes

    def measure_built(self, candidate: ProgramText, built: Reply) -> Outcome:
        """Run what a builder answered."""
        failure = built if isinstance(built, Failure) else failure_of(built)
        if failure is not None:
            return failure
        assert isinstance(built, Message)
        kernel, order = CompiledKernel.of(built), self._order()
        with self._watch.phase("run"):
            outcome: Outcome = self._board.attempt(
                self._task, self._options.seed, lambda bench: bench.measure(kernel, order)
            )
        if isinstance(outcome, Measurement):
            self.best_s = min(self.best_s or math.inf, outcome.median_s)
        return replace(outcome, build=build_cost_of(built))

    def close(self) -> None:
        """The board forgets the task when it has others."""

    def _build_here(
        self, candidates: Sequence[ProgramText], meanwhile: Callable[[], None] = nothing
    ) -> list[Reply]:
        with self._watch.phase("search"), concurrently(meanwhile), self._watch.phase("build"):
            return self._board.build(self._task, candidates, self._options)

    def _order(self, *, is_contest: bool = False) -> RunOrder:
        run, dag = self._options.run, self._task.dag
        array_bytes = sum(8 * buffer.elements for buffer in dag.params)
        limit_s = run_limit_s(run, self.best_s, dag.flops, array_bytes)
        if is_contest:
            limit_s += run.rank_rounds * (4 * self.best_s + 2 * run.rank_repeat_s)
            limit_s += eviction_limit_s(run, array_bytes, run.rank_rounds)
        return RunOrder(run, limit_s * (_EMULATED_FACTOR if self._board.emulated else 1.0),
                        self.best_s)  # fmt: skip
