"""Every number of the measuring: how candidates are built, run, timed and given up.

How long builds and runs may take is derived from what was seen and from the work to do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Literal

from ansorc.ir.aligned import Array
from ansorc.target import usable_cores

GIB = 1 << 30
_ENOUGH = 8
_WINDOW = 200
"""Times of the latest builds that the limit of the next follows."""
_BUILD_FACTOR = 20.0
_LEAST_BUILD_S = 2.0
_COMPARED_BYTES_PER_S = 2e8
_EVICTED_BYTES_PER_S = 4e8
_STARTED_S, _TOUCHED_BYTES_PER_S = 2e-3, 1e9
"""What a first call takes besides: threads that wake up, pages that are touched."""
CachePolicy = Literal["warm", "cold", "cold-weights", "other-work"]
"""The caches' contents when a timed call begins: what the call before left there, nothing, that
without the constant inputs, as in a network larger than the caches, whose workers are awake, or
what other work between two calls (`call_times.OtherWork`) left of it, as where a user calls."""
MeasuredCall = Literal["kernel", "call"]
"""The calls that a search is to make fast: back to back, or a user's, with other work between."""


@dataclass(frozen=True)
class RunOptions:
    """How one candidate is run, timed and checked."""

    threads: int = 0
    """Threads of the kernel; 0 means all cores that the process may use."""
    cache: CachePolicy = "warm"
    """Cold: all arrays and the workspace are evicted from the caches before each timed call.
    Cold weights: the constants, as the kernel reads them; and its workers are awake."""
    min_total_s: float = 0.01
    """Timed calls add up to this before their median is taken for the first time."""
    max_total_s: float = 0.06
    """They go on to this while the median is not known to `precision`."""
    min_repeats: int = 3
    max_repeats: int = 128
    precision: float = 0.004
    """The standard error of the median, as a share of it, at which the time counts as known."""
    near_factor: float = 1.3
    """A candidate this many times slower than the best known is assessed once and no more."""
    early_stop_factor: float = 4.0
    """Two timed calls this many times slower than the best known end the timing."""
    first_factor: float = 8.0
    """A first call that lasts this many times the best known time is the only one, after at least
    `first_least_s`: shorter ones may wait for a core, and calling again costs little."""
    first_least_s: float = 0.05
    killed_factor: float = 20.0
    """A first call that lasts this many times the best known time is killed, after at least
    `killed_least_s`."""
    killed_least_s: float = 0.25
    min_timeout_s: float = 0.5
    timeout_factor: float = 100.0
    """A run may take this many times the best known time, and at least `min_timeout_s`."""
    slowest_flops_per_s: float = 1e8
    """Before a best is known, the limit assumes no program to be slower than this."""
    max_timeout_s: float = 60.0
    retry_share: float = 0.1
    """Share of the time that may be spent on waiting until nothing disturbs the machine, and on
    timing again what was disturbed; 0: neither."""
    retry_credit_s: float = 2.0
    """So much more may be spent on that, unless `retry_share` is 0."""
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
    inputs: Mapping[str, Array] = field(default_factory=dict[str, Array], compare=False)
    """Inputs of the task that are not random, by their names."""


class BuildLimit:
    """The time limit of a build: `ceiling_s`, lowered once the usual cost of builds is known.

    20 times the 90th percentile of the last 200 successful builds, but at least 2 s: a build far
    beyond that is a program whose code explodes.
    """

    def __init__(self, ceiling_s: float) -> None:
        self._ceiling_s = ceiling_s
        self._seen: deque[float] = deque(maxlen=_WINDOW)

    def observe(self, build_s: float) -> None:
        """Note that a build succeeded in `build_s` seconds."""
        self._seen.append(build_s)

    @property
    def seconds(self) -> float:
        """The limit now, in seconds."""
        if len(self._seen) < _ENOUGH:
            return self._ceiling_s
        usual = sorted(self._seen)[int(0.9 * len(self._seen))]
        return min(self._ceiling_s, max(_LEAST_BUILD_S, _BUILD_FACTOR * usual))


def run_limit_s(options: RunOptions, best_s: float, flops: float, array_bytes: int) -> float:
    """Return how many seconds one job of the run worker may take.

    Two runs of the slowest program that is still of interest, the timing, two comparisons, and
    waiting for a quiet machine. That program is `timeout_factor` times slower than the best, or
    runs at `slowest_flops_per_s`.
    """
    slowest = flops / options.slowest_flops_per_s
    if best_s:
        slowest = min(slowest, options.timeout_factor * best_s) if slowest else best_s * 100
    slowest = min(max(slowest, options.min_timeout_s), options.max_timeout_s)
    timing_s = 2 * options.max_total_s + eviction_limit_s(options, array_bytes, options.max_repeats)
    if options.retry_share:
        timing_s += options.longest_wait_s
    return 2 * slowest + timing_s + 2 * array_bytes / _COMPARED_BYTES_PER_S


def first_call_limits_s(
    options: RunOptions, best_s: float, array_bytes: int
) -> tuple[float, float]:
    """Return after how many seconds a first call is the only one, and when it is killed.

    It may touch pages for the first time, load code and wake up threads, so both are more than
    their multiples of `best_s`. They are infinite before a best is known.
    """
    if not best_s:
        return inf, inf
    started_s = _STARTED_S + array_bytes / _TOUCHED_BYTES_PER_S
    slow_s = max(options.first_factor * best_s, options.first_least_s) + started_s
    killed_s = max(options.killed_factor * best_s, options.killed_least_s) + started_s
    return slow_s, max(slow_s, killed_s)


def eviction_limit_s(options: RunOptions, array_bytes: int, times: int) -> float:
    """Return how many seconds it may take to empty the caches `times` times; 0 for warm ones."""
    return times * array_bytes / _EVICTED_BYTES_PER_S if options.cache != "warm" else 0.0
