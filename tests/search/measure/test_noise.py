"""Calm: what was disturbed is timed again, and the machine is not waited for without end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from ansorc.search.measure.timing import NoiseProbe, RetryBudget, Sampled
from ansorc.target import detect

ALONE_S, PROGRAM_S = 1e-4, 1e-3


@dataclass
class Machine:
    """A clock that work moves on, twice as far while the machine is disturbed."""

    disturbed: tuple[tuple[float, float], ...] = ()
    """Begin and end of the disturbances, in seconds."""
    now: float = 0.0
    samples: list[float] = field(default_factory=list[float])

    def clock(self) -> float:
        return self.now

    def probe(self, threads: int = 1) -> NoiseProbe:
        def work(used: int) -> None:
            """What takes ALONE_S a thread; one alone does not feel that two are on one core."""
            if used < threads:
                self.now += threads * ALONE_S
            else:
                self.work(ALONE_S)

        return NoiseProbe(work, threads, self.clock)

    def work(self, seconds: float) -> None:
        is_slow = any(begin <= self.now < end for begin, end in self.disturbed)
        self.now += seconds * (2.0 if is_slow else 1.0)

    def sample(self) -> Sampled:
        begin = self.now
        self.work(PROGRAM_S)
        self.samples.append(self.now - begin)
        return [self.samples[-1]] * 3, False

    def budget(
        self, share: float, credit_s: float = 0.0, longest_s: float = math.inf
    ) -> RetryBudget:
        probe = self.probe()
        probe.slowness()
        budget = RetryBudget(probe, share, credit_s, longest_s, self.clock)
        self.now += 1.0
        return budget


def timed(machine: Machine, share: float, far_s: float = 1.0, credit_s: float = 0.0) -> float:
    seconds, is_slow = machine.budget(share, credit_s).sample_quietly(machine.sample, far_s)
    assert not is_slow
    return seconds[0]


def test_on_a_quiet_machine_a_program_is_timed_once() -> None:
    machine = Machine()
    assert timed(machine, 0.1) == pytest.approx(PROGRAM_S)
    assert len(machine.samples) == 1


def test_a_program_waits_for_the_end_of_a_disturbance() -> None:
    machine = Machine(disturbed=((0.5, 1.08),))
    assert timed(machine, 0.1) == pytest.approx(PROGRAM_S)
    assert len(machine.samples) == 1
    assert 1.08 < machine.now < 1.11


def test_what_was_disturbed_is_timed_again() -> None:
    machine = Machine(disturbed=((1.0006, 1.02),))
    assert timed(machine, 0.1) == pytest.approx(PROGRAM_S)
    assert machine.samples == pytest.approx([2 * PROGRAM_S, PROGRAM_S])


def test_a_program_that_is_far_from_the_best_is_not_timed_again() -> None:
    machine = Machine(disturbed=((1.0006, 1.02),))
    assert timed(machine, 0.1, far_s=0.4 * PROGRAM_S) == pytest.approx(2 * PROGRAM_S)
    near = Machine(disturbed=((1.0006, 1.02),))
    assert timed(near, 0.1, far_s=1.1 * PROGRAM_S) == pytest.approx(PROGRAM_S)


def test_a_machine_that_is_never_quiet_is_not_waited_for() -> None:
    machine = Machine(disturbed=((0.5, 1e9),))
    assert timed(machine, 0.1) == pytest.approx(2 * PROGRAM_S)
    assert len(machine.samples) == 1
    assert machine.now < 1.2
    none = Machine(disturbed=((0.5, 1e9),))
    timed(none, 0.0)
    assert none.now < 1.01


def test_an_early_disturbance_may_take_longer_than_the_share_of_the_time() -> None:
    short = Machine(disturbed=((0.5, 2.5),))
    assert timed(short, 0.1, credit_s=2.0) == pytest.approx(PROGRAM_S)
    assert 2.5 < short.now < 2.51
    long = Machine(disturbed=((0.5, 1e9),))
    assert timed(long, 0.1, credit_s=2.0) == pytest.approx(2 * PROGRAM_S)
    assert 3.0 < long.now < 3.5


def test_one_program_waits_no_longer_than_it_may() -> None:
    """Or it would run out of the time that a job has, though it is not at fault."""
    machine = Machine(disturbed=((0.5, 1e9),))
    budget = machine.budget(10.0, 100.0, longest_s=2.0)
    begin = machine.now
    budget.sample_quietly(machine.sample, 1.0)
    assert machine.now - begin == pytest.approx(2.0, abs=0.01)
    assert len(machine.samples) == 1


def test_many_times_of_a_long_disturbance_do_not_count_as_normal() -> None:
    machine = Machine(disturbed=((0.5, 40.0),))
    probe = machine.probe()
    probe.slowness()
    machine.now = 0.5
    slow = [probe.slowness() for _ in range(10_000)]
    assert machine.now < 40.0
    assert min(slow) == pytest.approx(2.0)


def test_a_disturbance_from_the_start_is_known_by_one_thread() -> None:
    """Two threads on one core: each takes twice as long, one of them alone does not."""
    machine = Machine(disturbed=((0.0, 5.0),))
    assert machine.probe().slowness() == pytest.approx(1.0)
    assert machine.probe(threads=2).slowness() == pytest.approx(2.0 / 1.3)


def test_cores_that_are_slower_together_are_taken_for_normal_after_a_while() -> None:
    machine = Machine(disturbed=((0.0, 1e9),))
    probe = machine.probe(threads=2)
    assert probe.slowness() > 1.5
    machine.now += 15.0
    assert probe.slowness() == pytest.approx(1.0)


def test_a_new_process_knows_what_an_earlier_one_saw() -> None:
    machine = Machine()
    earlier = machine.probe()
    earlier.slowness()
    machine.disturbed = ((machine.now, 1e9),)
    machine.now += 5.0
    later = machine.probe()
    assert later.slowness() == pytest.approx(1.0), "it takes what it sees first for normal"
    seen = earlier.shortest()
    assert seen is not None
    later.remember(seen)
    assert later.slowness() == pytest.approx(2.0)
    assert later.shortest() == seen
    machine.now += 60.0
    assert later.slowness() == pytest.approx(1.0), "forgotten like a time of its own"


def test_the_time_spent_on_waiting_is_a_share_of_all_time() -> None:
    machine = Machine(disturbed=((0.5, 1e9),))
    budget = machine.budget(0.1)
    for _ in range(1000):
        budget.sample_quietly(machine.sample, 1.0)
    working = sum(machine.samples) + 1.0
    assert machine.now < 1.7 * working  # the probe itself takes 0.6 of such short programs


def test_timing_again_is_a_share_of_all_time_as_well() -> None:
    """Disturbances that end at once, of which each program meets one."""
    machine = Machine()
    budget = machine.budget(0.1)
    machine.now += 1.0
    for _ in range(1000):
        start = machine.now + 2.5 * ALONE_S  # while the probe runs for the third time
        machine.disturbed = ((start, start + 2 * PROGRAM_S + 5 * ALONE_S),)
        budget.sample_quietly(machine.sample, 1.0)
    again = len(machine.samples) - 1000
    assert 0 < again < 500


def test_the_fastest_time_of_the_probe_is_forgotten() -> None:
    """A clock that is lowered for long, because the machine is hot, is no disturbance."""
    machine = Machine(disturbed=((0.5, 1e9),))
    probe = machine.probe()
    assert probe.slowness() == pytest.approx(1.0)
    machine.now = 1.0
    assert probe.slowness() == pytest.approx(2.0)
    machine.now = 65.0
    assert probe.slowness() == pytest.approx(1.0)


@pytest.mark.parametrize(("best_s", "calls"), [(0.5 * PROGRAM_S, 2), (0.1 * PROGRAM_S, 1)])
def test_a_slow_program_is_timed_again_unless_it_is_very_slow(best_s: float, calls: int) -> None:
    machine = Machine(disturbed=((1.0006, 1.02),))
    found: list[float] = []

    def sample() -> Sampled:
        found.append(machine.sample()[0][0])
        return [found[-1]], found[-1] > 1.5 * PROGRAM_S

    again = machine.budget(0.1).sample_quietly(sample, best_s)
    assert len(found) == calls
    assert again == ([found[-1]], calls == 1)


@pytest.mark.parametrize("threads", [0, 1])
def test_the_probe_of_this_machine_is_short(threads: int) -> None:
    probe = NoiseProbe.of(detect(), threads)
    slow = sorted(probe.slowness() for _ in range(20))
    assert slow[0] >= 1.0
    assert slow[10] < 5.0
    took = sorted(_seconds(lambda: probe.work(probe.threads)) for _ in range(9))
    assert took[4] < 0.02


def _seconds(work: Callable[[], None]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
