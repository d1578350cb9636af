"""A pass that fails is named, with its program and the one before, as a fault of ansorc's own."""

from __future__ import annotations

from pathlib import Path

import pytest

import ansorc as ac
from ansorc.cli.main import main
from ansorc.errors import AnsorcError, InternalError, IRError
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph
from ansorc.graph.passes.pipeline import optimize_graph
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.dtype import FLOAT32
from ansorc.ir.dump import VARIABLE, dump_folder
from ansorc.ir.stmt import Function
from ansorc.search.measure.messages import Message
from ansorc.search.measure.worker import Builder
from ansorc.search.task import Task
from ansorc.target import Target
from tests.support.faulty_passes import doubled, makes_illegal, plant, stumbles


@pytest.mark.parametrize("verifies", ["0", "1"])
def test_a_pass_that_makes_an_illegal_program(
    verifies: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSORC_VERIFY_EACH", verifies)
    plant(monkeypatch, makes_illegal)
    with pytest.raises(InternalError) as error:
        ac.build(doubled(), name="k")
    words = str(error.value)
    assert words.startswith("the pass faulty made an illegal program: kernel 'not a name' is not ")
    assert "is no C name" in words
    assert "a fault of ansorc, not of yours: please report it with ansorc 0." in words
    assert "the target 'x86" in words or "the target 'aarch64" in words
    assert "ANSORC_DUMP=DIR writes all of them" in words
    assert "before:\nkernel k(A: float32[6], B: float32[6]):\n" in words
    assert "\n-kernel k(A: float32[6], B: float32[6]):\n+kernel not a name(A" in words


def test_what_a_later_pass_mends_is_found_by_verifying_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANSORC_VERIFY_EACH", "1")
    kept: list[Function] = []

    def breaks(function: Function, target: Target) -> Function:
        kept.append(function)
        return makes_illegal(function, target)

    plant(monkeypatch, lambda _, __: kept.pop())
    plant(monkeypatch, breaks)
    with pytest.raises(InternalError, match="made an illegal program"):
        ac.build(doubled())
    monkeypatch.setenv("ANSORC_VERIFY_EACH", "0")
    ac.build(doubled())


def test_a_pass_that_stumbles(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, stumbles)
    with pytest.raises(
        InternalError, match="the pass faulty failed on 'k': KeyError: 'k'; this is"
    ):
        ac.build(doubled(), name="k")


def test_long_programs_are_shown_in_short(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = [ac.placeholder((4,), name="T0")]
    for number in range(1, 40):
        before = tensors[-1]
        tensors.append(ac.compute((4,), lambda i, t=before: t[3 - i] + 1.0, name=f"T{number}"))
    dag = ac.ComputeDAG([tensors[0], tensors[-1]])
    plant(monkeypatch, stumbles)
    with pytest.raises(InternalError) as error:
        ac.build(ac.schedule(dag))
    assert "more lines" in str(error.value)
    assert len(str(error.value).splitlines()) < 40


def test_the_dump_has_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    plant(monkeypatch, makes_illegal)
    with pytest.raises(InternalError, match=r"and the files in .*/k$"):
        ac.build(doubled(), name="k")
    (failed,) = (tmp_path / "k").glob("*_FAILED.ir")
    assert failed.read_text().startswith("# the pass faulty made an illegal program: ")
    assert "kernel not a name(" in failed.read_text()
    assert " i in 0..6:" in (tmp_path / "k" / "03_lowered.ir").read_text()


def test_the_command_line_says_that_it_is_our_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, makes_illegal)
    (tmp_path / "ops.py").write_text(
        "import ansorc as ac\n@ac.workload\ndef f(n: int = 4):\n    A = ac.placeholder((n,))\n"
        "    return [A, ac.compute((n,), lambda i: A[i] * 3.0)]\n"
    )
    with pytest.raises(SystemExit) as ended:
        main(["build", str(tmp_path / "ops.py"), "--default", "-o", str(tmp_path / "f.so")])
    assert ended.value.code == 70
    words = capsys.readouterr().err
    assert words.startswith("internal error: the pass faulty made an illegal program")
    assert "please report it with ansorc" in words
    assert "Traceback" not in words


def test_a_failed_trial_names_the_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, makes_illegal)
    (tmp_path / "task.json").write_text(Task(doubled(), "native", "k").to_json())
    job = Message({"directory": str(tmp_path), "steps": "[]", "function": ""})
    fields = Builder().handle(job).fields
    assert fields["failure"] == "lowering"
    message = str(fields["message"])
    assert message.startswith("InternalError: the pass faulty made an illegal program")
    assert "before:" not in message
    assert "before:" in str(fields["detail"])


def test_a_graph_pass_that_fails_has_its_graph_in_the_dump(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    builder = GraphBuilder("small")
    graph = builder.graph([builder.add("exp", [builder.input("x", TensorType(FLOAT32, (4,)))])])

    def stumble(graph: Graph) -> Graph:
        raise TypeError(graph.name)

    with pytest.raises(
        InternalError, match=r"the pass stumble failed: TypeError: small; .* files in"
    ):
        optimize_graph(graph, [("stumble", stumble)], dump=dump_folder("small"))


def test_what_is_written_by_hand_is_no_fault_of_ours() -> None:
    assert issubclass(IRError, AnsorcError)
    assert not issubclass(IRError, InternalError)
