"""A worker that lends a board: a static program measures, also after it was killed."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

import ansorc as ac
from ansorc.fleet.signing import FleetKey
from ansorc.search.measure import MeasureOptions
from ansorc.search.options import SearchOptions
from ansorc.search.tune import tune_task
from ansorc.search.tune_options import TuneOptions
from ansorc.search.tune_result import RunProgress
from tests.fleet.machines_here import FleetHere
from tests.runtime.runner.runners import MACHINES, runner_of


def layer() -> ac.ComputeDAG:
    a, b = ac.placeholder((24, 40), name="A"), ac.placeholder((40, 32), name="B", constant=True)
    return ac.ComputeDAG([a, b, ac.ops.matmul(a, b, name="C")])


def processes_of(program: str) -> list[int]:
    """The processes that run `program`, which has no arguments."""
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (place / "cmdline").read_bytes() == f"{program}\0".encode():
                found.append(int(place.name))
    return found


@pytest.mark.nightly
def test_a_fleet_measures_on_a_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = runner_of(MACHINES["native"], tmp_path)
    key = FleetKey.create(tmp_path / "fleet.key")
    monkeypatch.setenv("ANSORC_FLEET_KEY", str(key))
    here = FleetHere(tmp_path, key)
    killed: list[int] = []

    def disturb(trial: RunProgress) -> None:
        if trial.done == 3:
            killed.extend(processes_of(command))
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    try:
        here.start_worker("board", 1e-3, "--through", command)
        with ac.Fleet(here.address, device="board") as fleet:
            task = ac.Task(layer(), fleet.target)
            options = TuneOptions(
                8, tmp_path / "tune.db", search=SearchOptions(cost_model="roofline"),
                measuring=replace(MeasureOptions(), builders=1), measurer=fleet,
            )  # fmt: skip
            result = tune_task(task, options, disturb)
    finally:
        here.close()
    assert len(killed) == 1
    assert result.best is not None
    assert result.best.checked
    assert not result.failures, result.first_failure
    assert f"device 'board' serves {here.address}" in here.logs()
