"""Calls as a user makes them, with a clock of our own."""

from __future__ import annotations

import pytest

from ansorc.codegen.call.call_times import (
    GAP_S,
    CallTimes,
    OtherWork,
    back_to_back,
    with_other_work,
)


class Machine:
    """A clock that goes on when it is read, and a call of `call_s`, `waking_s` more after a gap."""

    def __init__(self, call_s: float, waking_s: float = 0.0) -> None:
        self.now, self.call_s, self.waking_s = 0.0, call_s, waking_s
        self._last_end, self.calls = 0.0, 0

    def clock(self) -> float:
        self.now += 1e-8
        return self.now

    def call(self) -> None:
        has_slept = self.now - self._last_end > GAP_S / 2
        self.now += self.call_s + (self.waking_s if has_slept else 0.0)
        self._last_end, self.calls = self.now, self.calls + 1


def test_only_calls_with_other_work_between_are_woken_for() -> None:
    machine = Machine(20e-6, waking_s=30e-6)
    close = back_to_back(machine.call, 0.01, machine.clock)
    apart = with_other_work(machine.call, 0.01, machine.clock)
    assert close[1:] == pytest.approx([20e-6] * (len(close) - 1), rel=0.01)
    assert apart == pytest.approx([50e-6] * len(apart), rel=0.01)
    assert len(apart) == 40  # 0.01 s of 200 + 50 µs each


def test_a_long_call_is_made_once_in_each_way() -> None:
    machine = Machine(0.2)
    assert len(back_to_back(machine.call, 0.01, machine.clock)) == 1
    assert len(with_other_work(machine.call, 0.01, machine.clock)) == 1
    assert machine.calls == 2


def test_other_work_takes_its_time_and_touches_its_data() -> None:
    machine = Machine(0.0)
    work = OtherWork(machine.clock)
    begin = machine.now
    work()
    assert machine.now - begin >= GAP_S
    assert work.touched == 1


def test_times_are_said_in_their_unit() -> None:
    assert str(CallTimes(12.3e-6, 45.6e-6)).startswith("12.3 µs back to back, 45.6 µs with other")
    assert str(CallTimes(1.23, 1.5)).startswith("1.23 s back to back, 1.5 s")
