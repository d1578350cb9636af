"""A side of the comparison as the runner sees it: a process that is asked, and stands still else.

Between its turns the process is stopped (SIGSTOP), so that threads that spin while they wait for
work do not disturb the side whose turn it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ansorc.compare.serving import JsonFields

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TVM_NUM_THREADS",
    "HL_NUM_THREADS", "NUMBA_NUM_THREADS",
)  # fmt: skip
_BOUND = ("torch", "torch-compile")
"""Sides whose threads are OpenMP's alone, and so may be bound: GNU's had both on one CPU of a
virtual machine, where a softmax of 256 rows took 2.9 ms instead of 0.09."""
_END_S = 10.0
_POLLED_S = 1e-3
"""Idle threads poll no longer than that; one that is stopped at it takes its core for busy."""


@dataclass(frozen=True)
class PeerInfo:
    """An entry of a table of sides."""

    name: str
    """The name for `--peers`."""
    module: str
    """The module that its process is started with."""
    label: str
    """In tables and charts."""
    install: str = ""
    """Advice for a machine where it is missing."""


class Gap(Exception):  # noqa: N818 - it is a result, not an error
    """There is no time of a side; `kind` is "missing", "cannot" or "failed", the text says why."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.kind = kind


class Side:
    """The process of one side. Whatever befalls it is a Gap."""

    def __init__(
        self, info: PeerInfo, threads: int, log: Path, server: str, root: Path | None = None
    ) -> None:
        """Begin; what the process prints goes to the end of the file `log`.

        `server` is the module that is run, with the side's own as argument, in the directory `root`
        (None: where this process is).
        """
        self._server, self._root = server, root
        self.info = info
        self.versions: dict[str, str] = {}
        self.dispatch_s = 0.0
        self._threads, self._log = threads, log
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._greeting: JsonFields = {}
        self._closed: tuple[str, str] | None = None

    def greet(self, fields: JsonFields, timeout_s: float) -> None:
        """Start the process, and learn the versions of its packages and what a call costs."""
        self._greeting = {"do": "hello", "threads": self._threads, **fields}
        answer = self.ask(self._greeting, timeout_s)
        self.versions = answer["versions"]
        self.dispatch_s = answer["dispatch_s"]

    def ask(self, message: JsonFields, timeout_s: float) -> JsonFields:
        """Return the answer to `message`; raise Gap if there is none.

        A process that died is started again for the next case.
        """
        if self._closed is not None:
            raise Gap(*self._closed)
        if self._process is None:
            self._start()
            if message["do"] != "hello" and self._greeting:
                self.ask(self._greeting, timeout_s)
        assert self._process is not None
        assert self._process.stdin is not None
        self._signal(signal.SIGCONT)
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
            answer = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            self.end()
            raise Gap("failed", f"no answer within {timeout_s:.0f} s") from None
        except OSError:
            answer = ""
        if not answer:
            raise Gap("failed", self._last_words())
        time.sleep(_POLLED_S)
        self._signal(signal.SIGSTOP)
        fields: JsonFields = json.loads(answer)
        if "gap" in fields:
            raise Gap(fields["kind"], fields["gap"])
        return fields

    def close(self, kind: str, words: str) -> None:
        """End the process, and answer everything from now on by this gap."""
        self.end()
        self._closed = kind, words

    def end(self) -> None:
        """End the process and what it started."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(_END_S)
        assert process.stdin is not None
        with contextlib.suppress(OSError):  # what was not sent before it died is lost
            process.stdin.close()

    def _start(self) -> None:
        environment = {**os.environ, **dict.fromkeys(_THREAD_VARIABLES, str(self._threads))}
        if self.info.name in _BOUND:
            environment.setdefault("OMP_PROC_BIND", "true")
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._server, self.info.module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._root,
                env=environment,
                text=True,
                start_new_session=True,
            )
        self._answers = queue.SimpleQueue()
        threading.Thread(
            target=_forward, args=(self._process, self._answers.put), daemon=True
        ).start()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):  # it has died, which the pipe will tell
            os.killpg(self._process.pid, number)

    def _last_words(self) -> str:
        assert self._process is not None
        status = self._process.wait(_END_S)
        self.end()
        if status < 0:
            return f"its process died of {signal.Signals(-status).name}"
        return f"its process ended with status {status}; {self._log} says more"


def _forward(process: subprocess.Popen[str], put: Callable[[str], None]) -> None:
    """Pass on the lines that the process writes, and "" at their end."""
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            put(line)
    put("")
