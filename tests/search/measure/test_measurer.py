"""Measuring real kernels in real processes, and candidates that do harm."""

import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest

from ansorc.codegen.call.call_times import GAP_S
from ansorc.errors import MeasureError
from ansorc.search.contest import contest
from ansorc.search.measure import (
    Failure,
    FailureKind,
    Measurement,
    MeasureOptions,
    Measurer,
    Outcome,
    ProgramText,
    RunCost,
    RunOptions,
    Workers,
)
from ansorc.search.measure.options import first_call_limits_s
from ansorc.search.measure.worker import SLOW_NOTE
from ansorc.search.record import Records, current_environment
from ansorc.search.task import Task
from tests.search.measure import programs
from tests.search.measure.processes import is_alive, wait_until_dead

RUN = RunOptions(threads=1, min_total_s=0.002)
OPTIONS = MeasureOptions(run=RUN, builders=1, batch=4, build_timeout_s=10.0)


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers(OPTIONS) as made:
        yield made


@pytest.fixture(scope="module")
def measurer(workers: Workers) -> Iterator[Measurer]:
    with Measurer(programs.task(), OPTIONS, workers=workers) as made:
        yield made


def test_a_right_program_is_timed_and_checked(measurer: Measurer) -> None:
    (result,) = measurer.measure([programs.right()])
    found = result
    assert isinstance(found, Measurement), found
    assert found.checked
    assert 1e-8 < found.median_s < 1e-3
    assert len(found.seconds) >= 3
    assert result.build.total_s > 0


def test_steps_are_replayed_lowered_and_timed(measurer: Measurer) -> None:
    split = ["Split", {"stage": "t1", "iterator": "a0", "lengths": [8]}]
    candidates = [ProgramText.of_json([]), ProgramText.of_json([split])]
    for result in measurer.measure(candidates):
        assert isinstance(result, Measurement), result
        assert result.checked


def test_a_worker_is_told_what_an_earlier_one_knew_of_the_quiet_machine() -> None:
    run = replace(RUN, retry_share=0.1, retry_credit_s=0.01)
    options = replace(OPTIONS, run=run)
    with Workers(options) as workers:
        with Measurer(programs.task(), options, workers=workers) as first:
            assert isinstance(next(first.measure([programs.right()])), Measurement)
        when, seconds = workers.probe_times[run.threads]
        assert 0 < time.perf_counter() - when < 60
        workers.probe_times[run.threads] = shorter = when, seconds / 8
        with Measurer(programs.task(), options, workers=workers) as second:
            assert isinstance(next(second.measure([programs.right()])), Measurement)
        assert workers.probe_times[run.threads] == shorter, "it has seen no time as short as that"


def test_outcomes_come_in_order_of_submission(measurer: Measurer) -> None:
    wrong = {2, 6}
    repeats = (5, 1, 3, 2, 6, 4, 8)
    entered = [programs.wrong() if times in wrong else programs.right(times) for times in repeats]
    failed = [isinstance(outcome, Failure) for outcome in measurer.measure(entered)]
    assert failed == [times in wrong for times in repeats]


@pytest.mark.parametrize(
    ("candidate", "kind", "words"),
    [
        (programs.crashing(), FailureKind.CRASH, "SIGSEGV"),
        (programs.greedy(), FailureKind.OUT_OF_MEMORY, "memory|allocate"),
        (programs.wrong(), FailureKind.WRONG_RESULT, "candidate rejected: element"),
        (programs.incomplete(), FailureKind.WRONG_RESULT, "1023.* is nan"),
        (programs.overwriting(), FailureKind.CRASH, "SIGSEGV"),
        (ProgramText.of_function("def nonsense"), FailureKind.LOWERING, "ParseError"),
        (
            ProgramText.of_json([["Split", {"stage": "X", "iterator": "i", "lengths": [8]}]]),
            FailureKind.REFUSED,
            "X",
        ),
    ],
    ids=["crash", "greedy", "wrong", "incomplete", "overwriting", "nonsense", "refused"],
)
def test_each_fault_is_one_failure_and_measuring_goes_on(
    measurer: Measurer, candidate: ProgramText, kind: FailureKind, words: str
) -> None:
    before = measurer.best_s
    results = list(measurer.measure([programs.right(), candidate, programs.right(2)]))
    assert [isinstance(result, Measurement) for result in results] == [True, False, True]
    failure = results[1]
    assert isinstance(failure, Failure)
    assert failure.kind is kind, failure
    assert re.search(words, failure.message)
    assert len(failure.message) <= 500
    assert measurer.best_s <= (before or 1.0)


def test_a_program_that_never_ends_is_a_timeout(measurer: Measurer) -> None:
    list(measurer.measure([programs.right()]))
    begin = time.monotonic()
    (result,) = measurer.measure([programs.endless()])
    assert isinstance(result, Failure)
    assert result.kind is FailureKind.RUN_TIMEOUT
    assert time.monotonic() - begin < 50.0, "not the most that a program may take"


