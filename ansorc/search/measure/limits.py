"""How long builds and runs may take, derived from what was seen and from the work to do."""

from __future__ import annotations

from collections import deque

from ansorc.search.measure.options import RunOptions

_ENOUGH = 8
_WINDOW = 200
_BUILD_FACTOR = 20.0
_LEAST_BUILD_S = 2.0
_COMPARED_BYTES_PER_S = 2e8
_EVICTED_BYTES_PER_S = 4e8


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
    waiting for a calm machine. That program is `timeout_factor` times slower than the best, or runs
    at `slowest_flops_per_s`.
    """
    slowest = flops / options.slowest_flops_per_s
    if best_s:
        slowest = min(slowest, options.timeout_factor * best_s) if slowest else best_s * 100
    slowest = min(max(slowest, options.min_timeout_s), options.max_timeout_s)
    timing_s = 2 * options.max_total_s + eviction_limit_s(options, array_bytes, options.max_repeats)
    if options.patience:
        timing_s += options.longest_wait_s
    return 2 * slowest + timing_s + 2 * array_bytes / _COMPARED_BYTES_PER_S


def eviction_limit_s(options: RunOptions, array_bytes: int, times: int) -> float:
    """Return how many seconds it may take to empty the caches `times` times; 0 for warm ones."""
    return times * array_bytes / _EVICTED_BYTES_PER_S if options.cache == "cold" else 0.0
