"""The scheduler's formula on numbers by hand, its rules, and what it saves on curves made up."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from ansorc.errors import OptionError
from ansorc.search.options import Scheduling
from ansorc.search.task_scheduler import (
    Round,
    TaskProgress,
    TaskScheduler,
    objective_slopes,
    objective_value,
)
from bench.search.scheduling import RecordedTask, compared, in_hindsight, simulate

TEN = Scheduling(trials_per_round=10, warm_up=10, epsilon=0.0, least_gain=0.0)


def scheduler(
    weights: Sequence[float], options: Scheduling = TEN, trials: int = 10_000
) -> TaskScheduler:
    return TaskScheduler(options, (tuple(weights),), trials)


def known(
    trials: int, *curve: tuple[int, float], flops: float = 0.0, group: str = ""
) -> TaskProgress:
    return TaskProgress(trials, curve or ((1, 1.0),), flops, group)


@pytest.mark.parametrize(
    ("task", "other", "expected"),
    [
        # one round, nothing to go back to: 0.8 · 0.1 · −8/2³
        (known(10, (3, 8.0)), known(10), -0.08),
        # two rounds, window 1: 0.2 · (6 − 8) + 0.8 · 0.1 · −6/3³
        (known(20, (3, 8.0), (12, 6.0)), known(10), -0.4 - 0.48 / 27),
        # five rounds, window 3, from trial 20 on: 0.2 · (5 − 7)/3 + 0.8 · 0.1 · −5/6³
        (known(50, (3, 8.0), (20, 7.0), (41, 5.0)), known(10), -0.4 / 216 - 0.4 / 3),
        # a similar one reaches 4 flops/s, so 2 · 8/4 = 4 s are expected of 8 flops: 0.8 · (4 − 9)
        (known(30, (3, 9.0), flops=8, group="a"), known(10, (1, 2.0), flops=8, group="a"), -4.0),
        # of no other group
        (
            known(30, (3, 9.0), flops=8, group="a"), known(10, (1, 2.0), flops=8, group="b"),
            -0.72 / 4**3,
        ),
        # more than ten rounds ahead, still slower than half: the similar one says nothing
        (
            known(140, (3, 9.0), flops=8, group="a"), known(10, (1, 2.0), flops=8, group="a"),
            -0.72 / 15**3,
        ),
        # faster than expected by similar ones: the guess by rounds is the lower one
        (
            known(30, (3, 3.0), flops=8, group="a"), known(10, (1, 2.0), flops=8, group="a"),
            -0.24 / 4**3,
        ),
    ],
)  # fmt: skip
def test_the_gradient_by_hand(task: TaskProgress, other: TaskProgress, expected: float) -> None:
    assert scheduler([1, 1]).gradients([task, other])[0] == pytest.approx(expected)
    assert scheduler([3, 1]).gradients([task, other])[0] == pytest.approx(3 * expected)


def weighted_square(latencies: Sequence[float]) -> float:
    return sum((1 + n) * latency**2 for n, latency in enumerate(latencies))


@pytest.mark.parametrize(
    ("objective", "value"),
    [("f1", 6e-3), ("f2", 7e-3), ("f3", -((2 * 2 * 0.5) ** (1 / 3))), ("f4", 6e-3),
     (weighted_square, 1e-6 + 8e-6 + 27e-6)],
)  # fmt: skip
def test_objectives_and_their_slopes(
    objective: str | Callable[[Sequence[float]], float], value: float
) -> None:
    options = Scheduling(
        objective=objective,  # pyright: ignore[reportArgumentType]
        requirements=(2e-3, 1e-3, 2e-3), references=(2e-3, 4e-3, 1.5e-3),
    )  # fmt: skip
    at = [1e-3, 2e-3, 3e-3]
    assert objective_value(options, at) == pytest.approx(value)
    for number, slope in enumerate(objective_slopes(options, at)):
        step = at[number] * 1e-6
        less, more = [*at], [*at]
        less[number] -= step
        more[number] += step
        numeric = (objective_value(options, more) - objective_value(options, less)) / (2 * step)
        assert slope == pytest.approx(numeric, rel=1e-3, abs=1e-9)


def test_a_user_s_objective_of_microseconds_is_derived_by_a_relative_step() -> None:
    options = Scheduling(objective=max)
    assert objective_slopes(options, [2e-6, 1e-6]) == pytest.approx([1.0, 0.0])


def test_objectives_need_a_time_for_each_network_and_a_known_name() -> None:
    for name in ("f2", "f3"):
        with pytest.raises(OptionError, match="0 times for 2 networks"):
            objective_value(Scheduling(objective=name), [1.0, 1.0])
    with pytest.raises(OptionError, match="f1, f2, f3, f4 or a function"):
        Scheduling(objective="f5")  # pyright: ignore[reportArgumentType]
    with pytest.raises(OptionError, match="round-robin"):
        Scheduling(strategy="greedy")  # pyright: ignore[reportArgumentType]


def test_first_everyone_has_a_round_and_an_interrupted_one_is_completed() -> None:
    made = scheduler([1, 100, 1])
    fresh = TaskProgress()
    assert made.next([fresh, fresh, fresh]) == Round(0, 10)
    assert made.next([known(10), fresh, fresh]) == Round(1, 10)
    assert made.next([known(10), known(4), fresh]) == Round(1, 6), "killed after four trials"
    assert made.next([known(10), known(10), known(10)]) == Round(1, 10), "then the heaviest"
    nothing_works = replace(known(10), curve=())
    assert made.next([known(10), known(10), nothing_works]) == Round(2, 10)


def test_a_budget_of_less_than_a_round_each_is_shared() -> None:
    made = scheduler([1, 1, 1], trials=8)
    assert made.next([TaskProgress()] * 3) == Round(0, 2)
    assert made.next([known(4), known(2), known(2)]) is None


def test_a_short_warm_up_begins_with_most_work_and_the_gradient_goes_on() -> None:
    made = scheduler([1, 3, 1], replace(TEN, warm_up=1))
    fresh = [TaskProgress(flops=flops) for flops in (5.0, 2.0, 4.0)]
    assert made.next(fresh) == Round(1, 1), "three times two is most"
    begun = known(1, (1, 1.0))
    assert made.next([fresh[0], begun, fresh[2]]) == Round(0, 1)
    assert made.next([begun, begun, known(1, (1, 9.0))]) == Round(2, 9), "to the end of a round"
    assert made.next([begun, begun, known(4, (1, 2.0))]) == Round(2, 6), "it was interrupted"
    assert made.next([begun, replace(begun, curve=()), begun]) == Round(1, 9), "nothing works yet"
    three = scheduler([1, 1], replace(TEN, warm_up=3))
    assert three.next([known(2), TaskProgress()]) == Round(0, 1)
    assert three.next([known(3), TaskProgress()]) == Round(1, 3)
    with pytest.raises(OptionError, match="warm_up is 0; it is 1 or more"):
        Scheduling(warm_up=0)


def test_weights_of_all_networks_count() -> None:
    shared = TaskScheduler(TEN, ((1.0, 2.0, 0.0), (0.0, 2.0, 3.0)), 1000)
    tasks = [known(10, (1, 1.0)), known(10, (1, 1.0)), known(10, (1, 1.0))]
    assert shared.latencies(tasks) == (3.0, 5.0)
    assert shared.gradients(tasks) == pytest.approx([-0.01, -0.04, -0.03])
    assert shared.latencies([TaskProgress(), tasks[1], tasks[2]]) == (math.inf, 5.0)


def test_epsilon_of_the_rounds_go_to_anyone_and_follow_from_the_seed() -> None:
    def chosen(epsilon: float, seed: int) -> list[int]:
        made = TaskScheduler(replace(TEN, epsilon=epsilon), ((1.0,) * 4,), 10**6, seed)
        small = [known(10, (1, 0.1)), known(20, (1, 0.1)), known(30, (1, 0.1))]
        rounds = [made.next([known(10 * t, (1, 1e6)), *small]) for t in range(1, 401)]
        return [each.task for each in rounds if each]

    assert set(chosen(0.0, 0)) == {0}
    counts = Counter(chosen(0.2, 0))
    assert 0.1 < 1 - counts[0] / 400 < 0.2, "a quarter of the fifth is task 0 again"
    assert min(counts.values()) > 5
    assert chosen(0.2, 0) == chosen(0.2, 0) != chosen(0.2, 1)


@pytest.mark.parametrize("strategy", ["gradient", "round-robin", "equal"])
def test_a_task_without_programs_or_of_failures_alone_gets_no_more(strategy: str) -> None:
    options = replace(TEN, most_failures=30, strategy=strategy)  # pyright: ignore[reportArgumentType]
    made = scheduler([100, 100, 1], options, 1000)
    exhausted, failed = replace(known(7, (1, 9.0)), is_over=True), replace(known(30), curve=())
    tasks = [exhausted, failed, known(50)]
    assert made.status(tasks) == ["exhausted", "failed", "active"]
    chosen = made.next(tasks)
    assert chosen is not None
    assert chosen.task == 2
    assert made.next([exhausted, failed, replace(known(50), is_over=True)]) is None


def test_a_task_rests_when_its_gain_is_small_relative_to_the_network() -> None:
    made = scheduler([1, 1], replace(TEN, least_gain=0.01, rest_after=3))
    heavy = known(40, (1, 99.0))
    gains = known(40, (1, 5.0), (35, 3.0))  # 2 of 102
    tiny = known(10, (1, 0.5))
    assert made.status([heavy, gains]) == ["resting", "active"]
    assert made.status([heavy, tiny]) == ["resting", "resting"], "all of its time is nothing"
    assert made.next([heavy, tiny]) is None
    assert made.status([known(30, (1, 99.0)), gains])[0] == "active", "too early to tell"
    in_microseconds = [known(40, (1, 99e-6)), known(40, (1, 5e-6), (35, 3e-6))]
    assert made.status(in_microseconds) == ["resting", "active"], "no absolute threshold"


def test_a_network_that_is_fast_enough_gets_no_more() -> None:
    options = replace(TEN, objective="f2", requirements=(2.0, 0.5))
    made = TaskScheduler(options, ((1.0, 0.0), (0.0, 1.0)), 1000)
    tasks = [known(10, (1, 1.0)), known(10, (1, 0.6))]
    assert made.status(tasks) == ["met", "active"]
    assert made.next(tasks) == Round(1, 10)
    assert made.next([tasks[0], known(20, (1, 0.6), (12, 0.5))]) is None


def test_f4_stops_a_task_that_has_not_improved() -> None:
    made = scheduler([9, 1], replace(TEN, objective="f4", early_stop=2))
    assert made.status([known(30, (1, 1.0)), known(30, (1, 2.0), (11, 1.0))]) == ["met", "active"]


def test_the_last_trials_and_every_fifth_round_search_nearby() -> None:
    made = TaskScheduler(TEN, ((1.0,),), 200, local_share=0.2)
    found = [made.next([known(10 * t)]) for t in range(20)]
    local = [t for t, one in enumerate(found) if one and one.is_local_search]
    assert local == [4, 9, 14, 16, 17, 18, 19]
    without = [TaskScheduler(TEN, ((1.0,),), 200).next([known(10 * t)]) for t in range(20)]
    assert not any(one.is_local_search for one in without if one)


def test_the_other_strategies() -> None:
    turns = scheduler([1, 9], replace(TEN, strategy="round-robin"))
    assert turns.next([known(10), known(10)]) == Round(0, 10)
    assert turns.next([known(20), known(10)]) == Round(1, 10)
    equal = scheduler([1, 9], replace(TEN, strategy="equal"), 50)
    assert equal.next([known(20), TaskProgress()]) == Round(0, 5)
    assert equal.next([known(25), TaskProgress()]) == Round(1, 10)
    assert equal.next([known(25), known(25)]) is None


def power_law(name: str, weight: float, last_s: float, gain: float, seed: int) -> RecordedTask:
    """Best times of last_s · (1 + gain / √trial), and programs that are up to 15 % off."""
    rng, curve = random.Random(seed), list[tuple[int, float]]()
    for trial in range(1, 3001):
        seconds = last_s * (1 + gain / math.sqrt(trial)) * (1 + 0.15 * rng.random())
        if not curve or seconds < curve[-1][1]:
            curve.append((trial, seconds))
    return RecordedTask(name, 3000, tuple(curve), weight=weight)


def unequal(seed: int) -> list[RecordedTask]:
    """Two tasks that are most of the network's time, and twelve that are little of it."""
    heavy = [power_law(f"heavy {n}", 8, 1e-3, 3.0, 100 * seed + n) for n in range(2)]
    light = [power_law(f"light {n}", 1, 1e-4, 0.5, 100 * seed + 10 + n) for n in range(12)]
    return [*light, *heavy]


