"""A side whose numbers are wrong."""

from __future__ import annotations

from collections.abc import Iterator

from bench.peers.program import Make, Request
from sides.norm import norm_program, versions

__all__ = ["programs", "versions"]


def programs(request: Request) -> Iterator[tuple[str, Make]]:
    yield "wrong", lambda: norm_program(request, factor=1.01)
