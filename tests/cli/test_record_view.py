"""`ansorc show --record`: any program of a record file, failed ones too, shown and rebuilt."""

from __future__ import annotations

import pytest

from ansorc.schedule import Names, Step
from ansorc.schedule.steps import Parallelize, Split, Vectorize
from ansorc.search.measure import Failure, FailureKind, Measurement, ProgramText
from ansorc.search.record import Record, Records, current_environment
from ansorc.search.task import Task
from tests.search.small_tasks import CRASHING, WRONG, product
from tests.support.command_line import CommandLine


def source_of(*steps: Step) -> ProgramText:
    return ProgramText.encode(steps, Names(product().dag))


FAST = source_of(Split("C", "j", (16,)), Vectorize("C", "j.1"))
REFUSED = source_of(Parallelize("C", "k"))
OUTCOMES = {
    FAST: Measurement((1e-5, 1.1e-5), checked=True),
    REFUSED: Failure.of(FailureKind.REFUSED, "'k' is a reduction"),
    WRONG: Failure.of(FailureKind.WRONG_RESULT, "candidate rejected: element [0, 0] is 0.0"),
    CRASHING: Failure.of(FailureKind.CRASH, "the process died by SIGSEGV"),
}


@pytest.fixture
def task(cli: CommandLine) -> Task:
    """The task whose records are in tune.db."""
    found = product()
    with Records.open("tune.db") as records:
        records.add_task(found)
        for source, outcome in OUTCOMES.items():
            records.add(Record.of(found.key, source, outcome, current_environment(1)))
    return found


def test_a_program_is_shown_and_rebuilt(cli: CommandLine, task: Task) -> None:
    ended = cli.run("show", "--record", FAST.key[:8])
    assert ended.code == 0, ended
    first, second, third, *_ = ended.out.splitlines()
    assert first == f"# record {FAST.key} of product, for {task.target.text}"
    assert second.startswith("measured 20")
    assert ", 1 threads, warm caches, seed 0, with ansorc 0." in second
    assert third == "time: 10.5 µs, spread 500 ns, checked"
    assert "\n# the steps\nSplit(stage='C', iterator='j', lengths=(16,))\n" in ended.out
    assert "vectorized j.1 in 0..16" in ended.out
    assert "kernel product(A: float32[32, 32]" in ended.out
    assert "it is right (error 0" in ended.out


def test_a_refused_program_says_why(cli: CommandLine, task: Task) -> None:
    ended = cli.run("show", "--record", REFUSED.key)
    assert ended.code == 0, ended
    assert "\nfailed (refused): 'k' is a reduction\n" in ended.out
    assert "\nParallelize(stage='C', iterator='k')\n" in ended.out
    assert (
        "cannot be made: Parallelize(stage='C', iterator='k') does not fit this prog" in ended.out
    )
    assert "<-- here" in ended.out
    assert "it fails (refused): ScheduleError: 'k' is a reduction" in ended.out


@pytest.mark.parametrize(
    ("source", "kind"), [(WRONG, "wrong result"), (CRASHING, "crash")], ids=["wrong", "crash"]
)
def test_a_program_that_does_harm_is_run_in_a_process_of_its_own(
    source: ProgramText, kind: str, cli: CommandLine, task: Task
) -> None:
    ended = cli.run("show", "--record", source.key)
    assert ended.code == 0, ended
    assert f"\nfailed ({kind}): " in ended.out
    assert "\n# the loops, as they were given\nkernel product(A: float32[32, 32], " in ended.out
    assert f"it fails ({kind}): " in ended.out


def test_views_of_a_record_are_printed_without_rebuilding(cli: CommandLine, task: Task) -> None:
    ended = cli.run("show", "--record", FAST.key, "--view", "passes", "--asm")
    assert "# after vectorize_loops\n" in ended.out
    assert "\tret" in ended.out
    assert "rebuilt" not in ended.out
    ended = cli.run("show", "--record", WRONG.key, "--view", "llvm")
    assert "define i32 @product(" in ended.out


def test_a_record_can_be_bisected(cli: CommandLine, task: Task) -> None:
    ended = cli.run("show", "--record", FAST.key, "--bisect")
    assert ended.code == 0, ended
    assert ended.out.endswith("and so is the code that is generated from them\n")
    ended = cli.run("show", "--record", CRASHING.key, "--bisect")
    assert ended.code == 1
    assert "\nthe loops are wrong before all passes, so the schedule or lowering is:\n" in ended.out
    assert "outside dimension 0 of C" in ended.out
    ended = cli.run("show", "--record", WRONG.key, "--view", "schedule")
    assert "loops, which have no schedule" in ended.out


def test_the_task_may_be_named(cli: CommandLine, task: Task) -> None:
    key = f"{task.key[:6]}/{FAST.key[:6]}"
    assert cli.run("show", "--record", key, "--view", "dag").code == 0
    error = cli.run("show", "ops.py:single", "--record", FAST.key).refused()
    assert "tune.db has no record of 'single' whose program begins with '" in error


def test_what_is_not_one_record_is_refused(cli: CommandLine, task: Task) -> None:
    other = Task(task.dag, "native -cores=1", "one")
    with Records.open("tune.db") as records:
        records.add_task(other)
        records.add(Record.of(other.key, FAST, OUTCOMES[FAST], current_environment(1)))
    error = cli.run("show", "--record", FAST.key).refused()
    assert f"2 programs begin with '{FAST.key}'; choose one of " in error
    assert "tune.db has no record whose program begins with 'zz'; see: ansorc records list" in (
        cli.run("show", "--record", "zz").refused()
    )
    assert "there is no record file none.db" in (
        cli.run("show", "--record", "a", "--records", "none.db").refused()
    )
    assert "name a workload" in cli.run("show").refused(2)


def test_records_of_several_machines(cli: CommandLine, task: Task) -> None:
    """The latest one counts."""
    with Records.open("tune.db") as records:
        outcome = Measurement((2e-3,), checked=True)
        records.add(Record.of(task.key, FAST, outcome, current_environment(2)))
    ended = cli.run("show", "--record", FAST.key, "--view", "ir")
    assert "time: 2 ms, spread 0 s, checked" in ended.out
