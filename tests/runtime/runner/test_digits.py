"""A network end to end on a board without Python: tuned through the runner, embedded in C++."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ansorc as ac
from ansorc.search.measure import FailureKind
from ansorc.search.record import Records
from tests.runtime.runner.runners import MACHINES, run, runner_of
from tests.support.arm.emulated import CXX, FLAGS, QEMU, needs_qemu

EXAMPLE = Path(__file__).parents[3] / "runtime/examples/network"
TRIALS = 64


@needs_qemu
@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_digits_are_tuned_and_run_for_a_cortex_a76(tmp_path: Path, made: Path) -> None:
    run(sys.executable, str(EXAMPLE / "digits.py"), str(tmp_path))
    emulator, program = runner_of(MACHINES["aarch64"], made).split()
    graph = ac.from_onnx(tmp_path / "digits.onnx", inputs={"image": (1, 1, 8, 8)})
    with ac.Board(f"{emulator} -cpu cortex-a76 {program}") as board:
        assert "aarch64" in board.target.triple
        ac.tune(graph, measurer=board, scheduler="round-robin", trials=TRIALS,
                cost_model="roofline", records=tmp_path / "tune.db")  # fmt: skip
        target = board.target
    with Records.open(tmp_path / "tune.db") as records:
        found = [one for key in records.task_keys() for one in records.all(key)]
    assert len(found) >= TRIALS
    assert {one.failure for one in found} == {FailureKind.UNTIMED}, "all right, none timed"
    # An emulator's times choose nothing: the library has untuned schedules.
    artifact = ac.build(graph, target=target).save(tmp_path / "digits.a")
    classify = tmp_path / "classify"
    include = EXAMPLE.parents[1] / "include"
    files = str(EXAMPLE / "classify.cpp"), str(artifact.library)
    run(CXX, *FLAGS, f"-I{tmp_path}", f"-I{include}", *files, "-static", "-pthread", "-lm", "-o",
        str(classify))  # fmt: skip
    done = subprocess.run(
        [QEMU, "-cpu", "cortex-a76", classify, tmp_path / "digits.bin"],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "of 297 right" in done.stdout
    assert int(done.stdout.partition("digits: ")[2].split()[0]) >= 280
