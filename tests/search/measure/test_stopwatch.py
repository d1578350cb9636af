"""Where the time went, on a clock that the test drives."""

import threading

import pytest

from ansorc.search.measure import BuildCost, RunCost, Stopwatch
from ansorc.search.measure.measurer import concurrently, nothing
from ansorc.search.tune_result import TimeSpent


class Clock:
    def __init__(self) -> None:
        self.now = 5.0

    def __call__(self) -> float:
        return self.now


def test_an_inner_phase_stops_the_outer_one() -> None:
    clock = Clock()
    watch = Stopwatch(clock)
    clock.now += 100.0
    with watch.phase("contest"):
        clock.now += 1.0
        with watch.phase("run"):
            clock.now += 2.0
        clock.now += 4.0
        with watch.phase("run"), watch.phase("run"):
            clock.now += 8.0
    clock.now += 100.0
    assert (watch.seconds("contest"), watch.seconds("run")) == (5.0, 10.0)
    assert watch.seconds("search") == 0.0


def test_a_phase_ends_with_its_exception() -> None:
    clock = Clock()
    watch = Stopwatch(clock)

    def interrupted() -> None:
        with watch.phase("run"):
            clock.now += 2.0
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    clock.now += 7.0
    assert watch.seconds("run") == 2.0


def test_the_parts_of_a_run_add_up() -> None:
    clock = Clock()
    watch = Stopwatch(clock)
    for name, seconds in (("start", 1.0), ("search", 2.0), ("build", 4.0), ("run", 8.0)):
        with watch.phase(name):
            clock.now += seconds
    builds = BuildCost.sum([BuildCost(1.0, 2.0, 3.0, 4.0), BuildCost(), BuildCost(llvm_s=1.0)])
    runs = RunCost.sum([RunCost(0.5, 0.25, 0.125, 1.0)] * 2)
    spent = TimeSpent.of(watch, 20.0, builds, runs)
    assert (spent.start_s, spent.search_s, spent.build_s, spent.run_s) == (1.0, 2.0, 4.0, 8.0)
    assert (spent.contest_s, spent.rest_s) == (0.0, 5.0)
    assert (spent.builds, spent.runs) == (BuildCost(1.0, 2.0, 3.0, 5.0), RunCost(1.0, 0.5, 0.25, 2))
    assert builds.total_s == 11.0
    assert BuildCost.sum([]) == BuildCost()
    assert RunCost.sum([]) == RunCost()


def test_work_beside_is_done_in_another_thread_before_the_end() -> None:
    threads: list[int] = []
    begun = threading.Event()

    def work() -> None:
        begun.wait(5.0)
        threads.append(threading.get_ident())

    with concurrently(work):
        begun.set()
    (found,) = threads
    assert found != threading.get_ident()
    with concurrently(nothing):
        pass


def test_what_work_beside_raises_is_raised_at_the_end() -> None:
    def work() -> None:
        raise ValueError("no more programs")

    with pytest.raises(ValueError, match="no more programs"), concurrently(work):
        pass
