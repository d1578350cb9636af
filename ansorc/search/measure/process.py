"""One worker process as its starter sees it: start, send, receive, kill."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ansorc.search.measure.wire import Decoder, Message

_CHUNK_BYTES = 1 << 16
_LOG_BYTES = 20_000


def worker_command(role: str, memory_bytes: int) -> list[str]:
    """Return the command of a worker of `role` ("build" or "run") of this very ansorc."""
    script = Path(__file__).with_name("sandbox.py")
    return [sys.executable, "-P", str(script), role, str(os.getpid()), str(memory_bytes)]


class WorkerProcess:
    """A child process in a session of its own that answers each message with one message."""

    def __init__(self, command: Sequence[str]) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        self._decoder = Decoder()
        self._process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
            env=_environment(),
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)

    @property
    def pid(self) -> int:
        """The process id, which is also the process group's."""
        return self._process.pid

    def fileno(self) -> int:
        """The descriptor that becomes readable when an answer, or the end, has come."""
        return self._stdout.fileno()

    def send(self, message: Message, timeout_s: float = 10.0) -> bool:
        """Send `message`; False if the worker is gone or does not take it in time."""
        view = memoryview(message.encode())
        deadline = time.monotonic() + timeout_s
        poll = select.poll()
        poll.register(self._stdin.fileno(), select.POLLOUT)
        try:
            while view:
                if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    return False
                view = view[os.write(self._stdin.fileno(), view) :]
        except BrokenPipeError:
            return False
        return True

    def receive(self) -> tuple[Message | None, bool]:
        """Return an answer if one is complete, and whether the worker is still there."""
        alive = True
        while (message := self._decoder.next()) is None:
            try:
                data = os.read(self._stdout.fileno(), _CHUNK_BYTES)
            except BlockingIOError:
                break
            if not data:
                alive = False
                break
            self._decoder.feed(data)
        return message, alive

    def kill(self) -> None:
        """End the worker and whatever it started, now, and free its pipes."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self._process.kill()
        self.reap()

    def reap(self) -> int:
        """Wait for a worker that has ended or been killed; return its exit status."""
        status = self._process.wait()
        self._stdin.close()
        self._stdout.close()
        return status

    def exit_status(self, timeout_s: float = 1.0) -> int | None:
        """Return the status of an ended worker (minus the signal), or None if it lives."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def log(self) -> str:
        """Return the end of what the worker wrote to its error output."""
        descriptor = self._log.fileno()
        size = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, _LOG_BYTES, max(0, size - _LOG_BYTES))
        return tail.decode(errors="replace").strip()

    def close(self) -> None:
        """Kill the worker and free everything."""
        self.kill()
        self._log.close()


def _environment() -> dict[str, str]:
    """The starter's environment, with this ansorc first and the libraries' own threads off."""
    found = dict(os.environ)
    here = str(Path(__file__).resolve().parents[3])
    found["PYTHONPATH"] = os.pathsep.join(filter(None, (here, found.get("PYTHONPATH"))))
    found["OPENBLAS_NUM_THREADS"] = found["MKL_NUM_THREADS"] = "1"
    found["MALLOC_ARENA_MAX"] = "2"  # each arena takes 64 MiB of the address space allowed
    return found
