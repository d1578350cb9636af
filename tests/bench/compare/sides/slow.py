"""A side that takes its time."""

from __future__ import annotations

from collections.abc import Iterator

from bench.peers.program import Make, Request
from sides.norm import norm_program, versions

__all__ = ["programs", "versions"]


def programs(request: Request) -> Iterator[tuple[str, Make]]:
    yield "slow", lambda: norm_program(request, sleep_s=0.03)
