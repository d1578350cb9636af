"""`ansorc bench`: a user's operators and networks in real processes, and what is said of gaps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.compare.program import Unsupported
from ansorc.compare.side import Gap, PeerInfo, Side
from ansorc.compare.turns import Turns, take_turns
from ansorc.compare.workload_request import WorkloadRequest
from ansorc.compare.workload_run import (
    PEERS,
    ComparedWorkload,
    SideTimes,
    WorkloadTimes,
    as_json,
    compare_workload,
    relative_speeds,
)
from ansorc.compare.workload_sides import SIDES
from ansorc.graph.network import Network
from ansorc.lang.workload import load_workload
from ansorc.report.charts import relative_bars
from ansorc.report.page import picture
from ansorc.search.programs import ProgramChoice
from ansorc.search.task import Task
from tests.cli.small_onnx import write_model

FILE = """
import ansorc as ac

@ac.workload
def product(n: int = 24):
    A = ac.placeholder((n, 16), name="A")
    B = ac.placeholder((16, 8), name="B", constant=True)
    return [A, B, ac.ops.relu(ac.ops.matmul(A, B))]

@ac.workload
def doubled(n: int = 24):
    A = ac.placeholder((n,), name="A")
    return [A, ac.ops.add(A, A)]

def doubled_numpy(A):
    return 2.125 * A
"""
NUMPY = PEERS[0]
FEW = Turns(2, 1, 0.002, patience_s=60.0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ops.py"
    path.write_text(FILE)
    return path


def compared(file: Path, name: str, peer: PeerInfo, records: Path | None = None) -> WorkloadTimes:
    task = Task(load_workload(file, name), "native", name)
    choice = ProgramChoice(records or Path("tune.db"), 1, use_default=records is None)
    workload = ComparedWorkload(file, task, name, choice=choice)
    return compare_workload(workload, [peer], FEW, lambda _: None)


def test_sides_are_checked_and_timed_in_every_way(file: Path) -> None:
    found = compared(file, "product", NUMPY)
    assert [side.gap for side in found.sides.values()] == ["", ""]
    for side in found.sides.values():
        assert len(side.seconds) == len(side.called) == len(side.spaced) == 2
        assert 0 <= side.error < 1
    assert found.sides["ansorc"].program == "untuned default schedule"
    assert found.sides["numpy"].program == "the definition"
    assert (found.ratio("numpy") or 0) > 0
    assert found.versions["numpy"] == np.__version__
    held: Any = json.loads(json.dumps(as_json([found], 1)))
    assert held["workloads"][0]["sides"]["numpy"]["called"] == found.sides["numpy"].called


def test_a_wrong_result_is_a_gap_and_not_a_time(file: Path) -> None:
    found = compared(file, "doubled", NUMPY)
    assert found.sides["numpy"].gap.startswith("wrong: element [")
    assert not found.sides["numpy"].called
    assert found.ratio("numpy") is None
    assert found.sides["ansorc"].called


def test_what_is_missing_is_said(file: Path) -> None:
    torch = next(info for info in PEERS if info.name == "torch")
    found = compared(file, "doubled", torch, file.parent / "none.db")
    assert "there is no record file" in found.sides["ansorc"].gap
    assert found.sides["torch"].gap in (
        "torch is not installed; pip install torch",
        "ops.py has no 'doubled_torch'; write a function of its tensors that returns the result "
        "there",
    )


def test_a_network_is_not_read_by_those_who_cannot(tmp_path: Path) -> None:
    request = WorkloadRequest(
        tmp_path / "net.onnx", "", "", {}, {}, ProgramChoice(tmp_path / "tune.db", 1)
    )
    with pytest.raises(Unsupported, match=r"it reads no \.onnx files"):
        list(SIDES["numpy"][0](request))


class Made(Side):
    """A side whose times are made up; it dies when it has no more."""

    def __init__(self, log: Path, seconds: list[float]) -> None:
        super().__init__(PeerInfo("made", "made", "made"), 1, log, "none")
        self.left = seconds

    def ask(self, message: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        assert message["do"] == "time"
        assert timeout_s > 0
        if not self.left:
            raise Gap("failed", "it died")
        return {"seconds": [self.left.pop(0)]}


def test_a_side_that_dies_is_out_and_the_others_go_on(tmp_path: Path) -> None:
    sides = [Made(tmp_path / "log", [1.0, 2.0, 3.0]), Made(tmp_path / "log", [1.0])]
    steady, dying = take_turns(sides, Turns(3, 1))
    assert steady == {"seconds": [1.0, 2.0, 3.0]}
    assert isinstance(dying, Gap)
    assert str(dying) == "it died"


def test_the_picture_has_the_fastest_at_one() -> None:
    pytest.importorskip("vl_convert", reason="vl-convert draws pictures")
    sides = {
        "ansorc": SideTimes(called=[1.0]),
        "numpy": SideTimes(called=[4.0]),
        "torch": SideTimes(gap="none"),
    }
    rows = relative_speeds([WorkloadTimes("conv", sides)])
    assert rows == [("conv", "ansorc", 1.0), ("conv", "NumPy", 0.25)]
    drawn = picture(relative_bars(rows), Path("a.svg")).decode()
    assert drawn.startswith("<svg")
    assert all(word in drawn for word in ("conv", "ansorc", "NumPy"))
    assert picture(relative_bars(rows), Path("a.png"))[:4] == b"\x89PNG"


def test_a_network_is_checked_and_timed(tmp_path: Path) -> None:
    write_model(tmp_path / "net.onnx")
    shapes = {"x": (2, 12)}
    network = Network.of(ac.from_onnx(tmp_path / "net.onnx", inputs=shapes), "native")
    workload = ComparedWorkload(tmp_path / "net.onnx", network)
    found = compare_workload(workload, [NUMPY], FEW, lambda _: None)
    own, other = found.sides["ansorc"], found.sides["numpy"]
    assert (own.gap, own.program) == ("", "untuned default schedules")
    assert own.error <= 1e-5
    assert len(own.seconds) == len(own.called) == len(own.spaced) == 2
    assert other.gap == "it reads no .onnx files"


def test_a_server_loads_no_compiler() -> None:
    text = "import sys, ansorc.compare.workload_server; print({'llvmlite'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
