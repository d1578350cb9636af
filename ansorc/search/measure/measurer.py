"""Measure candidates of one task: build them side by side, run each one alone."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from ansorc.errors import MeasureError
from ansorc.search.measure.crew import Reply
from ansorc.search.measure.jobs import Program, build_request, run_request
from ansorc.search.measure.limits import BuildLimit, run_limit_s
from ansorc.search.measure.options import MeasureOptions
from ansorc.search.measure.preflight import preflight
from ansorc.search.measure.replies import build_cost_of, failure_of, measurements_of
from ansorc.search.measure.result import (
    Candidate,
    Failure,
    FailureKind,
    Measurement,
    MeasureResult,
    Outcome,
)
from ansorc.search.measure.wire import Message
from ansorc.search.measure.workplace import Workplace
from ansorc.search.task import Task


class Measurer:
    """Measures candidates of `task` in worker processes; use it as a context manager.

    Nothing of a candidate is compiled or run in this process. `best_s` is the time of the best
    checked program known before (0: none). Raises MeasureError if the workers do not start.

    Use it from a thread that lives as long as it does: on Linux the workers die with the thread
    that started them.
    """

    def __init__(
        self, task: Task, options: MeasureOptions | None = None, best_s: float = 0.0
    ) -> None:
        self.task = task
        self.options = options or MeasureOptions()
        self.best_s = best_s
        self._limit = BuildLimit(self.options.build_timeout_s)
        self._known: dict[str, Outcome] = {}
        self._last_failure: tuple[FailureKind, str] | None = None
        self._equal_failures = 0
        self._flown = False
        self._place = Workplace(task, self.options)

    def __enter__(self) -> Measurer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill the workers and delete the task's data; may be called twice."""
        self._place.close()

    def worker_pids(self) -> list[int]:
        """Return the process ids of all workers."""
        return self._place.pids()

    @property
    def data_directory(self) -> Path:
        """Where the task's inputs and reference lie while the measurer is open."""
        return self._place.data.directory

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[MeasureResult]:
        """Measure `candidates`; yield their results in this order, each as soon as it is known.

        Raises MeasureError with the first full text after `options.identical_failures` equal
        failures in a row.
        """
        size = self.options.batch
        for begin in range(0, len(candidates), size):
            batch = candidates[begin : begin + size]
            for candidate, built in zip(batch, self._build(batch), strict=True):
                result = self._finish(candidate, built)
                yield result
                self._count(result)

    def rank(self, candidates: Sequence[Candidate]) -> list[MeasureResult]:
        """Time a few good programs against each other, in turns, fastest first; failures last.

        Two programs that were measured minutes apart cannot be told from each other by a few
        percent: the machine's clock has changed. Every program is checked again.
        """
        replies = self._build(candidates)
        results: list[MeasureResult] = []
        built: list[tuple[Candidate, Message]] = []
        for candidate, reply in zip(candidates, replies, strict=True):
            failure = reply if isinstance(reply, Failure) else failure_of(reply)
            if failure is not None:
                results.append(MeasureResult(candidate, failure))
            elif isinstance(reply, Message):
                built.append((candidate, reply))
        for (candidate, message), outcome in zip(built, self._contest(built), strict=True):
            results.append(MeasureResult(candidate, outcome, build_cost_of(message)))
        return sorted(results, key=_rank_key)

    def _contest(self, built: Sequence[tuple[Candidate, Message]]) -> Sequence[Outcome]:
        programs = [Program.of(message) for _, message in built]
        if len(programs) < 2:
            return [self._run(message) for _, message in built]
        options = self.options.run
        each_s = self._run_limit_s() + options.rank_rounds * (4 * self.best_s + options.min_total_s)
        data, limit_s = self._place.data, each_s * len(programs)
        request = run_request(data, programs, options, self.best_s, limit_s)
        ((_, reply),) = self._place.runner.run([request])
        failure = reply if isinstance(reply, Failure) else failure_of(reply)
        if failure is not None:
            return [failure] * len(programs)
        assert isinstance(reply, Message)
        return measurements_of(reply)

    def _build(self, batch: Sequence[Candidate]) -> list[Reply]:
        """Build all of `batch`, then wait until the machine is quiet."""
        if not self._flown:
            preflight(self._place, self.task.target, self.options.run)
            self._flown = True
        directory, limit_s = self._place.data.directory, self._limit.seconds
        requests = [build_request(directory, candidate, limit_s) for candidate in batch]
        replies: dict[int, Reply] = {}
        for index, reply in self._place.builders.run(requests):
            replies[index] = reply
            if isinstance(reply, Message) and failure_of(reply) is None:
                self._limit.observe(build_cost_of(reply).total_s)
        self._place.quiet()
        return [replies[index] for index in range(len(batch))]

    def _finish(self, candidate: Candidate, built: Reply) -> MeasureResult:
        """Run what has been built, unless equal code was measured already."""
        failure = built if isinstance(built, Failure) else failure_of(built)
        if failure is not None:
            return MeasureResult(candidate, failure)
        assert isinstance(built, Message)
        cost = build_cost_of(built)
        layouts = repr(built.fields["packings"]).encode()  # equal code may read other orders
        code = hashlib.sha256(layouts + built.blob).hexdigest()
        if (known := self._known.get(code)) is not None:
            return MeasureResult(candidate, known, cost, reused=True)
        outcome = self._run(built)
        self._known[code] = outcome
        if isinstance(outcome, Measurement) and outcome.checked:
            self.best_s = min(self.best_s or math.inf, outcome.median_s)
        return MeasureResult(candidate, outcome, cost)

    def _run(self, built: Message) -> Outcome:
        programs = [Program.of(built)]
        limit_s = self._run_limit_s()
        data, options = self._place.data, self.options.run
        request = run_request(data, programs, options, self.best_s, limit_s)
        ((_, reply),) = self._place.runner.run([request])
        if isinstance(reply, Failure):
            return reply
        return failure_of(reply) or measurements_of(reply)[0]

    def _run_limit_s(self) -> float:
        flops, array_bytes = self.task.dag.flops, self._place.data.array_bytes
        return run_limit_s(self.options.run, self.best_s, flops, array_bytes)

    def _count(self, result: MeasureResult) -> None:
        """Stop the run when nothing but one and the same failure comes."""
        failure = result.failure
        if failure is None:
            self._last_failure, self._equal_failures = None, 0
            return
        words = failure.kind, failure.message
        self._equal_failures = self._equal_failures + 1 if words == self._last_failure else 1
        self._last_failure = words
        if self._equal_failures >= self.options.identical_failures:
            raise MeasureError(
                f"{self._equal_failures} candidates in a row failed alike "
                f"({failure.kind.value}):\n{failure.detail}"
            )


def _rank_key(result: MeasureResult) -> float:
    return result.measurement.median_s if result.measurement else math.inf
