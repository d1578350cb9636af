"""A side with a way that fails, a fast one that is wrong, and a slow one that is right."""

from __future__ import annotations

from collections.abc import Iterator

from bench.peers.program import Make, Program, Request
from sides.norm import norm_program, versions

__all__ = ["programs", "versions"]


def programs(request: Request) -> Iterator[tuple[str, Make]]:
    yield "fails", fails
    yield "wrong", lambda: norm_program(request, factor=1.01)
    yield "right", lambda: norm_program(request, sleep_s=0.002)


def fails() -> Program:
    raise ValueError("this way is closed")
