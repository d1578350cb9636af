"""TuneOptions: what one tuning run is asked to do."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from ansorc.search.measure import MeasureOptions
from ansorc.search.options import SearchOptions


@dataclass(frozen=True)
class TuneOptions:
    """How much to measure, where to keep it, and how."""

    trials: int = 200
    """Programs of the task to have measured in all, those in the record file counted in."""
    records: Path = Path("tune.db")
    seed: int = 0
    """Seed of all random choices: inputs, proposals, the cost model."""
    threads: int = 0
    """Threads of the kernel; 0 means all cores."""
    time_budget: float | None = None
    """Seconds after which no further round begins; None for no limit."""
    search: SearchOptions = field(default_factory=SearchOptions)
    measuring: MeasureOptions = field(default_factory=MeasureOptions)

    def for_workers(self) -> MeasureOptions:
        """Return the options of the measuring with this run's seed and threads."""
        run = replace(self.measuring.run, threads=self.threads)
        return replace(self.measuring, run=run, seed=self.seed)
