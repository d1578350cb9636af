"""Two tuners on one fleet get about as many trials each, and may share a record file."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="a fleet needs the package distributed")

from ansorc.search.record import Records
from bench.fleet.fault_report import Account
from bench.fleet.fault_tuner import TunerProcess, noted
from bench.fleet.faulty_fleet import SIMULATED, FaultyFleet

TRIALS = 40


def recorded(tuner: TunerProcess) -> list[float]:
    return [note.at for note in noted(tuner.directory) if note.what == "recorded"]


@pytest.mark.nightly
def test_two_tuners_share_the_devices_of_a_fleet_and_a_record_file(tmp_path: Path) -> None:
    shared = tmp_path / "shared.db"
    Records.open(shared).close()
    with FaultyFleet(tmp_path, simulated=3, real=0, trial_s=0.2) as fleet:
        tuners = [
            TunerProcess(fleet.address, fleet.key, SIMULATED, tmp_path / name, TRIALS)
            for name in "ab"
        ]
        for tuner in tuners:  # before it has begun
            (tuner.directory / "tune-0.db").symlink_to(shared)
        deadline = time.monotonic() + 60
        while min(len(recorded(one)) for one in tuners) < TRIALS:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        for tuner in tuners:
            tuner.stop(60.0)
    begin = max(recorded(one)[0] for one in tuners)
    end = min(recorded(one)[TRIALS - 1] for one in tuners)
    counts = [sum(begin <= at <= end for at in recorded(one)) for one in tuners]
    assert min(counts) >= 10
    assert max(counts) <= 1.5 * min(counts), counts
    with Records.open(shared, read_only=True) as records:
        assert records.count() >= TRIALS
    found = Account()
    for tuner in tuners:
        found.take(tuner)
    assert not found.defects