def test_a_build_that_never_ends_is_a_timeout_or_out_of_memory() -> None:
    options = replace(OPTIONS, build_timeout_s=2.0, memory_bytes=1 << 30)
    with Measurer(programs.task(), options) as measurer:
        results = list(measurer.measure([programs.exploding(), programs.right()]))
    assert isinstance(results[0], Failure)
    kinds = FailureKind.BUILD_TIMEOUT, FailureKind.OUT_OF_MEMORY, FailureKind.COMPILE
    assert results[0].kind in kinds
    assert isinstance(results[1], Measurement)


def test_equal_code_is_not_run_twice(measurer: Measurer) -> None:
    first, second = measurer.measure([programs.right(9), programs.right(9)])
    assert first.run.total_s > 0
    assert second.run == RunCost(), "that outcome is repeated"
    assert first == second


def test_every_program_is_checked_however_slow_it_is(workers: Workers) -> None:
    with Measurer(programs.task(), OPTIONS, best_s=1e-9, workers=workers) as measurer:
        right, wrong = measurer.measure([programs.right(), programs.wrong()])
    assert isinstance(right, Measurement)
    assert right.stopped_early
    assert right.checked
    assert isinstance(wrong, Failure)
    assert wrong.kind is FailureKind.WRONG_RESULT


def test_what_a_trial_costs_is_told_by_phase(measurer: Measurer) -> None:
    (result,) = measurer.measure([programs.right(11)])
    assert min(astuple(result.build)) > 0
    assert min(astuple(result.run)) > 0
    assert isinstance(result, Measurement)
    assert result.run.repeats_s >= sum(result.seconds)
    assert result.run.total_s < 1.0


def test_cold_caches_make_a_kernel_of_loads_slower(workers: Workers) -> None:
    medians: dict[str, tuple[float, float]] = {}
    candidate = programs.summing()
    for cache in ("warm", "cold"):
        options = replace(OPTIONS, run=replace(RUN, cache=cache))
        with Measurer(programs.long_task(), options, workers=workers) as measurer:
            (result,) = measurer.measure([candidate])
            (ranked,) = measurer.rank([candidate])
        assert isinstance(result, Measurement), result
        assert isinstance(ranked, Measurement)
        medians[cache] = (result.median_s, ranked.median_s)
    for cold, warm in zip(medians["cold"], medians["warm"], strict=True):
        assert cold > 1.3 * warm, "measured, and ranked"


def test_with_cold_weights_constants_alone_are_read_from_memory(workers: Workers) -> None:
    medians: dict[bool, tuple[float, float]] = {}
    options = replace(OPTIONS, run=replace(RUN, cache="cold-weights"))
    for constant in (False, True):
        with Measurer(programs.long_task(constant=constant), options, workers=workers) as measurer:
            (result,) = measurer.measure([programs.summing()])
            (ranked,) = measurer.rank([programs.summing()])
        assert isinstance(result, Measurement), result
        assert isinstance(ranked, Measurement)
        medians[constant] = (result.median_s, ranked.median_s)
    for weights, activations in zip(medians[True], medians[False], strict=True):
        assert weights > 1.3 * activations, "measured, and ranked"


def test_other_work_comes_between_calls_of_a_user(workers: Workers) -> None:
    """1 MB of it leaves no data in a first cache, so loads take longer than back to back."""
    options = replace(OPTIONS, run=replace(RUN, cache="other-work", max_repeats=50))
    begin = time.monotonic()
    with Measurer(programs.long_task(), options, workers=workers) as measurer:
        (result,) = measurer.measure([programs.summing()])
        (ranked,) = measurer.rank([programs.summing()])
    assert isinstance(result, Measurement), result
    assert isinstance(ranked, Measurement)
    calls = len(result.seconds) + len(ranked.seconds)
    assert calls > 10
    assert time.monotonic() - begin > calls * GAP_S


def test_a_program_is_timed_on_several_numbers_of_threads(workers: Workers) -> None:
    rows = programs.parallel_rows()
    with Measurer(
        programs.task(), replace(OPTIONS, run=replace(RUN, threads=0)), workers=workers
    ) as measurer:
        found = measurer.time_threads(rows, (0, 2, 1))
        assert len(found) == 3
        assert all(0 < seconds < 0.1 for seconds in found)
        assert measurer.time_threads(programs.right(), (0, 1)) == [], "it has no parallel loop"
        assert measurer.time_threads(programs.wrong(), (0, 1)) == []


