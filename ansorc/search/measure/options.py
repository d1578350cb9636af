"""Every number of the measuring: how candidates are built, run, timed and given up."""

from __future__ import annotations

from dataclasses import dataclass, field

from ansorc.target import detect

GIB = 1 << 30


def _usable_cores() -> int:
    return detect().cores


@dataclass(frozen=True)
class RunOptions:
    """How one candidate is run, timed and checked."""

    threads: int = 0
    """Threads of the kernel; 0 means all cores that the process may use."""
    min_total_s: float = 0.04
    """Repeat until the timed calls add up to this."""
    max_repeats: int = 64
    min_repeats: int = 3
    hopeless_factor: float = 5.0
    """A first timed call this many times slower than the best known ends the timing."""
    check_share: float = 0.2
    """A comparison that costs less than this share of `min_total_s` is made for every candidate;
    a dearer one only for a candidate that would become the best."""
    min_timeout_s: float = 0.5
    timeout_factor: float = 100.0
    """A run may take this many times the best known time, and at least `min_timeout_s`."""
    slowest_flops_per_s: float = 1e8
    """Before a best is known, the limit assumes no program to be slower than this."""
    max_timeout_s: float = 60.0
    rank_rounds: int = 31
    """Repeats of each program when the best few are timed against each other."""


@dataclass(frozen=True)
class MeasureOptions:
    """How the worker processes are kept."""

    run: RunOptions = RunOptions()
    builders: int = field(default_factory=_usable_cores)
    """Build processes; while a candidate is timed none of them works."""
    batch: int = field(default_factory=lambda: min(64, max(8, 4 * _usable_cores())))
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
