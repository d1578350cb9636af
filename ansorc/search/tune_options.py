"""TuneOptions: what one tuning run is asked to do."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

from ansorc.errors import MeasureError
from ansorc.search.measure import CachePolicy, MeasureOptions
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
    cache: CachePolicy = "warm"
    """What the caches hold when a timed call begins: what the call before left there ("warm"), or
    nothing of the kernel's arrays ("cold"). Times of the one do not compare with the other's."""
    search: SearchOptions = field(default_factory=SearchOptions)
    measuring: MeasureOptions = field(default_factory=MeasureOptions)

    def __post_init__(self) -> None:
        """Raise MeasureError for a cache policy that there is not."""
        if self.cache not in get_args(CachePolicy):
            raise MeasureError(f'cache={self.cache!r}: there are "warm" and "cold"')

    def for_workers(self) -> MeasureOptions:
        """Return the options of the measuring with this run's seed, threads and cache policy."""
        run = replace(self.measuring.run, threads=self.threads, cache=self.cache)
        return replace(self.measuring, run=run, seed=self.seed)
