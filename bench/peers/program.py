"""What a side is asked for, and what it makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ansorc.compare.program import SideProgram as Program
from ansorc.compare.program import Unsupported
from bench.peers.problem import Array, Problem

__all__ = ["Make", "Peer", "Program", "Request", "Unsupported"]


@dataclass(frozen=True)
class Request:
    """The problem to compute, and how."""

    case: str
    """The name of the case; empty for a problem that is not of the paper."""
    problem: Problem
    inputs: list[Array]
    """The arrays of the case as its definition has them."""
    threads: int
    trials: int
    """Programs that a side which tunes may measure."""
    directory: Path
    """Where a side may keep what it tuned."""


Make = Callable[[], Program]


class Peer(Protocol):
    """What a module of `bench.peers` offers."""

    def versions(self) -> dict[str, str]:
        """Return the versions of its packages; raise ImportError if one is missing."""
        ...

    def programs(self, request: Request) -> Iterator[tuple[str, Make]]:
        """Yield the ways worth trying, by name; raise Unsupported if there is none."""
        ...
