"""TuneResult: what a tuning run found."""

from __future__ import annotations

from dataclasses import dataclass, field

from ansorc.codegen.call.module import Module
from ansorc.errors import MeasureError
from ansorc.search.contest import Ranking
from ansorc.search.programs import build_program, recorded_program
from ansorc.search.record import Record
from ansorc.search.task import Task
from ansorc.search.time_spent import TimeSpent


@dataclass(frozen=True)
class TuneResult:
    """The best program of a task, and how the run went."""

    task: Task
    best: Record | None
    """The fastest program whose output was checked; None if there is none."""
    default: Record | None
    """The untuned default program, measured like the others."""
    curve: tuple[tuple[int, float], ...]
    """(trial, best seconds so far) at each improvement, the trials of earlier runs counted in.

    The times are those of the records: the last one may be faster than `best`, which was chosen by
    timing the fastest programs against each other."""
    trials: int
    """Programs of the task that the record file holds now."""
    measured_now: int
    """Programs measured in this run."""
    elapsed_s: float
    spent: TimeSpent = field(default_factory=TimeSpent)
    """Where the time of this run went."""
    ranking: Ranking | None = None
    """How the fastest programs did against each other; None if that was not held in this run."""
    failures: dict[str, int] = field(default_factory=dict[str, int])
    """Failed trials of this run by class."""
    first_failure: str = ""
    """What the first of them was."""
    exhausted: bool = False
    """Whether the space holds no program that was not measured."""
    interrupted: bool = False
    notes: tuple[str, ...] = ()
    """What the user should know: records of other machines, a missing library."""

    def build(self, name: str = "") -> Module:
        """Return the best program, compiled as the kernel `name` (default: the task's name).

        Raise MeasureError if there is none, BuildError as a build does.
        """
        if self.best is None:
            raise MeasureError(f"no program of '{self.task.name}' can be built: {self.hint}")
        return build_program(self.task, recorded_program(self.best), name)

    @property
    def hint(self) -> str:
        """Why nothing was found, and what to do."""
        if not self.failures:
            return "none was measured and checked; tune it with more trials"
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.failures.items()))
        return f"{counts} of {self.measured_now} trials; the first: {self.first_failure}"
