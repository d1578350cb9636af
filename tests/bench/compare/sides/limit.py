"""The limit of a machine that needs 10 microseconds for everything."""

from __future__ import annotations

from collections.abc import Iterator

from bench.peers.problem import Array
from bench.peers.program import Make, Program, Request, Unsupported
from sides.norm import versions

__all__ = ["programs", "versions"]


def programs(request: Request) -> Iterator[tuple[str, Make]]:
    if not request.case:
        raise Unsupported("no dispatch")
    yield "limit", lambda: Program("read bandwidth", run, output, lambda _: [1e-5], is_limit=True)


def run() -> None: ...


def output() -> Array:
    raise AssertionError("a limit has no output")
