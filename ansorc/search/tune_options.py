"""TuneOptions: what one tuning run is asked to do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict, get_args

from ansorc.errors import MeasureError, OptionError
from ansorc.ir.aligned import Array
from ansorc.search.cost_model import CostModel
from ansorc.search.machines import Machines
from ansorc.search.measure import CachePolicy, MeasuredCall, MeasureOptions
from ansorc.search.options import SearchOptions
from ansorc.search.record import RecordLocation, parse_record_uri

_MOST_THREADS = 1 << 16


class TuneSettings(TypedDict, total=False):
    """The arguments of `tune`: the options of TuneOptions that most runs need."""

    trials: int
    records: str | os.PathLike[str]
    seed: int
    threads: int
    time_budget: float | None
    cache: CachePolicy
    measure: MeasuredCall
    cost_model: str | CostModel
    measurer: Machines | None
    inputs: Mapping[str, Array]


@dataclass(frozen=True)
class TuneOptions:
    """How much to measure, where to keep it, and how."""

    trials: int = 200
    """Programs of the task to have measured in all, those in the record file counted in."""
    records: RecordLocation = Path("tune.db")
    """The file that keeps them, or the database, of which several tuners may be writing."""
    seed: int = 0
    """Seed of all random choices: inputs, proposals, the cost model."""
    threads: int = 0
    """Threads of the kernel; 0 means all cores."""
    time_budget: float | None = None
    """Seconds after which no further round begins; None for no limit."""
    cache: CachePolicy = "warm"
    """The caches' contents when a timed call begins: what the call before left there ("warm"),
    nothing of the kernel's arrays ("cold"), all but its constants ("cold-weights"), or what other
    work has left ("other-work"). Times of the one do not compare with the others'."""
    search: SearchOptions = field(default_factory=SearchOptions)
    measuring: MeasureOptions = field(default_factory=MeasureOptions)
    measurer: Machines | None = None
    """Where programs are measured, such as an `ac.Fleet`, which stays open; None: here."""
    inputs: Mapping[str, Array] = field(default_factory=dict[str, Array], compare=False)
    """Arrays to measure tasks with, by the names of their inputs; all others are drawn."""

    def __post_init__(self) -> None:
        """Raise MeasureError for a cache policy that there is not, and for too many threads;
        OptionError for inputs that no other machine gets."""
        if self.inputs and self.measurer is not None:
            raise OptionError(
                "inputs are given to programs on this machine; a fleet draws its own: leave out "
                "measurer=…, or declare what is drawn by ac.placeholder(…, range=…)"
            )
        if not 0 <= self.threads <= _MOST_THREADS:
            raise MeasureError(f"threads={self.threads}: give 0 … {_MOST_THREADS}, 0 for all cores")
        if self.cache not in get_args(CachePolicy):
            known = ", ".join(f'"{policy}"' for policy in get_args(CachePolicy))
            raise MeasureError(f"cache={self.cache!r}: there are {known}")

    @staticmethod
    def of(settings: TuneSettings) -> TuneOptions:
        """Return the options with these settings."""
        known = TuneOptions()
        return TuneOptions(
            trials=settings.get("trials", known.trials),
            records=parse_record_uri(settings.get("records", known.records)),
            seed=settings.get("seed", known.seed),
            threads=settings.get("threads", known.threads),
            time_budget=settings.get("time_budget", known.time_budget),
            cache=cache_of(settings.get("measure", "kernel"), settings.get("cache")),
            search=SearchOptions(cost_model=settings.get("cost_model", known.search.cost_model)),
            measurer=settings.get("measurer"),
            inputs=dict(settings.get("inputs", {})),
        )

    def for_workers(self) -> MeasureOptions:
        """Return the options of the measuring with this run's seed, threads and cache policy."""
        run = replace(self.measuring.run, threads=self.threads, cache=self.cache)
        return replace(self.measuring, run=run, seed=self.seed, inputs=self.inputs)


def cache_of(measure: MeasuredCall, cache: CachePolicy | None) -> CachePolicy:
    """Return in which caches programs are timed; raise MeasureError if the two contradict.

    "call", what a user's call takes, is with other work between two calls.
    """
    if measure not in get_args(MeasuredCall):
        raise MeasureError(f'measure={measure!r}: there are "kernel" and "call"')
    if measure == "call" and cache not in (None, "other-work"):
        raise MeasureError(
            f'measure="call" says what the caches hold: other work is done between calls; leave '
            f'out cache="{cache}"'
        )
    return "other-work" if measure == "call" else cache or "warm"
