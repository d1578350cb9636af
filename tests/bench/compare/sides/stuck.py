"""A side that never gets ready."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.peers.program import Make, Request
from sides.norm import norm_program, versions

__all__ = ["programs", "versions"]


def programs(request: Request) -> Iterator[tuple[str, Make]]:
    if request.case:
        time.sleep(1000)
    yield "right", lambda: norm_program(request)
