"""What a worker process does to itself first, so that it can harm and outlive nobody.

Started as a script, `sandbox.py PARENT MODULE`, this confines the process and then becomes the
zygote of the workers whose code is in MODULE. It imports the standard library alone, so that the
process is confined before the imports of a compiler, which take long enough for its starter to be
killed meanwhile. Each worker is confined again: the kernel's signal is not inherited.
"""

from __future__ import annotations

import ctypes
import os
import resource
import runpy
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_ZYGOTE = "ansorc.search.measure.zygote"


def confine(parent: int, memory_bytes: int) -> None:
    """Die with process `parent`, ignore Ctrl-C, and keep address space below `memory_bytes`.

    The kernel's parent-death signal ends the worker even inside a native loop (Linux). It fires
    when the *thread* that started the worker ends, so the starter must live as long as its workers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
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
    confine(int(sys.argv[1]), 0)
    runpy.run_module(_ZYGOTE, run_name="__main__", alter_sys=True)
