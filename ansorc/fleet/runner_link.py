"""The way to an `ansorc-runner`: a command whose input and output are the pipe."""

from __future__ import annotations

import contextlib
import os
import selectors
import shlex
import struct
import subprocess
import tempfile
import time
from enum import IntEnum

from ansorc.fleet.frames import ANSWER, ERROR, Frame, FrameDecoder, FrameError

_CHUNK_BYTES = 1 << 16
_WORDS_BYTES = 500
_END_S = 2.0
_LAST_S = 0.5
"""Seconds to wait for the status of a command whose pipe has ended."""


class RunnerRequest(IntEnum):
    """The requests to a runner; `runtime/runner/requests.h` has the data of each."""

    HELLO = 1
    ALLOCATE = 2
    WRITE = 3
    DRAW = 4
    DROP = 5
    LOAD = 6
    UNLOAD = 7
    RUN = 8
    FETCH = 9
    PACK = 10


class Refusal(IntEnum):
    """Why a runner did not do it."""

    NO_FRAME = 1
    VERSION = 2
    NO_REQUEST = 3
    BAD_FIELD = 4
    NO_MEMORY = 5
    BAD_OBJECT = 6
    NO_PROCESS = 7


class LinkError(Exception):
    """The runner is gone, does not answer, or sent an invalid answer."""


class RefusedError(Exception):
    """The runner has answered that it does not do this; it goes on."""

    def __init__(self, why: int, words: str) -> None:
        super().__init__(words)
        self.why = why


class RunnerLink:
    """A runner that `command` starts, as a shell's words; raise LinkError where that fails.

    One request at a time. After a LinkError it is of no more use: close it and make another one.
    """

    def __init__(self, command: str) -> None:
        self.command = command
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._decoder = FrameDecoder()
        self._number = 0
        self.bytes_sent = self.bytes_received = 0
        try:
            self._process = subprocess.Popen(
                shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=self._errors, bufsize=0,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            self._errors.close()
            raise LinkError(f"`{command}` cannot be started: {error}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        os.set_blocking(self._requests.fileno(), False)
        os.set_blocking(self._answers.fileno(), False)

    @property
    def pid(self) -> int:
        """The process id of the command."""
        return self._process.pid

    def request(self, kind: RunnerRequest, payload: bytes = b"", timeout_s: float = 60.0) -> bytes:
        """Return the payload of the answer; raise RefusedError or LinkError."""
        self._number += 1
        deadline = time.monotonic() + timeout_s
        try:
            self._send(Frame(kind, self._number, payload).encode(), deadline)
            answer = self._receive(deadline, timeout_s)
        except FrameError as error:
            raise self._make_lost_error(str(error)) from error
        except (BrokenPipeError, ConnectionError) as error:
            raise self._make_lost_error("it does not read any more") from error
        if answer.kind == ERROR and answer.number in (0, self._number):
            (why,) = struct.unpack_from("<I", answer.payload)
            words = answer.payload[4:].decode(errors="replace")
            if why in (Refusal.NO_FRAME, Refusal.VERSION, Refusal.NO_REQUEST):
                raise self._make_lost_error(f"it says: {words}")
            raise RefusedError(why, words)
        if (answer.kind, answer.number) != (kind | ANSWER, self._number):
            raise self._make_lost_error(
                f"answer {answer.kind:#x} to request {self._number}, {kind.name}"
            )
        return answer.payload

    def close(self) -> None:
        """End the command; may be called twice."""
        if self._errors.closed:
            return
        self._requests.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()
        self._errors.close()

    def _send(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        self.bytes_sent += len(data)
        while view:
            self._wait(self._requests.fileno(), selectors.EVENT_WRITE, deadline)
            view = view[os.write(self._requests.fileno(), view) :]

    def _receive(self, deadline: float, timeout_s: float) -> Frame:
        while (frame := self._decoder.next()) is None:
            if not self._wait(self._answers.fileno(), selectors.EVENT_READ, deadline):
                raise self._make_lost_error(f"no answer for {timeout_s:.0f} s")
            data = os.read(self._answers.fileno(), _CHUNK_BYTES)
            if not data:
                raise self._make_lost_error("its output has ended")
            self.bytes_received += len(data)
            self._decoder.feed(data)
        return frame

    def _wait(self, descriptor: int, event: int, deadline: float) -> bool:
        """Wait until reading or writing goes on; False if it does not in time."""
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, event)
            if selector.select(max(0.0, deadline - time.monotonic())):
                return True
        if event == selectors.EVENT_WRITE:
            raise self._make_lost_error("it did not read the request in time")
        return False

    def _make_lost_error(self, what: str) -> LinkError:
        """Return the error, with the last words of the command."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_S)
        status = self._process.poll()
        ended = "" if status is None else f"; it has ended with status {status}"
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - _WORDS_BYTES))
        said = (self._decoder.skipped[-_WORDS_BYTES:] + self._errors.read()).decode(
            errors="replace"
        )
        words = f": {' '.join(said.split())}" if said.strip() else ""
        return LinkError(f"the runner of `{self.command}` is lost: {what}{ended}{words}")
