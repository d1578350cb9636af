"""Case: an operator, its hand-made schedule, and the limit that its speed is held against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import Schedule
from ansorc.target import Target


class Limit(Enum):
    """Which of the machine's limits binds."""

    FMA = "FMA peak"
    READ = "read bandwidth"
    COPY = "copy bandwidth"


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    name: str
    dag: Callable[[], ComputeDAG]
    schedule: Callable[[ComputeDAG, Target, int], Schedule]
    """Of (the definition, the target, the number of threads)."""
    limit: Limit
    goals: tuple[float, float]
    """The shares of the limit to reach on one core and on two."""
    flops: int = 0
    """Useful operations, where the definition counts more; 0 for what it counts."""
