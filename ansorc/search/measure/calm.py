"""Calm: programs are timed while nothing else slows the machine down, as far as that can be had.

A virtual machine shares its cores with others: for tenths of a second all programs may take twice
as long, longer than one of them is timed, so that no number of repeats tells. A witness tells, a
small piece of work that always takes the same time on an idle machine: it is run before and after.
What was disturbed is timed once more. Waiting is a small share of all the time at most: on a
machine that is never calm programs are timed as it is.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ansorc.codegen.limits import FmaProbe
from ansorc.target import Target

_DISTURBED = 1.25
"""A witness that takes this many times as long as at best tells of a disturbance."""
_TRIES = 3
"""The fastest of so many: an interrupt is none."""
_MEMORY = 500
"""So many times of the witness are remembered: a hot machine slows its clock down for long."""
_PAUSE_S = 0.01
_WITNESS_STEPS = 10_000
"""About 0.1 ms."""

Sampled = tuple[list[float], bool]
"""Seconds of the repeats of a program, and whether it is hopeless."""


@dataclass
class Witness:
    """A piece of work that takes the same time whenever nothing disturbs the machine."""

    work: Callable[[], None]
    clock: Callable[[], float] = time.perf_counter
    _known: deque[float] = field(default_factory=lambda: deque[float](maxlen=_MEMORY))

    @staticmethod
    def of(target: Target, threads: int) -> Witness:
        """Return multiply-adds in as many threads as the programs have; 0: one for each core."""
        return Witness(FmaProbe(target, threads or target.cores, _WITNESS_STEPS).run)

    def slowness(self) -> float:
        """Return the time that the work takes now by the shortest one lately."""
        times: list[float] = []
        for _ in range(_TRIES):
            begin = self.clock()
            self.work()
            times.append(self.clock() - begin)
        self._known.append(min(times))
        return min(times) / min(self._known)


class Patience:
    """Times programs when the machine is calm, and waits for that, but not for long in all."""

    def __init__(
        self,
        witness: Witness,
        share: float,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._witness, self._share = witness, share
        self._clock, self._sleep = clock, sleep
        self._begin = clock()
        self._spent = 0.0

    def timed(self, sample: Callable[[], Sampled], far_s: float) -> Sampled:
        """Return what `sample` does, when the machine is calm, or the faster of two disturbed ones.

        A program that is hopeless, or disturbed but slower than `far_s` anyway, is not timed again.
        """
        self._wait()
        found, hopeless = sample()
        slowness = self._witness.slowness()
        if hopeless or slowness <= _DISTURBED or statistics.median(found) > far_s * slowness:
            return found, hopeless
        if not (self._wait() and self._has_time()):
            return found, hopeless
        begin = self._clock()
        again, _ = sample()
        self._spent += self._clock() - begin
        return min(found, again, key=statistics.median), False

    def _wait(self) -> bool:
        """Wait until the machine is calm; False if it does not become so in time."""
        begin = self._clock()
        while is_disturbed := self._witness.slowness() > _DISTURBED:
            if not self._has_time(self._clock() - begin):
                break
            self._sleep(_PAUSE_S)
        self._spent += self._clock() - begin
        return not is_disturbed

    def _has_time(self, waited_s: float = 0.0) -> bool:
        """Whether waiting, `waited_s` of it not yet counted, has been less than its share."""
        elapsed = self._clock() - self._begin
        return self._spent + waited_s < self._share * elapsed
