"""Measure candidates of one task: build them side by side, run each one alone."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from ansorc.errors import MeasureError
from ansorc.search.measure.data import TaskData
from ansorc.search.measure.messages import (
    CompiledKernel,
    Message,
    Request,
    build_cost_of,
    build_request,
    failure_of,
    outcomes_of,
    probe_time_of,
    run_request,
)
from ansorc.search.measure.options import BuildLimit, MeasureOptions, eviction_limit_s, run_limit_s
from ansorc.search.measure.pool import Reply
from ansorc.search.measure.program_text import ProgramText
from ansorc.search.measure.result import (
    Failure,
    FailureKind,
    Measurement,
    Outcome,
    RunCost,
    Stopwatch,
)
from ansorc.search.measure.workers import Workers
from ansorc.search.task import Task


def nothing() -> None:
    """Do nothing."""


@contextmanager
def concurrently(work: Callable[[], None]) -> Generator[None]:
    """Do `work` in another thread during the `with`, which ends when both have ended.

    What `work` raises is raised at the end.
    """
    if work is nothing:
        yield
        return
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        yield
        done.result()


def batch_begins(count: int, most: int) -> range:
    """Return where equal batches of `count` programs begin, none of them larger than `most`."""
    return range(0, count, math.ceil(count / math.ceil(count / most)) if count else 1)


_THREAD_ROUNDS = 9
_KEPT = 16
"""Programs whose machine code is kept, as they may be timed against each other later."""


class Measurer:
    """Measures candidates of `task` in worker processes; use it as a context manager.

    Nothing of a candidate is compiled or run in this process. `best_s` is the time of the best
    checked program known before (0: none). `watch` counts the phases "start" (processes, inputs,
    reference), "build", "run" and "contest". Raises MeasureError if the workers do not start.

    `workers` may serve other measurers in between and remain when this one is closed. Without them
    it has its own: use it from a thread that lives as long as it does then.
    """

    def __init__(
        self,
        task: Task,
        options: MeasureOptions | None = None,
        best_s: float = 0.0,
        watch: Stopwatch | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.task = task
        self.options = options or MeasureOptions()
        self.best_s = best_s
        self._limit = BuildLimit(self.options.build_timeout_s)
        self._watch = watch or Stopwatch()
        self._known: dict[str, Measurement] = {}
        self._kept: dict[ProgramText, Message] = {}
        self._fastest: list[tuple[float, str, ProgramText]] = []
        self._last_failure: tuple[FailureKind, str] | None = None
        self._equal_failures = 0
        self._data: TaskData | None = None
        self._has_own = workers is None
        self._workers = workers or Workers(self.options)
        try:
            with self._watch.phase("start"):
                # The processes start while this one draws the inputs and evaluates the reference.
                self._workers.start(task)
                self._data = TaskData.create(
                    task, np.random.default_rng(self.options.seed), self.options.inputs
                )
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Measurer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the task's data, and kill the workers if they are its own; may be called twice."""
        if self._has_own:
            self._workers.close()
        if self._data is not None:
            self._data.remove()
            self._data = None

    def worker_pids(self) -> list[int]:
        """Return the process ids of all workers."""
        return self._workers.pids()

    @property
    def data_directory(self) -> Path:
        """Where the task's inputs and reference lie while the measurer is open."""
        return self._open_data.directory

    @property
    def _open_data(self) -> TaskData:
        if self._data is None:
            raise MeasureError("the measurer is closed; make a new one")
        return self._data

    def measure(
        self, candidates: Sequence[ProgramText], meanwhile: Callable[[], None] = nothing
    ) -> Iterator[Outcome]:
        """Measure `candidates`; yield their outcomes in this order, each as soon as it is known.

        `meanwhile` is done in another thread while the last of them are built, and before any of
        these is run: nothing else happens while a program is timed. Raises MeasureError with the
        first full text after `options.identical_failures` equal failures in a row.
        """
        begins = batch_begins(len(candidates), self.options.batch)
        for begin in begins:
            batch = candidates[begin : begin + begins.step]
            built = self._build(batch, meanwhile if begin == begins[-1] else nothing)
            for candidate, reply in zip(batch, built, strict=True):
                outcome = self.measure_built(candidate, reply)
                yield outcome
                self._count(outcome)

    def rank(self, candidates: Sequence[ProgramText]) -> list[Outcome | None]:
        """Time a few good programs against each other, in turns; return outcomes in this order.

        Two programs that were measured minutes apart cannot be told from each other by a few
        percent: the machine's clock has changed. Every program is checked again. The repeats of
        all programs belong together by their place in `Measurement.seconds`. If one of them harms
        the worker, there is no outcome, None, for those that did not.
        """
        missing = [candidate for candidate in candidates if candidate not in self._kept]
        replies = dict(zip(missing, self._build(missing), strict=True)) if missing else {}
        outcomes: list[Outcome | None] = [None] * len(candidates)
        built: dict[int, Message] = {}
        for number, candidate in enumerate(candidates):
            reply = self._kept.get(candidate) or replies[candidate]
            failure = reply if isinstance(reply, Failure) else failure_of(reply)
            if failure is not None:
                outcomes[number] = failure
            elif isinstance(reply, Message):
                self._kept[candidate] = reply
                built[number] = reply
        for number, outcome in zip(built, self._contest([*built.values()]), strict=True):
            if outcome is not None:
                outcomes[number] = replace(outcome, build=build_cost_of(built[number]))
        return outcomes

    def time_threads(self, program: ProgramText, counts: Sequence[int]) -> list[float]:
        """Return the seconds of a call of `program` with each of `counts` threads, in this order.

        None are returned of a program that has no parallel loop, or that is not right any more.
        """
        reply = self._kept.get(program) or self._build([program])[0]
        if isinstance(reply, Failure) or failure_of(reply) is not None:
            return []
        compiled, seconds = CompiledKernel.of(reply), list[float]()
        for count in counts if compiled.signature.parallel else ():
            run = replace(self.options.run, threads=count, rank_rounds=_THREAD_ROUNDS)
            with self._watch.phase("contest"):
                job = run_request(self._open_data, [compiled], run, self._run_limit_s())
                outcomes = self._outcomes(job)
            if not isinstance(outcomes, Failure) and isinstance(outcomes[0], Measurement):
                seconds.append(outcomes[0].median_s)
        return seconds if len(seconds) == len(counts) else []

    def _contest(self, built: Sequence[Message]) -> Sequence[Outcome | None]:
        """Time all in turns; if one of them harms the worker, each alone, to see which."""
        if not built:
            return ()
        options, data = self.options.run, self._open_data
        each_s = options.rank_rounds * (4 * self.best_s + 2 * options.rank_repeat_s)
        each_s += eviction_limit_s(options, data.array_bytes, options.rank_rounds)
        programs = [CompiledKernel.of(message) for message in built]
        limit_s = (self._run_limit_s() + each_s) * len(programs)
        with self._watch.phase("contest"):
            outcomes = self._outcomes(run_request(data, programs, options, limit_s))
        if not isinstance(outcomes, Failure):
            return outcomes
        alone = [self._run(message) for message in built]
        return [outcome if isinstance(outcome, Failure) else None for outcome in alone]

    def _build(
        self, batch: Sequence[ProgramText], meanwhile: Callable[[], None] = nothing
    ) -> list[Reply]:
        """Build all of `batch`, then wait until no worker is busy."""
        directory, limit_s = self._open_data.directory, self._limit.seconds
        with self._watch.phase("start"):
            self._workers.start(self.task)
            self._workers.check(self.task.target)
        requests = [build_request(directory, candidate, limit_s) for candidate in batch]
        replies: dict[int, Reply] = {}
        with self._watch.phase("search"), concurrently(meanwhile), self._watch.phase("build"):
            for index, reply in self._workers.builders.run(requests):
                replies[index] = reply
                if isinstance(reply, Message) and failure_of(reply) is None:
                    self._limit.observe(build_cost_of(reply).total_s)
        with self._watch.phase("build"):
            self._workers.settle()
        return [replies[index] for index in range(len(batch))]

    def measure_built(self, candidate: ProgramText, built: Reply) -> Outcome:
        """Run what a build worker answered, unless equal code has a time already."""
        failure = built if isinstance(built, Failure) else failure_of(built)
        if failure is not None:
            return failure
        assert isinstance(built, Message)
        cost = build_cost_of(built)
        signature = repr(built.fields["signature"]).encode()  # equal code may read other orders
        code = hashlib.sha256(signature + built.blob).hexdigest()
        if (known := self._known.get(code)) is not None:
            return replace(known, build=cost, run=RunCost())
        outcome = self._run(built)
        if isinstance(outcome, Measurement):  # a failure may have been a fault of the machine
            self._known[code] = outcome
            self._keep(candidate, built, outcome.median_s)
        return replace(outcome, build=cost)

    def _keep(self, candidate: ProgramText, built: Message, median_s: float) -> None:
        """Remember the best time, and the machine code of the fastest few for `rank`."""
        self.best_s = min(self.best_s or math.inf, median_s)
        self._kept[candidate] = built
        self._fastest = sorted([*self._fastest, (median_s, candidate.key, candidate)])
        for _, _, slow in self._fastest[_KEPT:]:
            self._kept.pop(slow, None)
        del self._fastest[_KEPT:]

    def _run(self, built: Message) -> Outcome:
        """Check and time one program, alone."""
        limit_s, best_s = self._run_limit_s(), self.best_s
        data, options = self._open_data, self.options.run
        fastest = self._workers.probe_times.get(options.threads)
        job = run_request(data, [CompiledKernel.of(built)], options, limit_s, best_s, fastest)
        with self._watch.phase("run"):
            outcomes = self._outcomes(job)
        return outcomes if isinstance(outcomes, Failure) else outcomes[0]

    def _outcomes(self, request: Request) -> list[Outcome] | Failure:
        """Return the run worker's answer: an outcome for each program, or why there is none."""
        ((_, reply),) = self._workers.runner.run([request])
        if isinstance(reply, Failure):
            return reply
        if fastest := probe_time_of(reply):
            self._workers.probe_times[self.options.run.threads] = fastest
        return failure_of(reply) or outcomes_of(reply)

    def _run_limit_s(self) -> float:
        flops, array_bytes = self.task.dag.flops, self._open_data.array_bytes
        return run_limit_s(self.options.run, self.best_s, flops, array_bytes)

    def _count(self, outcome: Outcome) -> None:
        """Stop the run when nothing but one and the same failure comes.

        Programs that are killed because they are slower than one that is known are no fault.
        """
        is_failure = isinstance(outcome, Failure)
        if not is_failure or (outcome.kind is FailureKind.RUN_TIMEOUT and self.best_s):
            self._last_failure, self._equal_failures = None, 0
            return
        words = outcome.kind, outcome.message
        self._equal_failures = self._equal_failures + 1 if words == self._last_failure else 1
        self._last_failure = words
        if self._equal_failures >= self.options.identical_failures:
            raise MeasureError(
                f"{self._equal_failures} candidates in a row failed alike "
                f"({outcome.kind.value}):\n{outcome.detail}"
            )
