"""A pool of equal worker processes: jobs go out, answers or typed failures come back."""

from __future__ import annotations

import select
import signal
import time
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ansorc.errors import MeasureError
from ansorc.search.measure.messages import Message, Request
from ansorc.search.measure.process import WorkerProcess, ZygoteProcess
from ansorc.search.measure.result import Failure, FailureKind

_START_ATTEMPTS = 3
_ALARM_SLACK_S = 2.0
_OUT_OF_MEMORY_WORDS = ("out of memory", "bad_alloc", "MemoryError", "Cannot allocate memory")


@dataclass(frozen=True)
class WorkerPoolOptions:
    """How the workers of one pool are started, limited and replaced."""

    zygote: ZygoteProcess
    role: str
    size: int
    timeout_kind: FailureKind
    memory_bytes: int = 0
    """The address space that a worker may have; 0: no limit."""
    start_timeout_s: float = 60.0
    recycle_after: int = 500
    recycle_rss_bytes: int = 2 << 30


Reply: TypeAlias = Message | Failure


@dataclass
class _Slot:
    """One place in the pool and the process that fills it now."""

    process: WorkerProcess
    deadline: float
    ready: bool = False
    served: int = 0
    job: int | None = None
    limit_s: float = 0.0


class WorkerPool:
    """Keeps `size` workers alive and gives each one job at a time.

    A worker that dies or takes too long is killed with its whole process group and replaced; only
    the job it held fails. A crash in a worker that had served others before is tried once more in
    another worker, because an earlier job may have damaged the first one's memory.
    """

    def __init__(self, options: WorkerPoolOptions) -> None:
        self._options = options
        self._start_failures = 0
        self._slots: list[_Slot] = []
        try:
            for _ in range(options.size):
                self._slots.append(self._start())
        except BaseException:
            self.close()
            raise

    def run(self, requests: Sequence[Request]) -> Generator[tuple[int, Reply]]:
        """Do all `requests`; yield (index, reply) as each one ends, in any order.

        Raise MeasureError once the pool is closed.
        """
        if not self._slots:
            raise MeasureError("the measurer is closed; make a new one")
        waiting = deque(range(len(requests)))
        retried: set[int] = set()
        unfinished = len(requests)
        try:
            while unfinished:
                self._hand_out(waiting, requests)
                for slot in self._wait():
                    if (ended := self._collect(slot)) is None:
                        continue
                    job, reply = ended
                    if _deserves_retry(slot, reply) and job not in retried:
                        retried.add(job)
                        waiting.appendleft(job)
                    else:
                        unfinished -= 1
                        yield job, reply
        finally:
            self._abandon()

    def settle(self) -> None:
        """Wait until every worker has started, so that nothing but the job at hand uses the CPU."""
        while not all(slot.ready for slot in self._slots):
            for slot in self._wait():
                self._collect(slot)

    def pids(self) -> list[int]:
        """Return the process ids of the pool."""
        return [slot.process.pid for slot in self._slots]

    def close(self) -> None:
        """Kill all workers."""
        for slot in self._slots:
            slot.process.close()
        self._slots.clear()

    def _start(self) -> _Slot:
        process = self._options.zygote.start(self._options.role, self._options.memory_bytes)
        return _Slot(process, time.monotonic() + self._options.start_timeout_s)

    def _replace(self, slot: _Slot) -> None:
        slot.process.close()
        self._slots[self._slots.index(slot)] = self._start()

    def _abandon(self) -> None:
        """Replace the workers whose answer nobody waits for any more."""
        for slot in [slot for slot in self._slots if slot.job is not None]:
            self._replace(slot)

    def _hand_out(self, waiting: deque[int], requests: Sequence[Request]) -> None:
        for slot in list(self._slots):
            if not waiting or not slot.ready or slot.job is not None:
                continue
            request = requests[waiting[0]]
            limit = request.limit_s + (0.0 if slot.served else request.first_limit_s)
            fields = {**request.message.fields, "alarm_s": limit + _ALARM_SLACK_S}
            if slot.process.send(Message(fields, request.message.blob)):
                slot.job, slot.limit_s = waiting.popleft(), limit
                slot.deadline = time.monotonic() + limit
            else:
                self._replace(slot)

    def _wait(self) -> list[_Slot]:
        """Wait for answers, ends and time limits; return the slots where one of them happened."""
        watched = [slot for slot in self._slots if slot.job is not None or not slot.ready]
        poll = select.poll()
        for slot in watched:
            poll.register(slot.process.fileno(), select.POLLIN)
        earliest = min((slot.deadline for slot in watched), default=0.0)
        found = dict(poll.poll(max(0.0, earliest - time.monotonic()) * 1000 + 1))
        now = time.monotonic()
        return [s for s in watched if s.process.fileno() in found or now >= s.deadline]

    def _collect(self, slot: _Slot) -> tuple[int, Reply] | None:
        """Take what happened in `slot`; return its job and the reply if that has ended."""
        message, alive = slot.process.receive()
        if message is not None:
            return self._answered(slot, message)
        late = time.monotonic() >= slot.deadline
        if alive and not late:
            return None
        reply = self._post_mortem(slot, alive=alive) if slot.ready else None
        if reply is None:
            self._failed_to_start(slot)
        else:
            self._replace(slot)
        return None if slot.job is None or reply is None else (slot.job, reply)

    def _answered(self, slot: _Slot, message: Message) -> tuple[int, Reply] | None:
        if not slot.ready or slot.job is None:
            slot.ready = True
            self._start_failures = 0
            return None
        job, slot.job = slot.job, None
        slot.served += 1
        too_big = message.number("rss_bytes") > self._options.recycle_rss_bytes
        if too_big or message.number("is_unusable") or slot.served >= self._options.recycle_after:
            self._replace(slot)
        return job, message

    def _failed_to_start(self, slot: _Slot) -> None:
        log = slot.process.log()
        self._start_failures += 1
        self._replace(slot)
        if self._start_failures >= _START_ATTEMPTS:
            command = " ".join(self._options.zygote.command)
            raise MeasureError(f"the worker process does not start: {command}\n{log}")

    def _post_mortem(self, slot: _Slot, *, alive: bool) -> Failure:
        status = None if alive else slot.process.exit_status()
        if status is None or status == -signal.SIGALRM:
            return Failure.of(self._options.timeout_kind, f"no answer in {slot.limit_s:.3g} s")
        log = slot.process.log()
        if any(words in log for words in _OUT_OF_MEMORY_WORDS):
            return Failure.of(FailureKind.OUT_OF_MEMORY, f"the process ran out of memory: {log}")
        return Failure.of(FailureKind.CRASH, f"the process ended by {_ending(status)}. {log}")


def _deserves_retry(slot: _Slot, reply: Reply) -> bool:
    is_crash = isinstance(reply, Failure) and reply.kind is FailureKind.CRASH
    return is_crash and slot.served > 0


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit({status})"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
