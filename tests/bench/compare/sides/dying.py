"""A side whose process dies when it prepares NRM-1-b1, and lives through others."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

from bench.peers.program import Make, Request
from sides.norm import norm_program, versions

__all__ = ["programs", "versions"]


def programs(request: Request) -> Iterator[tuple[str, Make]]:
    if request.case == "NRM-1-b1":
        os.kill(os.getpid(), signal.SIGSEGV)
    yield "right", lambda: norm_program(request)
