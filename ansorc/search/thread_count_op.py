"""How many threads work on an operator: as many as make its best program the fastest.

A kernel of 20 µs may lose more by waking and waiting for others than they do for it. Networks have
the same for each of their kernels, measured where these run (`ansorc.graph.thread_count_network`).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ansorc.search.measure import ProgramText
from ansorc.search.record import KernelThreads, Record, Records

_ROUNDS = 7
_CALLS = 18
"""Calls with each number of threads in a turn, about; with fewer threads they take longer."""
_TIE = 0.02
"""So much faster than all threads fewer must be: times are not known better."""


@runtime_checkable
class ThreadMeasurer(Protocol):
    """A `TaskMeasurer` that can run one program with several numbers of threads."""

    def time_threads(self, program: ProgramText, counts: Sequence[int]) -> list[float]:
        """Return the seconds of a call with each of `counts` threads; none if it is serial."""
        ...


def choose_threads(measurer: object, records: Records, best: Record) -> int:
    """Return with how many threads `best` is the fastest (0: all), measured unless it is known.

    What is measured is kept in `records`, and builds use it. A measurer that cannot tell, as that
    of a fleet, leaves all. Raise RecordError, MeasureError.
    """
    environment = best.environment
    known = _find_threads(records, best)
    if known is not None:
        return known
    fewer = thread_counts(environment.running)
    if not fewer or not isinstance(measurer, ThreadMeasurer):
        return 0
    counts = (environment.threads, *fewer)
    turns = [measurer.time_threads(best.program, counts) for _ in range(_ROUNDS)]
    if not all(turns):
        return 0
    threads = fastest_count(counts, turns)
    records.keep_threads(environment, [KernelThreads(best.task_key, best.program_key, threads)])
    return threads


def estimate_choosing_s(best: Record) -> float:
    """Return about how many seconds `choose_threads` takes; 0 if there is nothing to choose."""
    fewer = thread_counts(best.environment.running)
    return _ROUNDS * (1 + len(fewer)) * _CALLS * (best.median_s or 0.0) if fewer else 0.0


def find_threads(records: Records, best: Record) -> int:
    """Return what was chosen for `best`; 0, all, where nothing was."""
    return _find_threads(records, best) or 0


def _find_threads(records: Records, best: Record) -> int | None:
    choice = records.threads(best.environment).get(best.task_key)
    return choice.threads if choice and choice.program_key == best.program_key else None


def thread_counts(most: int) -> tuple[int, ...]:
    """Return the powers of two below `most`."""
    return tuple(1 << power for power in range(most.bit_length()) if 1 << power < most)


def fastest_count(counts: Sequence[int], turns: Sequence[Sequence[float]]) -> int:
    """Return which of `counts` is the fastest, 0 if all threads are, which are the first of them.

    Each turn has the seconds with each of them. What slows the machine for a turn cancels out.
    """
    ratios = [
        statistics.median(times[index] / times[0] for times in turns)
        for index in range(len(counts))
    ]
    index = min(range(len(counts)), key=ratios.__getitem__)
    return counts[index] if ratios[index] < 1.0 - _TIE else 0
