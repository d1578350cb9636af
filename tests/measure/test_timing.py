"""How often a kernel is called, on a clock that the test drives."""

import pytest

from ansorc.search.measure.limits import BuildLimit, run_limit_s
from ansorc.search.measure.options import RunOptions
from ansorc.search.measure.timing import interleave, sample


class Machine:
    """A clock, and a kernel that moves it on."""

    def __init__(self, *durations_s: float) -> None:
        self.now = 0.0
        self.calls = 0
        self.durations_s = durations_s

    def call(self, count: int) -> None:
        for _ in range(count):
            self.now += self.durations_s[min(self.calls, len(self.durations_s) - 1)]
            self.calls += 1

    def clock(self) -> float:
        return self.now


OPTIONS = RunOptions(min_total_s=0.04, max_repeats=64, min_repeats=3)


@pytest.mark.parametrize("kernel_s", [2e-6, 1e-4, 1.3e-3, 1e-2, 1.0])
def test_the_samples_say_how_long_one_call_takes(kernel_s: float) -> None:
    machine = Machine(kernel_s)
    seconds, hopeless = sample(machine.call, machine.clock, OPTIONS, 0.0)
    assert not hopeless
    assert seconds == pytest.approx([kernel_s] * len(seconds))
    assert 3 <= len(seconds) <= 64


@pytest.mark.parametrize("kernel_s", [2e-6, 1e-4, 1.3e-3])
def test_the_time_spent_is_about_the_minimum(kernel_s: float) -> None:
    machine = Machine(kernel_s)
    sample(machine.call, machine.clock, OPTIONS, 0.0)
    assert 0.04 <= machine.now <= 0.05


def test_a_first_call_far_slower_than_the_best_ends_it() -> None:
    machine = Machine(0.0051)
    seconds, hopeless = sample(machine.call, machine.clock, OPTIONS, 0.001)
    assert hopeless
    assert seconds == pytest.approx([0.0051])
    assert machine.calls == 1


def test_a_first_call_a_little_slower_than_the_best_does_not_end_it() -> None:
    machine = Machine(0.0049)
    assert not sample(machine.call, machine.clock, OPTIONS, 0.001)[1]


def test_the_first_call_does_not_count_when_the_repeats_are_short() -> None:
    machine = Machine(1e-3, 1e-6)
    seconds, _ = sample(machine.call, machine.clock, OPTIONS, 0.0)
    assert max(seconds) == pytest.approx(1e-6)


def test_kernels_timed_in_turns_share_what_happens_to_the_machine() -> None:
    machine = Machine(*([1e-3] * 100), 3e-3)
    rounds = interleave([machine.call, machine.call], machine.clock, OPTIONS)
    assert [len(found) for found in rounds] == [OPTIONS.rank_rounds] * 2
    assert sum(rounds[0]) == pytest.approx(sum(rounds[1]), rel=0.05)
    assert max(rounds[0]) == pytest.approx(3e-3)


def test_the_build_limit_follows_what_builds_cost() -> None:
    limit = BuildLimit(15.0)
    assert limit.seconds == 15.0
    for _ in range(20):
        limit.observe(0.08)
    assert limit.seconds == 2.0
    for _ in range(200):
        limit.observe(0.3)
    assert limit.seconds == pytest.approx(6.0)
    for _ in range(200):
        limit.observe(30.0)
    assert limit.seconds == 15.0


def test_the_run_limit_is_at_least_a_second_and_grows_with_the_work() -> None:
    assert 1.0 < run_limit_s(OPTIONS, 0.0, 1.0, 0) < 1.5
    assert 1.0 < run_limit_s(OPTIONS, 1e-3, 2.7e8, 0) < 1.5
    assert run_limit_s(OPTIONS, 0.0, 2.7e8, 0) == pytest.approx(5.48)
    assert run_limit_s(OPTIONS, 0.01, 2.7e8, 0) == pytest.approx(2.08)
    assert run_limit_s(OPTIONS, 0.0, 1e12, 0) < 130.0
