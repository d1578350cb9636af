"""Worker processes, the zygote that they are forked from, and pools of equal ones.

Jobs go out to a pool, answers or typed failures come back.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias

from ansorc.errors import MeasureError
from ansorc.search.measure.messages import Decoder, Message, Request
from ansorc.search.measure.result import Failure, FailureKind
from ansorc.search.measure.zygote import REQUEST

_CHUNK_BYTES = 1 << 16
_LOG_BYTES = 20_000
_WORKER = "ansorc.search.measure.worker"
_START_ATTEMPTS = 3
_LOG = logging.getLogger(__name__)
_ALARM_SLACK_S = 2.0
_OUT_OF_MEMORY_WORDS = ("out of memory", "bad_alloc", "MemoryError", "Cannot allocate memory")


class ZygoteProcess:
    """Starts workers that run `module`; as a process it is begun at once, and again if it ends.

    `path` is put before the others that Python imports from.
    """

    def __init__(self, module: str = _WORKER, path: str = "") -> None:
        script = Path(__file__).with_name("zygote.py")
        self.command = (sys.executable, "-P", str(script), str(os.getpid()), module)
        self._environment = _environment(path)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the zygote
        self._begin()

    def start(self, role: str, memory_bytes: int) -> WorkerProcess:
        """Return a worker of `role` whose address space stays below `memory_bytes` (0: no limit).

        It is not yet ready, and perhaps not yet forked. Raises MeasureError if the system has no
        process or descriptors left.
        """
        if self._process.poll() is not None:
            self._end()
            self._begin()
        request = REQUEST.pack(role.encode(), memory_bytes)
        with _system():
            return WorkerProcess(lambda files: self._ask(request, files), self._log)

    def close(self) -> None:
        """End the zygote, and with it the workers that are left; free everything."""
        self._end()
        self._log.close()

    def _begin(self) -> None:
        with _system():
            self._requests, other = socket.socketpair()
        with other, _system():
            self._process = subprocess.Popen(
                self.command,
                stdin=other.fileno(),
                stdout=self._log,
                stderr=self._log,
                start_new_session=True,
                env=self._environment,
            )

    def _end(self) -> None:
        self._requests.close()
        self._process.kill()
        self._process.wait()

    def _ask(self, request: bytes, files: list[int]) -> None:
        # Where it has just ended the worker has no process, and so does not start.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(self._requests, [request], files)


class WorkerProcess:
    """A process in a session of its own that answers each message with one message."""

    def __init__(self, fork: Callable[[list[int]], None], zygote_log: IO[bytes]) -> None:
        """`fork` takes the worker's input, output, error output and control."""
        own_log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        self._logs = (zygote_log, own_log)
        self._decoder = Decoder()
        self._told = b""  # by the control, so far
        self._control, control = socket.socketpair()
        stdin, self._stdin = os.pipe()
        self._stdout, stdout = os.pipe()
        fork([stdin, stdout, own_log.fileno(), control.fileno()])
        control.close()
        os.close(stdin)
        os.close(stdout)
        os.set_blocking(self._stdin, False)
        os.set_blocking(self._stdout, False)
        self._is_open = True

    @property
    def pid(self) -> int:
        """The process id, which is also the process group's; waits for the fork. 0: no process."""
        return self._word("pid", None) or 0

    def fileno(self) -> int:
        """The descriptor that becomes readable when an answer, or the end, has come."""
        return self._stdout

    def send(self, message: Message, timeout_s: float = 10.0) -> bool:
        """Send `message`; False if the worker is gone or does not take it in time."""
        view = memoryview(message.encode())
        deadline = time.monotonic() + timeout_s
        poll = select.poll()
        poll.register(self._stdin, select.POLLOUT)
        try:
            while view:
                if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    return False
                view = view[os.write(self._stdin, view) :]
        except BrokenPipeError:
            return False
        return True

    def receive(self) -> tuple[Message | None, bool]:
        """Return an answer if one is complete, and whether the worker is still there."""
        alive = True
        while (message := self._decoder.next()) is None:
            try:
                data = os.read(self._stdout, _CHUNK_BYTES)
            except BlockingIOError:
                break
            if not data:
                alive = False
                break
            self._decoder.feed(data)
        return message, alive

    def exit_status(self, timeout_s: float | None = 1.0) -> int | None:
        """Return the status of an ended worker (minus the signal), or None if it lives.

        A worker whose zygote has ended was killed.
        """
        return self._word("status", timeout_s, at_end=-signal.SIGKILL)

    def log(self) -> str:
        """Return the end of what the zygote and the worker wrote to their error output."""
        return "\n".join(filter(None, map(_end_of, self._logs)))

    def close(self) -> None:
        """End the worker and whatever it started, now, and free everything.

        One that is not forked yet ends as soon as it is.
        """
        if not self._is_open:
            return
        if self._word("pid", 0.0) is not None:
            with contextlib.suppress(BrokenPipeError):  # it has ended
                self._control.send(b"kill")
            self.exit_status(None)
        self._control.close()
        os.close(self._stdin)
        os.close(self._stdout)
        self._logs[1].close()
        self._is_open = False

    def _word(self, name: str, timeout_s: float | None, at_end: int | None = None) -> int | None:
        """Wait for the number that the control gives `name`; None if there is none in time."""
        pattern = re.compile(rf"^{name} (-?\d+)\n".encode(), re.MULTILINE)
        while (match := pattern.search(self._told)) is None:
            self._control.settimeout(timeout_s)
            try:
                data = self._control.recv(256)
            except (BlockingIOError, TimeoutError):
                return None
            except ConnectionResetError:
                data = b""
            if not data:
                return at_end
            self._told += data
        return int(match[1])


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
    killed_s: float = 0.0
    """When the job's first call is killed; 0: not before the job."""


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
                slot.killed_s = request.message.number("killed_s")
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
        ready = dict(poll.poll(max(0.0, earliest - time.monotonic()) * 1000 + 1))
        now = time.monotonic()
        return [s for s in watched if s.process.fileno() in ready or now >= s.deadline]

    def _collect(self, slot: _Slot) -> tuple[int, Reply] | None:
        """Take what happened in `slot`; return its job and the reply if that has ended."""
        message, alive = slot.process.receive()
        if message is not None:
            return self._take_answer(slot, message)
        late = time.monotonic() >= slot.deadline
        if alive and not late:
            return None
        reply = self._post_mortem(slot, alive=alive) if slot.ready else None
        if reply is None:
            self._count_failed_start(slot)
        else:
            self._replace(slot)
        return None if slot.job is None or reply is None else (slot.job, reply)

    def _take_answer(self, slot: _Slot, message: Message) -> tuple[int, Reply] | None:
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

    def _count_failed_start(self, slot: _Slot) -> None:
        log = slot.process.log()
        self._start_failures += 1
        self._replace(slot)
        if self._start_failures >= _START_ATTEMPTS:
            command = " ".join(self._options.zygote.command)
            raise MeasureError(f"the worker process does not start: {command}\n{log}")

    def _post_mortem(self, slot: _Slot, *, alive: bool) -> Failure:
        status = None if alive else slot.process.exit_status()
        if status == -signal.SIGALRM and slot.killed_s and time.monotonic() < slot.deadline:
            _LOG.info("a first call is stopped: it takes longer than %.3g s", slot.killed_s)
            words = f"slower than {slot.killed_s:.3g} s: killed in its first call"
            return Failure.of(self._options.timeout_kind, words)
        if status is None or status == -signal.SIGALRM:
            _LOG.info("a worker process is stopped: no answer in %.3g s", slot.limit_s)
            return Failure.of(self._options.timeout_kind, f"no answer in {slot.limit_s:.3g} s")
        log = slot.process.log()
        _LOG.info("a worker process ended by %s", _ending(status))
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


@contextlib.contextmanager
def _system() -> Generator[None]:
    """Say what could not be done where the system refuses."""
    try:
        yield
    except OSError as error:
        raise MeasureError(f"a worker process cannot be started: {error}") from error


def _end_of(log: IO[bytes]) -> str:
    descriptor = log.fileno()
    size = os.fstat(descriptor).st_size
    tail = os.pread(descriptor, _LOG_BYTES, max(0, size - _LOG_BYTES))
    return tail.decode(errors="replace").strip()


def _environment(path: str) -> dict[str, str]:
    """The starter's environment: what it can import, this ansorc first, no threads of libraries."""
    variables = dict(os.environ)
    here = str(Path(__file__).resolve().parents[3])
    places = dict.fromkeys((here, path or here, *map(os.path.abspath, sys.path)))
    variables["PYTHONPATH"] = os.pathsep.join(places)
    variables["OPENBLAS_NUM_THREADS"] = variables["MKL_NUM_THREADS"] = "1"
    variables["MALLOC_ARENA_MAX"] = "2"  # each arena takes 64 MiB of the address space allowed
    return variables
