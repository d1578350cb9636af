"""Every number of the measuring: how candidates are built, run, timed and given up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ansorc.target import usable_cores

GIB = 1 << 30
CachePolicy = Literal["warm", "cold"]
"""What the caches hold when a timed call begins: what the call before left there, or nothing."""


@dataclass(frozen=True)
class RunOptions:
    """How one candidate is run, timed and checked."""

    threads: int = 0
    """Threads of the kernel; 0 means all cores that the process may use."""
    cache: CachePolicy = "warm"
    """Cold: all arrays and the workspace are evicted from the caches before each timed call."""
    min_total_s: float = 0.01
    """Timed calls add up to this before they are judged for the first time."""
    max_total_s: float = 0.06
    """They go on to this while the median is not known to `precision`."""
    min_repeats: int = 3
    max_repeats: int = 128
    precision: float = 0.004
    """The standard error of the median, as a share of it, at which the time counts as known."""
    near_factor: float = 1.3
    """A candidate this many times slower than the best known is judged once and no more."""
    hopeless_factor: float = 4.0
    """Two timed calls this many times slower than the best known end the timing."""
    min_timeout_s: float = 0.5
    timeout_factor: float = 100.0
    """A run may take this many times the best known time, and at least `min_timeout_s`."""
    slowest_flops_per_s: float = 1e8
    """Before a best is known, the limit assumes no program to be slower than this."""
    max_timeout_s: float = 60.0
    patience: float = 0.1
    """Share of the time that may be spent on waiting until nothing disturbs the machine, and on
    timing again what was disturbed; 0: neither."""
    patience_s: float = 2.0
    """So much more may be spent on that, unless `patience` is 0."""
    longest_wait_s: float = 2.0
    """One program waits no longer than that in all."""
    rank_rounds: int = 31
    """Repeats of each program when the best few are timed against each other."""
    rank_total_s: float = 1.0
    """After so long fewer rounds are enough, but not fewer than `rank_least_rounds`."""
    rank_least_rounds: int = 9
    rank_repeat_s: float = 1.25e-3
    """So long is one of these repeats at least, in warm caches."""


@dataclass(frozen=True)
class MeasureOptions:
    """How the worker processes are kept."""

    run: RunOptions = RunOptions()
    builders: int = field(default_factory=usable_cores)
    """Build processes; while a candidate is timed none of them works."""
    batch: int = field(default_factory=lambda: min(64, 8 * usable_cores()))
    """Candidates that are built together, then run one after another."""
    build_timeout_s: float = 15.0
    """Upper limit; once builds have been seen, 20 times their 90th percentile but at least 2 s."""
    start_timeout_s: float = 60.0
    memory_bytes: int = 4 * GIB
    """Address space of a worker, on top of the task's arrays and its thread stacks."""
    recycle_after: int = 500
    """A worker is replaced after so many jobs, because compilers leak."""
    recycle_rss_bytes: int = 2 * GIB
    """A worker is replaced when a job leaves it with more resident memory than this."""
    identical_failures: int = 32
    """So many equal failures in a row end the run: the fault is not the candidates'."""
    seed: int = 0
    """Seed of the task's random inputs."""
