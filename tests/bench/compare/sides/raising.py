"""A side all of whose ways fail."""

from __future__ import annotations

from collections.abc import Iterator

from bench.peers.program import Make, Request
from sides.norm import norm_program, versions
from sides.tempting import fails

__all__ = ["programs", "versions"]


def programs(request: Request) -> Iterator[tuple[str, Make]]:
    if request.case:
        yield "closed", fails
    else:
        yield "right", lambda: norm_program(request)
