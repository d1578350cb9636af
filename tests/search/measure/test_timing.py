"""How often a kernel is called, on a clock that the test drives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorc.search.measure.options import BuildLimit, RunOptions, run_limit_s
from ansorc.search.measure.timing import Subject, interleave, median_error, sample

EVICTION_S = 5e-4


class Machine:
    """A clock, and a kernel that moves it on; the first call in empty caches takes longer."""

    def __init__(self, *durations_s: float, noise: float = 0.0) -> None:
        self.now = 0.0
        self.calls = 0
        self.evictions = 0
        self.is_cold = False
        self.durations_s = durations_s
        self.noise = noise
        self.rng = np.random.default_rng(0)

    def call(self, count: int) -> None:
        for _ in range(count):
            one = self.durations_s[min(self.calls, len(self.durations_s) - 1)]
            self.now += one * (1 + self.noise * self.rng.uniform(-1, 1)) * (1 + 2 * self.is_cold)
            self.calls += 1
            self.is_cold = False

    def evict(self) -> None:
        self.now += EVICTION_S
        self.evictions += 1
        self.is_cold = True

    def clock(self) -> float:
        return self.now

    def sample(self, best_s: float = 0.0) -> tuple[list[float], bool]:
        return sample(Subject(self.call), self.clock, OPTIONS, best_s)


OPTIONS = RunOptions()


@pytest.mark.parametrize("kernel_s", [2e-6, 1e-4, 1.3e-3, 1e-2, 1.0])
def test_the_samples_say_how_long_one_call_takes(kernel_s: float) -> None:
    seconds, is_slow = Machine(kernel_s).sample()
    assert not is_slow
    assert seconds == pytest.approx([kernel_s] * len(seconds))
    assert OPTIONS.min_repeats <= len(seconds) <= OPTIONS.max_repeats


@pytest.mark.parametrize("kernel_s", [2e-6, 1e-4, 1.3e-3])
def test_a_steady_kernel_is_timed_no_longer_than_the_minimum(kernel_s: float) -> None:
    machine = Machine(kernel_s)
    machine.sample()
    assert OPTIONS.min_total_s <= machine.now <= 1.6 * OPTIONS.min_total_s


def test_a_kernel_is_repeated_until_its_time_is_known() -> None:
    quiet, noisy, wild = (Machine(1e-3, noise=noise) for noise in (0.005, 0.02, 0.5))
    for machine in (quiet, noisy, wild):
        machine.sample(best_s=1e-3)
    assert quiet.now < noisy.now < wild.now
    assert wild.now == pytest.approx(OPTIONS.max_total_s, rel=0.1), "but not for ever"
    seconds, _ = noisy.sample(best_s=1e-3)
    assert median_error(seconds) <= OPTIONS.precision


def test_a_kernel_that_is_not_near_the_best_is_assessed_once() -> None:
    near, far = Machine(1e-3, noise=0.4), Machine(2e-3, noise=0.4)
    near.sample(best_s=1e-3)
    seconds, is_slow = far.sample(best_s=1e-3)
    assert near.now > 4 * OPTIONS.min_total_s
    assert far.now < 2 * OPTIONS.min_total_s
    assert len(seconds) >= OPTIONS.min_repeats
    assert not is_slow


def test_each_call_of_a_long_kernel_is_a_repeat() -> None:
    near, far, alone = Machine(1.1), Machine(1.4), Machine(1.4)
    assert near.sample(best_s=1.0) == ([pytest.approx(1.1)] * OPTIONS.min_repeats, False)
    assert far.sample(best_s=1.0) == ([pytest.approx(1.4)], False)
    assert alone.sample() == ([pytest.approx(1.4)] * OPTIONS.min_repeats, False)
    assert [near.calls, far.calls, alone.calls] == [3, 1, 3]


def test_two_calls_far_slower_than_the_best_end_it() -> None:
    machine = Machine(0.0051, 0.0045)
    seconds, is_slow = machine.sample(best_s=0.001)
    assert is_slow
    assert seconds == pytest.approx([0.0045])
    assert machine.calls == 2


def test_one_call_far_slower_than_the_best_may_have_been_disturbed() -> None:
    machine = Machine(0.0051, 0.001)
    seconds, is_slow = machine.sample(best_s=0.001)
    assert not is_slow
    assert seconds == pytest.approx([0.001] * len(seconds))


@pytest.mark.parametrize("woken_s", [2e-5, 5e-5, 2e-4])
def test_a_small_kernel_is_not_stopped_because_threads_were_woken(woken_s: float) -> None:
    """5 µs after calls in a row; the first two calls wake threads that sleep."""
    machine = Machine(woken_s, woken_s, 5e-6)
    seconds, is_slow = machine.sample(best_s=4e-6)
    assert not is_slow
    assert np.median(seconds) == pytest.approx(5e-6)


def test_a_small_kernel_that_is_slow_in_a_row_is_stopped() -> None:
    machine = Machine(2.5e-5)
    seconds, is_slow = machine.sample(best_s=5e-6)
    assert is_slow
    assert seconds == pytest.approx([2.5e-5])
    assert machine.now < 2e-3


def test_a_first_call_a_little_slower_than_the_best_does_not_end_it() -> None:
    assert not Machine(0.0039).sample(best_s=0.001)[1]


def test_the_first_call_does_not_count_when_the_repeats_are_short() -> None:
    seconds, _ = Machine(1e-4, 1e-6).sample()
    assert max(seconds) == pytest.approx(1e-6)


def test_cold_caches_before_each_timed_call_and_nothing_else_in_the_time() -> None:
    machine = Machine(1e-3)
    subject = Subject(machine.call, machine.evict)
    seconds, _ = sample(subject, machine.clock, OPTIONS, 1e-3)
    assert seconds == pytest.approx([3e-3] * len(seconds))
    assert machine.evictions == machine.calls == len(seconds) + 1
    (seconds,) = interleave([subject], machine.clock, OPTIONS)
    assert seconds == pytest.approx([3e-3] * OPTIONS.rank_rounds)


class Team:
    """What happened, in a list that others write to as well."""

    def __init__(self, events: list[str]) -> None:
        self.events = events

    def __enter__(self) -> None:
        self.events.append("awake")

    def __exit__(self, *_: object) -> None:
        self.events.append("asleep")


def test_threads_are_awake_when_a_call_is_timed_and_the_rest_of_the_caches_is_warm() -> None:
    machine, events = Machine(1e-3), list[str]()

    def call(count: int) -> None:
        events.append("call")
        machine.call(count)

    def evict() -> None:
        events.append("evict")
        machine.evict()

    subject = Subject(call, evict, evicts_all=False, team=Team(events))
    timed = ["evict", "awake", "call", "asleep"]
    sample(subject, machine.clock, OPTIONS, 1e-3)
    assert events == timed * (len(events) // 4)
    events.clear()
    (seconds,) = interleave([subject], machine.clock, OPTIONS)
    assert events == ["call", *timed] * len(seconds)


def test_a_kernel_that_updates_its_inputs_gets_the_old_ones_again() -> None:
    """Before each repeat, of a few calls alone, and outside of the time."""
    events: list[str] = []
    machine = Machine(1e-6)

    def call(count: int) -> None:
        events.append(f"{count}")
        machine.call(count)

    def restore() -> None:
        events.append("restore")
        machine.now += EVICTION_S

    seconds, _ = sample(Subject(call, restore=restore), machine.clock, OPTIONS, 0.0)
    assert events[::2] == ["restore"] * (len(events) // 2)
    assert set(events[1::2]) == {"1", "4", "8"}
    assert seconds == pytest.approx([1e-6] * len(seconds))


@given(st.lists(st.floats(0.9, 1.1), min_size=3, max_size=40))
def test_the_error_of_a_median_has_no_unit_and_shrinks_with_more_repeats(
    seconds: list[float],
) -> None:
    error = median_error(seconds)
    assert 0.0 <= error < 0.2
    assert median_error([1e-3 * one for one in seconds]) == pytest.approx(error, abs=1e-12)
    assert median_error(seconds * 16) <= 0.5 * error + 1e-2
    assert median_error([1.0] * len(seconds)) == 0.0


def test_kernels_timed_in_turns_share_what_happens_to_the_machine() -> None:
    machine = Machine(*([1e-3] * 100), 3e-3)
    subject = Subject(machine.call)
    rounds = interleave([subject, subject], machine.clock, OPTIONS)
    assert [len(found) for found in rounds] == [OPTIONS.rank_rounds] * 2
    assert sum(rounds[0]) == pytest.approx(sum(rounds[1]), rel=0.05)
    assert max(rounds[0]) == pytest.approx(3e-3)


def test_slow_kernels_get_fewer_turns() -> None:
    machine = Machine(0.5)
    rounds = interleave([Subject(machine.call)] * 3, machine.clock, OPTIONS)
    assert [len(found) for found in rounds] == [OPTIONS.rank_least_rounds] * 3


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
    at_once = RunOptions(retry_share=0)
    assert 1.0 < run_limit_s(at_once, 0.0, 1.0, 0) < 1.5
    assert 1.0 < run_limit_s(at_once, 1e-3, 2.7e8, 0) < 1.5
    assert run_limit_s(at_once, 0.0, 2.7e8, 0) == pytest.approx(5.52)
    assert run_limit_s(at_once, 0.01, 2.7e8, 0) == pytest.approx(2.12)
    assert run_limit_s(at_once, 0.0, 1e12, 0) < 130.0
    cold = RunOptions(cache="cold", retry_share=0)
    assert run_limit_s(cold, 1e-3, 2.7e8, 1 << 24) > run_limit_s(at_once, 1e-3, 2.7e8, 1 << 24)


def test_the_run_limit_leaves_time_to_wait_for_a_quiet_machine() -> None:
    at_once = RunOptions(retry_share=0)
    more_s = run_limit_s(OPTIONS, 1e-3, 2.7e8, 0) - run_limit_s(at_once, 1e-3, 2.7e8, 0)
    assert more_s == pytest.approx(OPTIONS.longest_wait_s)
