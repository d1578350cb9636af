"""A device of a fleet: it does signed jobs, one at a time, in the worker processes of measuring."""

from __future__ import annotations

import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from ansorc.errors import AnsorcError, MeasureError
from ansorc.fleet.announcement import (
    MOST_DRIFT,
    PURPOSE,
    Announcement,
    DeviceReport,
    calibrate,
    steady_work,
)
from ansorc.fleet.jobs import (
    ANSWER,
    JOB,
    TaskOrder,
    answer_build,
    decode,
    fault_message,
    find_build_answer,
    programs_of,
    results_message,
)
from ansorc.fleet.signing import FleetKey, SignatureError
from ansorc.search.measure import Measurer, Outcome, ProgramText, Workers
from ansorc.search.measure.messages import Message, build_request
from ansorc.search.measure.pool import Reply
from ansorc.target.units import seconds_text

_TASKS = 4
"""Tasks whose inputs and reference are kept."""
_NEVER = 1 << 30
_RATE_S = 60.0
"""So far back the rate of a report looks."""


class Labour(Protocol):
    """The worker that does the jobs of a device."""

    def do(self, job: Message) -> Message:
        """Do one job and return its answer; raise MeasureError or OSError if it cannot."""
        ...

    def close(self) -> None:
        """Free everything."""
        ...


class FleetDevice:
    """Takes signed jobs and gives signed answers, which `labour` does.

    After a job that measured, the calibration probe is taken again, by `probe`, which is told how
    many seconds are good enough: times of a device that has become another are a fault of it.
    """

    def __init__(
        self,
        announcement: Announcement,
        key: FleetKey,
        labour: Labour,
        probe: Callable[[float], float] | None = None,
    ) -> None:
        self.label, self._key, self._labour = announcement.label, key, labour
        self._probe, self._probe_s = probe, announcement.probe_s
        identified = replace(announcement, identity=uuid.uuid4().hex)
        self.announcement = key.sign(PURPOSE, identified.to_json())
        self._done = self._faults = 0
        self.refused = 0
        """Jobs that were not signed."""
        self._current: tuple[str, float] | None = None
        """The job under way, and when it was begun."""
        self._begin = time.monotonic()
        self._ends: deque[float] = deque(maxlen=1000)
        # The processes that measure die with the thread that started them: it is always this one.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ansorc-device")

    def answer(self, signed: bytes) -> bytes:
        """Return the signed answer to a signed job.

        Nothing of a job is read before its signature was. Whatever goes wrong is an answer, too.
        """
        try:
            content = self._key.verify(JOB, signed)
        except SignatureError as error:
            self.refused += 1
            return self._key.sign(ANSWER, fault_message("", f"refused: {error}").encode())
        job = decode(content)
        self._current = job.text("job"), time.monotonic()
        try:
            answer = self._thread.submit(self._do, job).result()
            self._done += 1
            self._ends.append(time.monotonic())
        except (AnsorcError, OSError) as error:
            self._faults += 1
            answer = fault_message(job.text("job"), f"{type(error).__name__}: {error}")
        finally:
            self._current = None
        return self._key.sign(ANSWER, answer.encode())

    def _do(self, job: Message) -> Message:
        """The answer to a job; raise MeasureError where its times are not those of this device."""
        answer = self._labour.do(job)
        if self._probe is None or job.text("kind") == "build":
            return answer
        now_s = self._probe(MOST_DRIFT * self._probe_s)
        if not 1 / MOST_DRIFT <= now_s / self._probe_s <= MOST_DRIFT:
            raise MeasureError(
                f"its probe takes {seconds_text(now_s)}, and took {seconds_text(self._probe_s)} at "
                "its start: something else works there, or its clock is wrong; start its worker "
                "again once it is quiet"
            )
        return answer

    def report(self, waiting: int = 0) -> DeviceReport:
        """Return what is to be said of its work; `waiting` jobs were sent and not begun."""
        now = time.monotonic()
        lately = [end for end in self._ends if end > now - _RATE_S]
        job, begin = self._current or ("", now)
        return DeviceReport(
            self._done, self._faults, self.refused, len(lately) / min(_RATE_S, now - self._begin),
            job, now - begin, waiting,
        )  # fmt: skip

    def close(self) -> None:
        """End what measures; a job that is under way is waited for."""
        self._thread.submit(self._labour.close).result()
        self._thread.shutdown()


def probe_here() -> Callable[[float], float]:
    """Return the probe of this machine, for a `FleetDevice`."""
    work = steady_work()
    return lambda enough_s: calibrate(work, enough_s=enough_s)


class JobMeasurer(Protocol):
    """Measures the programs of jobs of one task."""

    best_s: float

    def measure(self, candidates: Sequence[ProgramText]) -> Iterator[Outcome]: ...

    def measure_built(self, candidate: ProgramText, built: Reply) -> Outcome: ...

    def rank(self, candidates: Sequence[ProgramText]) -> list[Outcome | None]: ...


def measure_job(job: Message, measurer: JobMeasurer) -> Message:
    """Do a job that measures or ranks; return its answer."""
    programs, measurer.best_s = programs_of(job), job.number("best_s")
    if job.text("kind") == "rank":
        return results_message(job, measurer.rank(programs))
    if (built := find_build_answer(job)) is not None:
        outcomes = [measurer.measure_built(program, built) for program in programs]
        return results_message(job, outcomes)
    return results_message(job, list(measurer.measure(programs)))


class Sandbox:
    """Builds and measures in worker processes, as a tuning without a fleet does."""

    def __init__(self) -> None:
        self._workers: Workers | None = None
        self._orders: OrderedDict[str, Measurer] = OrderedDict()
        self._directory: TemporaryDirectory[str] | None = None

    def do(self, job: Message) -> Message:
        """Do one job; raise MeasureError where the processes do not work."""
        order = TaskOrder.of(job)
        if job.text("kind") == "build":
            return self._build(order, job)
        return measure_job(job, self._measurer(order))

    def close(self) -> None:
        """Kill the processes, delete the tasks' data."""
        for measurer in self._orders.values():
            measurer.close()
        self._orders.clear()
        if self._workers is not None:
            self._workers.close()
            self._workers = None
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    def _places(self) -> TemporaryDirectory[str]:
        if self._directory is None:
            self._directory = TemporaryDirectory(prefix="ansorc-build-")
        return self._directory

    def _measurer(self, order: TaskOrder) -> Measurer:
        """The measurer of a task; processes that no longer start are replaced."""
        if order.key not in self._orders:
            # How many failures are too many is for the tuner to say: it sees those of all devices.
            options = replace(order.options, identical_failures=_NEVER)
            if self._workers is None:
                self._workers = Workers(options)
            self._workers.options = options
            try:
                made = Measurer(order.task, options, workers=self._workers)
            except BaseException:
                self.close()
                raise
            self._orders[order.key] = made
        self._orders.move_to_end(order.key)
        while len(self._orders) > _TASKS:
            _, old = self._orders.popitem(last=False)
            old.close()
        return self._orders[order.key]

    def _build(self, order: TaskOrder, job: Message) -> Message:
        """Object code for a machine that may be another one: nothing of it runs here."""
        if self._workers is None:
            self._workers = Workers(order.options)
        self._workers.start(order.task)
        (program,) = programs_of(job)
        # A builder remembers a task by the directory that it came in.
        directory = Path(self._places().name) / order.task.key
        directory.mkdir(exist_ok=True)
        (directory / "task.json").write_text(order.task.to_json())
        request = build_request(directory, program, order.options.build_timeout_s)
        ((_, reply),) = self._workers.builders.run([request])
        return answer_build(job, reply)
