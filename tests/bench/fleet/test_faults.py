"""A real scheduler, devices, a network and tuners of their own processes, all of which fail."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="a fleet needs the package distributed")

from bench.fleet.faults_command import disturbed
from bench.fleet.faulty_fleet import FaultyFleet, limit_files


def test_ten_faults_lose_and_double_nothing(tmp_path: Path) -> None:
    with FaultyFleet(tmp_path, simulated=4, real=0, trial_s=0.2) as fleet:
        found, begun = disturbed(
            fleet, tmp_path, faults=10, seconds=4.0, seed=3, shortened=0.2, trials=30
        )
    assert not found.defects
    assert sum(begun.values()) == 10
    assert found.tunings >= 1
    assert found.trials >= 30


def test_a_device_whose_disk_is_full_when_it_joins_again_comes_back(tmp_path: Path) -> None:
    def wait_for(devices: int) -> None:
        deadline = time.monotonic() + 60
        while len(found := fleet.status()) != devices:
            assert time.monotonic() < deadline, found
            time.sleep(0.2)

    with FaultyFleet(tmp_path, simulated=1, real=0, trial_s=0.1) as fleet:
        (device,) = fleet.devices
        wait_for(1)
        fleet.kill_scheduler()
        limit_files(device, is_full=True)
        fleet.start_scheduler()
        wait_for(1)
        assert device.process is not None
        assert device.process.is_alive()
        limit_files(device, is_full=False)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_hundred_faults_also_of_devices_that_measure(tmp_path: Path) -> None:
    with FaultyFleet(tmp_path, simulated=6, real=2, trial_s=1.0) as fleet:
        found, begun = disturbed(fleet, tmp_path, faults=100, seconds=240.0, seed=1)
    assert not found.defects
    assert sum(begun.values()) == 100
    assert found.tunings >= 5
