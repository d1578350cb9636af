"""A side whose process ends while it is timed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from bench.peers.program import Make, Program, Request
from sides.norm import norm_program, versions

__all__ = ["programs", "versions"]


def programs(request: Request) -> Iterator[tuple[str, Make]]:
    yield "leaving", lambda: leaving(request)


def leaving(request: Request) -> Program:
    turns: list[float] = []

    def time(seconds: float) -> list[float]:
        turns.append(seconds)
        if len(turns) > 2:
            os._exit(7)
        return [1e-3]

    return replace(norm_program(request), time=time)
