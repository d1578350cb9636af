"""A side that does what it should."""

from __future__ import annotations

from collections.abc import Iterator

from bench.peers.program import Make, Request
from sides.norm import norm_program, versions

__all__ = ["programs", "versions"]


def programs(request: Request) -> Iterator[tuple[str, Make]]:
    yield "right", lambda: norm_program(request)
