"""The zygote, a process that has imported a worker's code and forks the workers.

To import a compiler takes longer than to build some programs; a fork takes a few milliseconds.

Started as a script, `zygote.py PARENT MODULE`, it first confines itself, so that it can harm and
outlive nobody, then imports MODULE, the workers' code. It imports the standard library alone
before: the imports of a compiler take long enough for its starter to be killed meanwhile. Each
worker is confined again: the kernel's signal is not inherited.

Its requests come on a socket, descriptor 0: a `REQUEST`, with four descriptors of the worker: its
input, output, error output, and a control socket. On this the starter reads the lines `pid N` and,
at the end, `status N`; a byte of its own, or its end, kills the worker's process group. The zygote
alone sends that signal: a child that it has not waited for keeps its process id.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import resource
import select
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

REQUEST = struct.Struct(">16sQ")
"""The role, filled up with zeros, and the limit of the address space in bytes (0: none)."""
_DESCRIPTORS = 4
_PR_SET_PDEATHSIG = 1
_ALLOCATIONS = 20_000
"""Objects between two runs of the garbage collector: programs are trees, which free themselves."""

Work = Callable[[str], None]


def main() -> None:
    """Import the module that the command line names, then fork workers that call its `main`."""
    confine(int(sys.argv[1]), 0)
    work: Work = importlib.import_module(sys.argv[2]).main
    gc.freeze()  # what is imported stays, and its pages are shared with the workers
    gc.set_threshold(_ALLOCATIONS)
    _Zygote(socket.socket(fileno=0), work).serve()


class _Zygote:
    """Forks a worker for each request, and tells its starter when it has ended."""

    def __init__(self, requests: socket.socket, work: Work) -> None:
        self._requests, self._work = requests, work
        self._controls: dict[int, socket.socket] = {}  # of the children not waited for, by pid
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._waker, False)
        signal.signal(signal.SIGCHLD, _nothing)  # so that the pipe is written to
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        self._poll = select.poll()
        self._poll.register(self._requests, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)

    def serve(self) -> None:
        """Answer requests until the starter is gone."""
        while True:
            ready = {descriptor for descriptor, _ in self._poll.poll()}
            if self._wake in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 4096)
            self._wait_for_ended()
            for pid, control in self._controls.items():
                if control.fileno() in ready:
                    self._kill(pid, control)
            if self._requests.fileno() in ready and not self._fork():
                return

    def _fork(self) -> bool:
        """Start the worker that is asked for; False at the end of the requests."""
        data, files, _, _ = socket.recv_fds(self._requests, REQUEST.size, _DESCRIPTORS)
        if not data:
            return False
        parent = os.getpid()
        if (pid := os.fork()) == 0:
            self._become_worker(data, files, parent)
        self._controls[pid] = control = socket.socket(fileno=files.pop())
        self._poll.register(control, select.POLLIN)
        for descriptor in files:
            os.close(descriptor)
        return True

    def _kill(self, pid: int, control: socket.socket) -> None:
        """End a worker and whatever it started; `_wait_for_ended` tells of it."""
        with contextlib.suppress(ConnectionResetError):
            if control.recv(64):
                _kill_group(pid)
                return
        self._poll.unregister(control)  # the starter does not want to know how it ended
        _kill_group(pid)

    def _wait_for_ended(self) -> None:
        while self._controls:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            control = self._controls.pop(pid)
            with contextlib.suppress(KeyError):
                self._poll.unregister(control)
            with contextlib.suppress(OSError):
                control.send(f"status {os.waitstatus_to_exitcode(status)}\n".encode())
            control.close()

    def _become_worker(self, data: bytes, files: list[int], parent: int) -> NoReturn:
        """Do a worker's work in this new process, and end it."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            role, memory_bytes = REQUEST.unpack(data)
            confine(parent, memory_bytes)
            os.write(files[3], f"pid {os.getpid()}\n".encode())
            for target, descriptor in enumerate(files[:3]):
                os.dup2(descriptor, target)
            others = [control.fileno() for control in self._controls.values()]
            for descriptor in (*files, *others, self._wake, self._waker):
                os.close(descriptor)
            self._work(role.rstrip(b"\0").decode())
            status = 0
        except SystemExit as ending:
            status = ending.code if isinstance(ending.code, int) else 1
        except BaseException:  # noqa: BLE001 - whatever it is, this process is no zygote any more
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)


def _nothing(number: int, frame: FrameType | None) -> None:
    """Handle a signal."""


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # it has no group of its own yet
        os.kill(pid, signal.SIGKILL)


def confine(parent: int, memory_bytes: int) -> None:
    """Die with process `parent`, ignore Ctrl-C, and keep address space below `memory_bytes`.

    The kernel's parent-death signal ends the worker even inside a native loop (Linux). It fires
    when the *thread* that started the worker ends, so the starter must live as long as its workers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # else a program that runs now counts as crashed
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    if memory_bytes:
        _lower_limit(resource.RLIMIT_AS, memory_bytes)
    _lower_limit(resource.RLIMIT_CORE, 0)


def set_alarm(seconds: float) -> None:
    """End this process after `seconds` of wall time, whatever it is doing; 0 calls that off.

    The second line behind the tuner's own time limit, for a tuner that is stopped or gone.
    """
    signal.setitimer(signal.ITIMER_REAL, seconds)


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _lower_limit(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (ceiling, hard))


if __name__ == "__main__":
    main()
