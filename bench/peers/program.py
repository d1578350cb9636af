"""What a side is asked for, and what it makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.peers.problem import Array, Problem


class Unsupported(Exception):  # noqa: N818 - it is an answer, not an error
    """The side cannot express the workload; the text says what is missing."""


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


@dataclass(frozen=True)
class Program:
    """One way in which a side computes the problem, ready to be called."""

    name: str
    """In a few words, what was chosen: a layout, where the weights were prepared."""
    run: Callable[[], object]
    """Compute the result once."""
    output: Callable[[], Array]
    """The result of the latest run; its elements in the order of the channels-last result."""
    time: Callable[[float], list[float]] | None = None
    """Seconds a call, of several batches of about so many seconds together: for sides that can
    repeat calls without the interpreter. None to be called from Python."""
    tuned_s: float = 0.0
    """What was spent on tuning, in this run."""
    trials: int = 0
    """Programs that were measured for it, in earlier runs too."""
    is_limit: bool = False
    """Whether it is no computation, but what the machine could do: it has no output."""


Make = Callable[[], Program]


class Peer(Protocol):
    """What a module of `bench.peers` offers."""

    def versions(self) -> dict[str, str]:
        """Return the versions of its packages; raise ImportError if one is missing."""
        ...

    def programs(self, request: Request) -> Iterator[tuple[str, Make]]:
        """Yield the ways worth trying, by name; raise Unsupported if there is none."""
        ...
