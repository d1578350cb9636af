"""Trial: how far a tuning run is after one measuring, for whoever shows the progress."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Trial:
    """The state of a run of one task after one trial."""

    done: int
    """Trials of the task so far, those of earlier runs counted in."""
    total: int
    best_s: float | None
    """Seconds of the fastest checked program, or None before there is one."""
    is_new_best: bool
    failures: dict[str, int]
    """Failed trials of this run by class."""
    elapsed_s: float
    """Seconds since this run began."""
    measured_now: int
    """Trials of this run."""

    @property
    def rate(self) -> float:
        """Trials a second of this run."""
        return self.measured_now / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def eta_s(self) -> float:
        """Seconds that the rest will take at this rate."""
        return (self.total - self.done) / self.rate if self.rate else 0.0
