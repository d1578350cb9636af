"""TimeSpent: where the wall time of a tuning run went, and what its trials cost in the workers."""

from __future__ import annotations

from dataclasses import dataclass, field

from ansorc.search.measure import BuildCost, RunCost, Stopwatch


@dataclass(frozen=True)
class TimeSpent:
    """Seconds of wall time by what the tuner was waiting for; a second counts once.

    Searching while programs are built counts as building.
    """

    start_s: float = 0.0
    """The workers' start, the inputs, the reference."""
    search_s: float = 0.0
    """Choosing programs: sketches, evolution, cost model."""
    build_s: float = 0.0
    run_s: float = 0.0
    contest_s: float = 0.0
    """Timing the fastest programs against each other at the end."""
    total_s: float = 0.0
    builds: BuildCost = field(default_factory=BuildCost)
    """All builds, each in one process of several."""
    runs: RunCost = field(default_factory=RunCost)
    """All runs of trials."""

    @staticmethod
    def of(watch: Stopwatch, total_s: float, builds: BuildCost, runs: RunCost) -> TimeSpent:
        """Return what `watch` counted in a run of `total_s` seconds."""
        return TimeSpent(
            watch.seconds("start"), watch.seconds("search"), watch.seconds("build"),
            watch.seconds("run"), watch.seconds("contest"), total_s, builds, runs,
        )  # fmt: skip

    @property
    def rest_s(self) -> float:
        """What is left: writing records, showing progress."""
        known = self.start_s + self.search_s + self.build_s + self.run_s + self.contest_s
        return max(0.0, self.total_s - known)
