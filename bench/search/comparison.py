"""Comparison: the runs of several variants of the search on one workload, as numbers."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

FULL = "full"
"""The variant that the others are compared with."""

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """One run of one variant."""

    variant: str
    seed: int
    curve: tuple[tuple[int, float], ...]
    """(trial, seconds of the best program so far) at each improvement, as measured in the run."""
    own_s: float
    """Seconds of its best program at the end of the run."""
    final_s: float
    """The same when the best programs of all runs were timed in turns."""
    measured: int
    """Programs measured; fewer than asked for where a space had no more."""
    failed: int

    def seconds(self, trials: int) -> FloatArray:
        """Return [trials]: the time of the best program after each trial, inf before there is one.

        The times are put to the scale of `final_s`: runs of different minutes do not compare. None
        is below it: what was faster in the run was luck.
        """
        times = np.full(trials, np.inf)
        for trial, seconds in self.curve:
            times[trial - 1 :] = max(self.final_s, seconds * self.final_s / self.own_s)
        return times


@dataclass(frozen=True)
class Comparison:
    """What was measured of one workload."""

    case: str
    words: str
    machine: str
    threads: int
    flops: float
    """Of one call."""
    peak: float
    """FLOP/s of the FMA probe, before and after the runs, the better one."""
    trials: int
    runs: tuple[Run, ...]

    @cached_property
    def variants(self) -> tuple[str, ...]:
        """The names, in the order of the runs."""
        return tuple(dict.fromkeys(run.variant for run in self.runs))

    @cached_property
    def best_s(self) -> float:
        """Seconds of the best program of all runs."""
        return min(run.final_s for run in self.runs)

    def shares(self, variant: str) -> FloatArray:
        """Return [runs, trials]: the speed after each trial as a share of the best program's."""
        own = [run for run in self.runs if run.variant == variant]
        return self.best_s / np.stack([run.seconds(self.trials) for run in own])

    def ratio(self, variant: str, trial: int) -> float:
        """Return how many times faster the full search is after `trial` trials, by the medians."""
        full, other = (
            float(np.median(self.shares(name)[:, trial - 1])) for name in (FULL, variant)
        )
        return full / other if other else float("inf")

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1))

    @staticmethod
    def load(path: Path) -> Comparison:
        """Read what `save` wrote."""
        fields = json.loads(path.read_text())
        runs = [
            Run(**run | {"curve": tuple((int(t), float(s)) for t, s in run["curve"])})
            for run in fields["runs"]
        ]
        return Comparison(**fields | {"runs": tuple(runs)})