def test_something_else_is_done_while_the_last_are_built_and_before_they_run(
    measurer: Measurer,
) -> None:
    events: list[str] = []

    def other() -> None:
        time.sleep(0.2)
        events.append("other")

    for number, _ in enumerate(measurer.measure([programs.right(n) for n in range(20, 26)], other)):
        events.append(str(number))
    assert events == ["0", "1", "2", "other", "3", "4", "5"], "two equal batches"


def test_what_fails_meanwhile_ends_the_measuring(measurer: Measurer) -> None:
    def fail() -> None:
        raise ValueError("no idea")

    with pytest.raises(ValueError, match="no idea"):
        list(measurer.measure([programs.right(27)], fail))
    (result,) = measurer.measure([programs.right(27)])
    assert isinstance(result, Measurement), result


def test_far_slower_than_the_best_is_given_up_after_one_repeat(workers: Workers) -> None:
    with Measurer(programs.task(), OPTIONS, best_s=1e-9, workers=workers) as measurer:
        (result,) = measurer.measure([programs.right()])
    assert isinstance(result, Measurement)
    assert result.stopped_early
    assert len(result.seconds) == 1


def test_the_same_failure_again_and_again_ends_the_run_with_its_text(workers: Workers) -> None:
    options = replace(OPTIONS, identical_failures=6)
    seen: list[Outcome] = []
    with (
        Measurer(programs.task(), options, workers=workers) as measurer,
        pytest.raises(MeasureError, match=r"6 candidates in a row failed alike(.|\n)*Parse"),
    ):
        seen.extend(measurer.measure([ProgramText.of_function("nonsense")] * 50))
    assert len(seen) == 6


def test_programs_are_ranked_by_times_taken_in_turns(measurer: Measurer) -> None:
    slow, fast, broken = programs.right(40), programs.right(), ProgramText.of_function("nonsense")
    ranked = measurer.rank([slow, broken, fast])
    assert [type(outcome) for outcome in ranked] == [Measurement, Failure, Measurement]
    assert isinstance(ranked[0], Measurement)
    assert isinstance(ranked[2], Measurement)
    assert ranked[2].median_s < ranked[0].median_s
    assert ranked[2].checked
    assert len(ranked[2].seconds) == RUN.rank_rounds


def test_programs_that_were_measured_are_not_built_again_to_be_ranked() -> None:
    candidates = [programs.right(1), programs.right(2)]
    with Measurer(programs.task(), OPTIONS) as measurer:
        builders, runner = measurer.worker_pids()[1:], measurer.worker_pids()[0]
        list(measurer.measure(candidates))
        for pid in builders:
            os.kill(pid, signal.SIGKILL)
        assert all(isinstance(outcome, Measurement) for outcome in measurer.rank(candidates))
        assert measurer.worker_pids() == [runner, *builders], "no builder was needed"


def test_a_wrong_program_loses_alone(measurer: Measurer) -> None:
    ranked = measurer.rank([programs.wrong(), programs.right(5), programs.right()])
    assert [type(outcome) for outcome in ranked] == [Failure, Measurement, Measurement]
    assert isinstance(ranked[0], Failure)
    assert ranked[0].kind is FailureKind.WRONG_RESULT


def test_a_program_that_kills_the_worker_is_found_out(measurer: Measurer) -> None:
    entered = [programs.right(), programs.crashing(), programs.right(5)]
    before, harmful, after = measurer.rank(entered)
    assert before is after is None, "they did not fail, and have no time"
    assert isinstance(harmful, Failure)
    assert harmful.kind is FailureKind.CRASH
    found = contest(measurer, entered, [1.0] * len(entered))
    assert list(found.ranked) == [programs.right(), programs.right(5)]
    assert list(found.failed) == [programs.crashing()]


def test_a_run_worker_that_is_killed_between_two_programs_is_replaced(measurer: Measurer) -> None:
    results = measurer.measure([programs.right(41), programs.right(42), programs.wrong()])
    assert isinstance(next(results), Measurement)
    os.kill(measurer.worker_pids()[0], signal.SIGKILL)
    second, third = results
    assert isinstance(second, Measurement), second
    assert second.checked
    assert isinstance(third, Failure)
    assert third.kind is FailureKind.WRONG_RESULT


def test_a_machine_that_cannot_run_the_target_is_an_error_at_once() -> None:
    dag = programs.task().dag
    foreign = Task(dag, "aarch64-linux-gnu -mcpu=cortex-a53", "foreign")
    with (
        Measurer(foreign, OPTIONS) as measurer,
        pytest.raises(MeasureError, match="a kernel of one line cannot be run on this machine"),
    ):
        list(measurer.measure([programs.right()]))


