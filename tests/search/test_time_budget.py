"""The time of a run is kept: batches that would last too long are not begun."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorc.search import machines
from ansorc.search.measure import Measurement, Measurer, Outcome, ProgramText, nothing
from ansorc.search.time_budget import TimeBudget
from ansorc.search.tune import tune_task
from tests.search.small_tasks import options, product
from tests.support.nightly import examples


class FakeClock:
    """A clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@examples(12, nightly=500)
@given(
    seconds=st.floats(0.0, 100.0),
    cost_s=st.floats(0.01, 20.0),
    at_once=st.integers(1, 8),
    best_s=st.floats(0.0, 0.1),
)
def test_programs_that_cost_alike_never_take_longer_than_the_time_that_is_left(
    seconds: float, cost_s: float, at_once: int, best_s: float
) -> None:
    clock = FakeClock()
    budget = TimeBudget(seconds, clock)
    measured = 0
    while count := budget.affordable(1000, at_once, best_s):
        clock.now += count * cost_s
        measured += count
        budget.note(count, count * cost_s)
    first_s = at_once * cost_s
    assert clock.now <= max(seconds, first_s) + 1e-6
    assert budget.is_late
    closing_s = min(65 * best_s, seconds / 4)
    assert clock.now + cost_s > seconds - closing_s - 1e-6, "no time is left unused"
    assert measured >= (at_once if seconds > closing_s else 0)


def test_without_a_budget_all_is_measured_at_once() -> None:
    budget = TimeBudget(None, FakeClock())
    assert budget.affordable(1000, 2, 1.0) == 1000
    budget.note(1000, 1e9)
    assert not budget.is_late
    assert budget.has_time_for(1e9)


def test_batches_grow_as_their_cost_becomes_known() -> None:
    budget = TimeBudget(1000.0, FakeClock())
    sizes: list[int] = []
    for _ in range(5):
        sizes.append(budget.affordable(50, 2, 0.0))
        budget.note(sizes[-1], 0.1 * sizes[-1])
    assert sizes == [2, 4, 12, 36, 50]


def test_a_run_of_slow_builds_ends_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    each_s, budget_s = 0.4, 3.0
    built = list[int]()

    class Slow(Measurer):
        """Takes long to build each program, all of a batch before the first runs."""

        def measure(
            self, candidates: Sequence[ProgramText], meanwhile: Callable[[], None] = nothing
        ) -> Iterator[Outcome]:
            time.sleep(each_s * len(candidates))
            built.append(len(candidates))
            for number in range(len(candidates)):
                yield Measurement((1e-6 + number * 1e-9,), checked=True)

    monkeypatch.setattr(machines, "Measurer", Slow)
    result = tune_task(product(), replace(options(tmp_path, 1000), time_budget=budget_s))
    assert sum(built) * each_s <= budget_s + 0.1, f"{built}: a first round of 16 takes 6.4 s"
    assert result.measured_now == sum(built)
