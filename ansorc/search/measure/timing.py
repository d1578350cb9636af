"""How often a kernel is called to know its time, and when to give up on it.

Programs are timed while the machine is quiet, which nothing else slows down, where that can be had.

A virtual machine shares its cores with others: for tenths of a second all programs may take twice
as long, longer than one of them is timed, so that no number of repeats tells. A probe tells, a
small piece of work that always takes the same time on an idle machine: it is run before and after.
What was disturbed is timed once more. Waiting is a small share of all the time at most: on a
machine that is never quiet programs are timed as it is.

Waiting is done at work, not asleep: virtual cores that wake up are often as slow as if they were
one, until both have worked for a while (docs/decisions/0044).
"""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from ansorc.codegen.base import backend_of
from ansorc.search.measure.options import RunOptions
from ansorc.search.measure.result import ProbeTime
from ansorc.target import Target

Clock = Callable[[], float]
_LEAST_SAMPLES = 40
_MOST_UPDATES = 8
"""Calls in a row that update their own inputs: more of them may lead to infinities, or to numbers
so small that each operation takes a hundred times as long."""
_AWAKE_S = 1e-3
"""Waking a thread takes 20 µs, after a nap in a virtual machine 100 and more, which is longer than
many kernels: calls that last so long hide it."""
_MEDIAN_ERROR = 0.93
"""Standard error of the median of n normal values, in units of (quartile distance / sqrt(n))."""


@dataclass(frozen=True)
class Subject:
    """A kernel to time: `call(n)` runs it n times, in the caches and threads of the others."""

    call: Callable[[int], None]
    evict: Callable[[], None] | None = None
    """Empties the caches before a call; None: calls follow each other, in the caches they leave."""
    evicts_all: bool = True
    """Else what it leaves must be there, where another kernel was called before."""
    restore: Callable[[], None] | None = None
    """Gives inputs that the kernel updates their old values, before the calls that are timed."""
    team: AbstractContextManager[None] = field(default_factory=nullcontext[None])
    """Entered around the calls that are timed, after the eviction."""


def sample(
    subject: Subject, clock: Clock, options: RunOptions, best_s: float
) -> tuple[list[float], bool]:
    """Return seconds per call for as many repeats as it takes, and whether it was stopped early.

    A repeat is one call, or so many in warm caches that reading the clock costs nothing. `best_s`
    is the best time known (0: none). One that is `early_stop_factor` times slower in a first and in
    further calls is not repeated, one that is `near_factor` times slower is for `min_total_s`;
    others are repeated until the standard error of the median is known to be small, or for
    `max_total_s`. A call that is longer than that is a repeat from the first on.
    """
    first = _time_calls(subject, clock, 1)
    limit_s = options.early_stop_factor * best_s if best_s else math.inf
    if first > limit_s and (first := min(first, _again(subject, clock, first, limit_s))) > limit_s:
        return [first], True
    times = [first] if first >= options.max_total_s else []
    number = 1
    if subject.evict is None and not times:
        number = _calls_a_repeat(subject, clock, options.min_total_s / _LEAST_SAMPLES)
    total = sum(times)
    while len(times) < options.max_repeats and not _is_known(times, total, options, best_s):
        taken = _time_calls(subject, clock, number)
        total += taken
        times.append(taken / number)
    return times, False


def _again(subject: Subject, clock: Clock, first_s: float, limit_s: float) -> float:
    """The time of a call after a first one that took `first_s`, maybe to wake threads up."""
    is_short = subject.evict is None and first_s < _AWAKE_S
    number = math.ceil(_AWAKE_S / limit_s) if is_short else 1
    return _time_calls(subject, clock, number) / number


def _is_known(times: Sequence[float], total: float, options: RunOptions, best_s: float) -> bool:
    """Whether the time is known well enough after repeats that took `total` seconds together."""
    is_far = bool(times and best_s) and statistics.median(times) > options.near_factor * best_s
    if len(times) < options.min_repeats or total < options.min_total_s:
        return is_far and total >= options.max_total_s
    return is_far or total >= options.max_total_s or median_error(times) <= options.precision


def median_error(seconds: Sequence[float]) -> float:
    """Return the standard error of the median of `seconds`, as a share of the median.

    It is taken from the quartiles, so a few disturbed repeats do not count.
    """
    low, median, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return _MEDIAN_ERROR * (high - low) / math.sqrt(len(seconds)) / median


def interleave(subjects: Sequence[Subject], clock: Clock, options: RunOptions) -> list[list[float]]:
    """Time several kernels in turns, `options.rank_rounds` times; return seconds for each.

    The order is reversed from round to round, so that no kernel always follows the same other.
    Slow kernels get fewer rounds.
    """
    begin = clock()
    numbers = [
        1 if subject.evict else _calls_a_repeat(subject, clock, options.rank_repeat_s)
        for subject in subjects
    ]
    times: list[list[float]] = [[] for _ in subjects]
    order = list(range(len(subjects)))
    for _ in range(options.rank_rounds):
        for index in order:
            if subjects[index].evict is None or not subjects[index].evicts_all:
                subjects[index].call(1)  # the caches now hold what this kernel leaves there
            taken = _time_calls(subjects[index], clock, numbers[index])
            times[index].append(taken / numbers[index])
        order.reverse()
        is_long = clock() - begin > options.rank_total_s
        if is_long and len(times[0]) >= options.rank_least_rounds:
            break
    return times


def _calls_a_repeat(subject: Subject, clock: Clock, repeat_s: float) -> int:
    """How many calls in a row last `repeat_s`; one alone is mostly the cost of being timed."""
    if (once := _time_calls(subject, clock, 1)) >= repeat_s:
        return 1
    once = _time_calls(subject, clock, 4) / 4
    number = max(1, math.ceil(repeat_s / max(once, 1e-8)))
    return number if subject.restore is None else min(number, _MOST_UPDATES)


