"""MobileNet-V2 on a board without Python: every program of a tuning, and the network in C++."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="makes the network: pip install 'ansorc[bench]'")

import ansorc as ac
from ansorc.graph.network import Network
from ansorc.search.measure import FailureKind
from ansorc.search.record import Records
from bench.networks.prepare import prepare
from tests.runtime.runner.runners import MACHINES, runner_of
from tests.support.arm.emulated import emulated, linked, needs_qemu

TRIALS = 64


@needs_qemu
@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_mobilenet_v2_is_tuned_and_run_for_a_cortex_a76(tmp_path: Path, made: Path) -> None:
    prepare("mobilenet_v2", 1, tmp_path)
    graph = ac.from_onnx(tmp_path / "mobilenet_v2-b1.onnx")
    emulator, program = runner_of(MACHINES["aarch64"], made).split()
    with ac.Board(f"{emulator} -cpu cortex-a76 {program}") as board:
        ac.tune(graph, measurer=board, scheduler="round-robin", trials=TRIALS,
                cost_model="roofline", records=tmp_path / "tune.db")  # fmt: skip
        target = board.target
    with Records.open(tmp_path / "tune.db") as records:
        found = {key: records.all(key) for key in records.task_keys()}
    every = [one for of_task in found.values() for one in of_task]
    assert len(every) >= TRIALS
    assert {one.failure for one in every} == {FailureKind.UNTIMED}, "all right, none timed"
    assert set(found) == set(Network.of(graph, target).tasks), "every kernel was measured"
    assert all(found.values())
    # An emulator's times choose nothing: the library has untuned schedules.
    code, seen = emulated(
        linked(ac.build(graph, target=target), tmp_path),
        [np.load(tmp_path / "mobilenet_v2-b1-inputs.npz")["x"]], (1, 1000), threads=2,
        cpu="cortex-a76",
    )  # fmt: skip
    wanted = np.load(tmp_path / "mobilenet_v2-b1-reference.npy")
    assert code == 0
    assert np.abs(seen - wanted).max() <= 1e-4 * np.abs(wanted).max()