def test_close_ends_all_workers_and_removes_the_data() -> None:
    measurer = Measurer(programs.task(), OPTIONS)
    list(measurer.measure([programs.right()]))
    pids = measurer.worker_pids()
    directory = measurer.data_directory
    assert all(is_alive(pid) for pid in pids)
    assert directory.exists()
    measurer.close()
    measurer.close()
    assert not any(is_alive(pid) for pid in pids)
    assert not directory.exists()
    with pytest.raises(MeasureError, match="closed"):
        list(measurer.measure([programs.right()]))


TUNER = """
import itertools, sys
sys.path.insert(0, sys.argv[1])
from tests.search.measure import programs
from tests.search.measure.test_measurer import OPTIONS
from ansorc.search.measure import Measurer
from ansorc.search.record import Record, Records, current_environment
task, here = programs.task(), current_environment(1)
with Records.open(sys.argv[2]) as records, Measurer(task, OPTIONS) as measurer:
    records.add_task(task)
    done = records.measured(task.key, here)
    print("pids", *measurer.worker_pids(), flush=True)
    new = (c for c in map(programs.right, itertools.count(1)) if c.key not in done)
    while batch := list(itertools.islice(new, 4)):
        for program, outcome in zip(batch, measurer.measure(batch), strict=True):
            records.add(Record.of(task.key, program, outcome, here))
            print("done", program.key, *measurer.worker_pids(), flush=True)
"""


@pytest.mark.parametrize(
    "how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.nightly)]
)
def test_a_killed_tuner_leaves_no_process_and_a_readable_file(
    tmp_path: Path, how: signal.Signals
) -> None:
    rng = np.random.default_rng(int(how))
    path = tmp_path / "a.db"
    command = [sys.executable, "-c", TUNER, str(Path(__file__).parents[3]), str(path)]
    known: set[str] = set()
    for _ in range(2):
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as tuner:
            assert tuner.stdout is not None
            lines = [tuner.stdout.readline().split() for _ in range(int(rng.integers(3, 7)))]
            time.sleep(float(rng.uniform(0.0, 0.05)))
            tuner.send_signal(how)
            lines += [line.split() for line in tuner.stdout if line.endswith("\n")]
        pids = [int(word) for words in lines for word in words if word.isdigit()]
        assert wait_until_dead(pids, 2.0) == []
        done = {words[1] for words in lines if words[0] == "done"}
        assert not done & known, "measured again what was in the file"
        with Records.open(path) as records:
            measured = records.measured(programs.task().key, current_environment(1))
        assert measured >= done | known
        known = measured
    assert len(known) >= 4


def test_a_first_call_far_slower_than_the_best_is_the_only_one(workers: Workers) -> None:
    options = replace(OPTIONS, run=replace(RUN, first_least_s=0.0))
    with Measurer(programs.task(), options, best_s=1e-6, workers=workers) as measurer:
        (slow,) = measurer.measure([programs.right(20_000)])
    assert isinstance(slow, Measurement)
    assert slow.stopped_early
    assert slow.checked
    assert slow.seconds == (slow.run.warm_up_s,), "it was called once"
    assert slow.note == SLOW_NOTE


def test_calls_far_slower_than_the_best_are_killed_and_are_no_fault(workers: Workers) -> None:
    run = replace(RUN, killed_least_s=0.05)
    options = replace(OPTIONS, run=run, identical_failures=2)
    losers = [programs.right(count) for count in (9_000_000, 9_100_000, 9_200_000)]
    begin = time.monotonic()
    with Measurer(programs.task(), options, best_s=1e-6, workers=workers) as measurer:
        *killed, good = measurer.measure([*losers, programs.right()])
    assert time.monotonic() - begin < 8.0, "one of them takes some seconds"
    for result in killed:
        assert isinstance(result, Failure)
        assert result.kind is FailureKind.RUN_TIMEOUT
        assert re.match(r"slower than 0\.05\d* s: killed in its first call", result.message)
    assert isinstance(good, Measurement)


def test_a_short_first_call_is_not_the_only_one(workers: Workers) -> None:
    """It may have waited for a core: a slow program that is called again costs little."""
    options = replace(OPTIONS, run=replace(RUN, first_least_s=60.0))
    with Measurer(programs.task(), options, best_s=1e-6, workers=workers) as measurer:
        (slow,) = measurer.measure([programs.right(20_000)])
    assert isinstance(slow, Measurement)
    assert slow.stopped_early
    assert slow.run.warm_up_s not in slow.seconds, "it was called again"


def test_nothing_is_killed_before_a_best_is_known() -> None:
    assert first_call_limits_s(RUN, 0.0, 1 << 30) == (math.inf, math.inf)
    slow_s, killed_s = first_call_limits_s(RUN, 1.0, 1 << 30)
    assert 8.0 < slow_s < killed_s < 23.0
    slow_s, killed_s = first_call_limits_s(RUN, 1e-5, 1 << 10)
    assert 0.05 < slow_s < 0.06, "a busy machine delays calls by some ms"
    assert 0.25 < killed_s < 0.26
