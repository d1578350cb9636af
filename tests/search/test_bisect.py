"""The first pass that makes a program wrong is named, with the elements; so is wrong code."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import ansorc as ac
from ansorc.ir.stmt import Function, Seq
from ansorc.schedule import packings
from ansorc.search.bisect import PassStage, bisect_passes, interpreter_seconds
from ansorc.search.measure import Failure, FailureKind, Measurer, Outcome, ProgramText
from ansorc.search.programs import default_program
from ansorc.search.task import Task
from ansorc.target import Target
from tests.support.command_line import CommandLine
from tests.support.faulty_passes import changes_constants, doubled, plant

OPS = """
import ansorc as ac

@ac.workload
def scaled(n: int = 6):
    a = ac.placeholder((n,), name="A")
    return [a, ac.compute((n,), lambda i: a[i] * 3.0 + 1.5, name="B")]

@ac.workload
def product(n: int = 16):
    a, b = ac.placeholder((n, n), name="A"), ac.placeholder((n, n), name="B", constant=True)
    c = ac.ops.matmul(a, b, name="C")
    return [a, b, ac.compute((n, n), lambda i, j: ac.maximum(c[i, j], 0.0) * 2.0, name="D")]
"""


@pytest.fixture
def ops(cli: CommandLine) -> CommandLine:
    (cli.directory / "ops.py").write_text(OPS)
    return cli


def test_the_faulty_pass_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, changes_constants)
    dag = doubled()
    ran: list[str] = []

    def tell(stage: PassStage, complaint: str) -> None:
        ran.append(f"{stage.name}: {'wrong' if complaint else 'right'}")

    finding = bisect_passes(Task(dag, "native", "k"), ac.lower(ac.schedule(dag)), (), tell)
    assert finding.wrong is not None
    assert finding.stages[finding.wrong].name == "faulty"
    first, *elements = finding.complaint.splitlines()
    assert first == "6 of 6 elements of B differ from the float64 reference:"
    assert elements[0].startswith("  B[0] is ")
    assert elements[-1] == "  and 1 more"
    assert ran[-1] != "faulty: right"
    assert "faulty: wrong" in ran
    assert "lowering: right" in ran


@pytest.mark.parametrize("target", ["native", "cuda -arch=sm_80"])
def test_right_programs_have_no_faulty_pass(target: str) -> None:
    a = ac.placeholder((16, 16), name="A")
    dag = ac.ComputeDAG([a, ac.ops.softmax(a)])
    task = Task(dag, target, "softmax")
    state = ac.replay(dag, default_program(task).steps)
    finding = bisect_passes(task, ac.lower(state), packings(state))
    assert finding.wrong is None
    assert len(finding.stages) > 1


def test_a_program_that_reads_what_nobody_wrote_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def empties(function: Function, target: Target) -> Function:
        return Function(function.name, function.params, Seq(()))

    plant(monkeypatch, empties)
    dag = doubled()
    finding = bisect_passes(Task(dag, "native", "k"), ac.lower(ac.schedule(dag)))
    assert finding.wrong is not None
    assert finding.stages[finding.wrong].name == "faulty"


def test_the_time_of_the_interpreter_follows_the_loops() -> None:
    small, large = (ac.lower(ac.schedule(doubled(extent))) for extent in (6, 600))
    assert interpreter_seconds(large) == pytest.approx(100 * interpreter_seconds(small))


def test_the_command_names_the_pass(ops: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, changes_constants)
    ended = ops.run("show", "ops.py:scaled", "--default", "--bisect")
    assert ended.code == 1
    assert "after lowering: right\n" in ended.out
    assert (
        "\nthe pass faulty is the first whose result differs:\n6 of 6 elements of B " in ended.out
    )
    assert "A[i] * 6.0 + 3.0" in ended.out.partition("what it changed:\n")[2]


def test_the_command_says_that_all_is_right(ops: CommandLine) -> None:
    ended = ops.run("show", "ops.py:product", "--default", "--bisect")
    assert ended.code == 0, ended
    assert "\nthe loops are right after the last of " in ended.out
    assert ended.out.endswith("and so is the code that is generated from them\n")
    ended = ops.run(
        "show", "ops.py:product", "--default", "--bisect", "--target", "cuda -arch=sm_80"
    )
    assert ended.code == 0, ended
    assert ended.out.endswith(
        "the code cannot be run on this machine, which has no NVIDIA driver\n"
    )


def test_wrong_code_of_right_loops_is_found(
    ops: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:

    def wrong(_: Measurer, candidates: Sequence[ProgramText]) -> list[Outcome]:
        failure = Failure.of(FailureKind.WRONG_RESULT, "candidate rejected: element [0] is 1")
        return [failure] * len(candidates)

    monkeypatch.setattr(Measurer, "measure", wrong)
    ended = ops.run("show", "ops.py:product", "--default", "--bisect")
    assert ended.code == 1
    assert (
        "the code that is generated from them is wrong (wrong result): candidate rejected"
        in ended.out
    )
