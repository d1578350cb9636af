"""Tuning on real workers of a real Dask scheduler, with some of them killed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import ansorc as ac
from ansorc.errors import OptionError, TargetError
from ansorc.fleet.connection import FleetOptions
from ansorc.fleet.signing import FleetKey
from ansorc.search.measure import MeasureOptions, RunOptions
from ansorc.search.options import SearchOptions
from ansorc.search.record import Records
from ansorc.search.tune import tune_task
from ansorc.search.tune_options import TuneOptions
from ansorc.search.tune_result import RunProgress
from tests.fleet.machines_here import FleetHere

pytest.importorskip("distributed", reason="a fleet needs the package distributed")


def matmul(n: int, m: int, k: int) -> ac.ComputeDAG:
    a, b = ac.placeholder((n, k), name="A"), ac.placeholder((k, m), name="B")
    return ac.ComputeDAG([a, b, ac.ops.matmul(a, b, name="C")])


SEARCH = SearchOptions(population=64, generations=1, cost_model="roofline")
MEASURING = MeasureOptions(RunOptions(threads=1, min_total_s=1e-3, max_total_s=2e-3), builders=1)
SHORT = FleetOptions(patience_s=60.0, grace_s=30.0, refresh_s=0.2)


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = FleetKey.create(tmp_path / "fleet.key")
    monkeypatch.setenv("ANSORC_FLEET_KEY", str(path))
    return path


@pytest.fixture
def here(tmp_path: Path, key: Path) -> Iterator[FleetHere]:
    made = FleetHere(tmp_path, key)
    try:
        yield made
    finally:
        made.close()


def options(path: Path, fleet: ac.Fleet, trials: int) -> TuneOptions:
    return TuneOptions(
        trials, path / "tune.db", threads=1, search=SEARCH, measuring=MEASURING, measurer=fleet
    )


def require_each_once(path: Path, task: ac.Task, fleet: ac.Fleet, contest: int) -> None:
    """No program is recorded twice but by the contest."""
    with Records.open(path / "tune.db") as records:
        environment = fleet.environment(1, "warm", task.target)
        found = [one.program_key for one in records.all(task.key, environment)]
    assert len(found) - len(set(found)) <= contest


def test_a_worker_killed_and_a_new_scheduler_lose_and_double_nothing(
    tmp_path: Path, here: FleetHere
) -> None:
    first, _ = here.start_worker("one"), here.start_worker("one")
    here.wait_for_devices(2)
    done: list[int] = []

    def disturb(trial: RunProgress) -> None:
        done.append(trial.measured_now)
        if len(done) == 6:
            first.kill()
        if len(done) == 12:
            here.scheduler.kill()
            here.scheduler.wait()
            here.start_scheduler()

    with ac.Fleet(here.address, device="one", options=SHORT) as fleet:
        task = ac.Task(matmul(32, 32, 32), fleet.target)
        assert fleet.ahead == 4, "two for each of the devices"
        result = tune_task(task, options(tmp_path, fleet, 20), disturb)
        require_each_once(tmp_path, task, fleet, contest=5)
    assert len(done) == 20
    assert result.measured_now >= 20
    assert result.best is not None
    assert result.best.checked
    assert any("scheduler was lost" in one or "left at work" in one for one in result.notes)


def test_programs_built_by_another_device_are_measured_as_object_code(
    tmp_path: Path, here: FleetHere
) -> None:
    here.start_worker("board")
    here.start_worker("builder")
    with ac.Fleet(here.address, device="board", build_on="builder", options=SHORT) as fleet:
        task = ac.Task(matmul(24, 24, 24), fleet.target)
        result = tune_task(task, options(tmp_path, fleet, 6))
        sent, received = fleet.traffic_bytes
        assert result.best is not None
        assert result.best.checked
        assert sent > 0
        assert received > 0
        other = replace(fleet.target, triple="riscv64-linux-gnu")
        with pytest.raises(TargetError, match="does not run code"):
            fleet.require(other)
    assert not result.failures


def test_a_worker_with_another_key_is_not_used(
    tmp_path: Path, here: FleetHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.start_worker("one")
    here.wait_for_devices(1)
    other = FleetKey.create(tmp_path / "other.key")
    short = replace(SHORT, start_s=1.0)
    with (
        ac.Fleet(here.address, device="one", key=other, options=short) as fleet,
        pytest.raises(ac.AnsorcError, match="another fleet key"),
    ):
        fleet.require(fleet.target)
    monkeypatch.setenv("ANSORC_FLEET_KEY", str(tmp_path / "none"))
    with pytest.raises(OptionError, match="ansorc fleet key"):
        ac.Fleet(here.address, device="one")


@pytest.mark.nightly
def test_a_worker_whose_scheduler_vanishes_while_it_joins_begins_again(here: FleetHere) -> None:
    """Seen where a scheduler was killed behind something that kept the connection open."""
    here.scheduler.kill()
    here.scheduler.wait()
    port = int(here.address.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):  # it takes connections, and says nothing
        here.start_worker("one", before="import ansorc.fleet.engine as e; e.JOIN_S = 2.0; ")
        here.wait_for("cannot join")
    here.start_scheduler()
    here.wait_for_devices(1)
