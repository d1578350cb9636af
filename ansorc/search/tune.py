"""Tune one task: propose programs, measure them, learn, and keep the best; resume where it stopped.

generate sketches -> [ evolve with the cost model -> measure -> record -> retrain ] -> best
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ansorc.codegen.build import build_function
from ansorc.codegen.module import Module
from ansorc.errors import MeasureError
from ansorc.schedule import lower, replay, steps_from_json
from ansorc.search.measure.measurer import Measurer
from ansorc.search.measure.options import MeasureOptions
from ansorc.search.measure.result import Failure, MeasureResult
from ansorc.search.options import SearchOptions
from ansorc.search.proposals import Proposals
from ansorc.search.record import Record, Records, current_environment
from ansorc.search.task import Task


@dataclass(frozen=True)
class Trial:
    """How far a run is after one measuring, for whoever shows the progress."""

    done: int
    """Trials of this task so far, those of earlier runs counted in."""
    total: int
    best_s: float | None
    """Seconds of the fastest checked program, or None before there is one."""
    outcome: str
    """"new best", "slower", "equal code" or the class of the failure."""
    failures: dict[str, int]
    """Failed trials of this run by class."""
    elapsed_s: float
    """Seconds since this run began."""
    measured_now: int
    """Trials of this run."""


@dataclass(frozen=True)
class TuneResult:
    """What a tuning run found."""

    task: Task
    best: Record | None
    curve: tuple[tuple[int, float], ...]
    """(trial, best seconds so far) at each improvement, earlier runs counted in."""
    trials: int
    """Programs of this task that the record file holds now."""
    measured_now: int
    elapsed_s: float
    failures: dict[str, int] = field(default_factory=dict[str, int])
    exhausted: bool = False
    """The space holds no program that was not measured."""
    interrupted: bool = False
    default_s: float | None = None
    """Seconds of the untuned default program, measured like the others."""

    def build(self, name: str = "") -> Module:
        """Return the best program, compiled; raise MeasureError if there is none."""
        if self.best is None:
            raise MeasureError(
                f"no program of '{self.task.name}' was measured and checked; {self.hint}"
            )
        steps = steps_from_json(self.best.step_list)
        return build_steps(self.task, steps, name)

    @property
    def hint(self) -> str:
        """What to do when nothing was found, with the most frequent failure."""
        if not self.failures:
            return "tune it with more trials"
        kind, count = max(self.failures.items(), key=lambda item: item[1])
        return f"{count} trials failed with '{kind}'"
