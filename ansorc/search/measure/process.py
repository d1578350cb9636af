"""Worker processes, and the zygote that they are forked from, as their starter sees them."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import IO

from ansorc.errors import MeasureError
from ansorc.search.measure.messages import Decoder, Message
from ansorc.search.measure.zygote import REQUEST

_CHUNK_BYTES = 1 << 16
_LOG_BYTES = 20_000
_WORKER = "ansorc.search.measure.worker"


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
        while (found := pattern.search(self._told)) is None:
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
        return int(found[1])


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
    found = dict(os.environ)
    here = str(Path(__file__).resolve().parents[3])
    places = dict.fromkeys((here, path or here, *map(os.path.abspath, sys.path)))
    found["PYTHONPATH"] = os.pathsep.join(places)
    found["OPENBLAS_NUM_THREADS"] = found["MKL_NUM_THREADS"] = "1"
    found["MALLOC_ARENA_MAX"] = "2"  # each arena takes 64 MiB of the address space allowed
    return found