@pytest.mark.parametrize("seed", range(5))
def test_half_of_round_robin_s_trials_suffice_for_unequal_tasks(seed: int) -> None:
    tasks = unequal(seed)
    turns = simulate(tasks, Scheduling(strategy="round-robin"), 2240, seed)
    found = simulate(tasks, Scheduling(), 2240, seed)
    needed = found.trials_to(turns.final_s)
    assert needed is not None
    assert needed <= 2240 / 2
    assert found.final_s < turns.final_s
    assert min(found.trials) >= 1
    assert found == simulate(tasks, Scheduling(), 2240, seed)


def test_trials_are_left_over_where_nothing_is_gained() -> None:
    flat = [RecordedTask(f"flat {n}", 3000, ((1, 1e-3),)) for n in range(4)]
    assert sum(simulate(flat, Scheduling(epsilon=0.0), 4000).trials) == 4 * 13 * 8


def test_the_first_round_of_a_task_comes_before_the_second_of_one_nearly_as_long() -> None:
    made = scheduler([1, 1], replace(TEN, warm_up=1))
    assert made.next([known(10, (1, 1.0)), known(1, (1, 0.5))]) == Round(1, 9)
    assert made.next([known(10, (1, 1.0)), known(1, (1, 0.1))]) == Round(0, 10)


@pytest.mark.parametrize("seed", range(5))
def test_nobody_is_faster_than_who_knows_the_curves(seed: int) -> None:
    tasks = [replace(task, trials=12) for task in unequal(seed)[-4:]]
    best = in_hindsight(tasks, 24, 4)
    ways: itertools.product[tuple[int, ...]] = itertools.product([1, 4, 8, 12], repeat=4)
    seconds = {
        counts: sum(t.weight * t.after(n).best_s for t, n in zip(tasks, counts, strict=True))
        for counts in ways
        if sum(counts) <= 24
    }
    assert best.final_s == pytest.approx(min(seconds.values()))
    assert best.final_s == pytest.approx(seconds[best.trials])
    found = compared(tasks, Scheduling(trials_per_round=4), 24, seed)
    assert found["in hindsight"] == best
    assert found["round-robin"].final_s >= best.final_s - 1e-12
    last_round_whole = in_hindsight(tasks, 24 + 3, 4)
    assert found["gradient"].final_s >= last_round_whole.final_s - 1e-12
