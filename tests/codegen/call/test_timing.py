"""Timing with a clock of our own: what it reports, and how long it goes on."""

from __future__ import annotations

import pytest

from ansorc.codegen.call.timing import Timing, measure


class Machine:
    """A clock and a kernel: each call takes `call_s` seconds, each batch `overhead_s` more."""

    def __init__(self, call_s: float, overhead_s: float = 0.0) -> None:
        self.now, self.call_s, self.overhead_s = 0.0, call_s, overhead_s

    def call(self, calls: int) -> None:
        self.now += self.overhead_s + calls * self.call_s

    def clock(self) -> float:
        return self.now


@pytest.mark.parametrize("call_s", [1e-9, 3e-7, 2e-5, 4e-3, 2.0])
def test_the_time_of_a_call_is_found(call_s: float) -> None:
    machine = Machine(call_s, overhead_s=2e-6)
    timing = measure(machine.call, machine.clock, min_time_s=0.1, max_repeats=50)
    assert timing.median_s == pytest.approx(call_s, rel=0.01)
    assert timing.spread_s == pytest.approx(0, abs=0.01 * call_s)
    assert 5 <= timing.repeats <= 50


def test_min_time_and_max_repeats_bound_the_effort() -> None:
    machine = Machine(1e-5)
    measure(machine.call, machine.clock, min_time_s=0.5)
    assert 0.5 <= machine.now < 0.65
    slow = Machine(1.0)
    assert measure(slow.call, slow.clock, min_time_s=6.5, max_repeats=7).repeats == 7
    assert slow.now == pytest.approx(9)  # two calls of warm-up


def test_the_spread_is_the_distance_between_the_quartiles() -> None:
    machine = Machine(1.0)
    durations = iter([1.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0])

    def call(calls: int) -> None:
        machine.now += calls * next(durations)

    timing = measure(call, machine.clock, min_time_s=1.0)
    assert (timing.median_s, timing.spread_s, timing.repeats) == (3.0, 2.0, 5)


def test_it_prints_with_a_fitting_unit() -> None:
    assert str(Timing(0.00234, 0.00001, 10, 1, 0.0023)) == "2.34 ms ± 0.01 ms"
    assert str(Timing(2.5e-7, 1e-9, 10, 1, 2.4e-7)) == "250 ns ± 1 ns"
    assert str(Timing(3.0, 0.5, 10, 1, 2.9)) == "3 s ± 0.5 s"