def _time_calls(subject: Subject, clock: Clock, number: int) -> float:
    if subject.restore is not None:
        subject.restore()
    if subject.evict is not None:
        subject.evict()
    with subject.team:
        begin = clock()
        subject.call(number)
        return clock() - begin


_DISTURBED = 1.1
"""A probe that takes this many times as long as at best tells of a disturbance."""
_CERTAINLY_FAR = 10.0
"""A program that is slow by so many times of what would be far certainly is too slow."""
_TRIES = 3
"""The fastest of so many: an interrupt is none."""
_ALONE_TRIES = 30
_ALONE_FACTOR, _ALONE_MEMORY_S = 1.3, 10.0
"""At first a probe of several threads should take no more than this times as long as in one
thread: a process may start while the machine is disturbed, and would take that for normal. All
cores may be slower than one, by their clocks or as two are one: this is believed for so long."""
_MEMORY_S = 60.0
"""So long times of the probe are remembered: a hot machine slows its clock down for long."""

Sampled = tuple[list[float], bool]
"""Seconds of the repeats of a program, and whether it was stopped early."""


@dataclass
class NoiseProbe:
    """A piece of work that takes the same time whenever nothing disturbs the machine."""

    work: Callable[[int], None]
    """Does all of it in so many threads."""
    threads: int = 1
    clock: Callable[[], float] = time.perf_counter
    _known: deque[ProbeTime] = field(default_factory=deque[ProbeTime], init=False)
    """The shortest time, then the shortest one after it, and so on."""

    def __post_init__(self) -> None:
        if self.threads > 1:
            tries = max(_TRIES, _ALONE_TRIES // self.threads)
            alone_s = self._fastest(1, tries) / self.threads
            when = self.clock() - _MEMORY_S + _ALONE_MEMORY_S
            self._known.append((when, _ALONE_FACTOR * alone_s))

    @staticmethod
    def of(target: Target, threads: int) -> NoiseProbe:
        """Return multiply-adds and reads by all of the programs' threads; 0: one for each core."""
        threads = threads or target.cores
        return NoiseProbe(backend_of(target).probes.steady_work(target, threads), threads)

    def slowness(self) -> float:
        """Return the time that the work takes now by the shortest one of the last minute."""
        seconds = self._fastest(self.threads, _TRIES)
        return seconds / self._shortest(seconds)

    def _fastest(self, threads: int, tries: int) -> float:
        times: list[float] = []
        for _ in range(tries):
            begin = self.clock()
            self.work(threads)
            times.append(self.clock() - begin)
        return min(times)

    def shortest(self) -> ProbeTime | None:
        """Return the shortest time that is remembered, and when it was."""
        return self._known[0] if self._known else None

    def remember(self, probe_time: ProbeTime) -> None:
        """Take over what a probe in another process of this machine has seen."""
        if self._known and probe_time[1] >= self._known[0][1]:
            return
        times = sorted([*self._known, probe_time])
        self._known.clear()
        for when, seconds in times:
            self._add(when, seconds)

    def _shortest(self, seconds: float) -> float:
        """Remember that the work has just taken `seconds`; return the shortest time remembered."""
        now = self.clock()
        self._add(now, seconds)
        while self._known[0][0] < now - _MEMORY_S:
            self._known.popleft()
        return self._known[0][1]

    def _add(self, when: float, seconds: float) -> None:
        while self._known and self._known[-1][1] >= seconds:
            self._known.pop()
        self._known.append((when, seconds))


class RetryBudget:
    """Times programs when the machine is quiet, and waits for that, but not for long in all.

    Waiting and timing again take `share` of the time at most, and `credit_s` more: disturbances may
    last for seconds, the first one may come early. One program waits for `longest_s` at most.
    """

    def __init__(
        self,
        probe: NoiseProbe,
        share: float,
        credit_s: float,
        longest_s: float = math.inf,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.probe, self._share, self._credit_s = probe, share, credit_s
        self._longest_s, self._clock = longest_s, clock
        self._begin = clock()
        self._spent = 0.0
        self._is_quiet = True

    def sample_quietly(self, sample: Callable[[], Sampled], far_s: float) -> Sampled:
        """Return what `sample` does on a quiet machine, or the faster of two disturbed ones.

        One that was disturbed but is slower than `far_s` anyway is not timed again.
        """
        waited_s = self._wait_until_quiet(self._longest_s)
        times, is_slow = sample()
        slowness = self.probe.slowness()
        limit_s = far_s * (_CERTAINLY_FAR if is_slow else slowness)
        if slowness <= _DISTURBED or statistics.median(times) > limit_s:
            return times, is_slow
        self._wait_until_quiet(self._longest_s - waited_s)
        if not (self._is_quiet and self._has_time()):
            return times, is_slow
        begin = self._clock()
        again, is_still_slow = sample()
        self._spent += self._clock() - begin
        return min(times, again, key=statistics.median), is_slow and is_still_slow

    def _wait_until_quiet(self, most_s: float) -> float:
        """Wait until the machine is quiet, but no longer than `most_s`; return for how long."""
        begin = self._clock()
        while not (is_quiet := self.probe.slowness() <= _DISTURBED):
            waited_s = self._clock() - begin
            if waited_s >= most_s or not self._has_time(waited_s):
                break
        self._is_quiet = is_quiet
        waited_s = self._clock() - begin
        self._spent += waited_s
        return waited_s

    def _has_time(self, waited_s: float = 0.0) -> bool:
        """Whether waiting, `waited_s` of it not yet counted, has been less than its share."""
        elapsed = self._clock() - self._begin
        return self._spent + waited_s < self._share * elapsed + self._credit_s
