"""A fleet of one device measures the programs that this machine alone would, in the same order.

All of a fleet is real but Dask: orders, signatures, devices. What a program comes to follows from
the program, so nothing but the choice of programs can differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ansorc.fleet.announcement import Announcement, Presence
from ansorc.fleet.connection import FleetOptions
from ansorc.fleet.device import FleetDevice
from ansorc.fleet.fleet import Fleet
from ansorc.fleet.jobs import programs_of, results_message
from ansorc.fleet.signing import FleetKey
from ansorc.search.measure.messages import Message
from ansorc.search.options import SearchOptions
from ansorc.search.record import Record, Records
from ansorc.search.task import Task
from ansorc.search.tune import tune_task
from ansorc.search.tune_options import TuneOptions
from tests.fleet.made_up import MEASURING, MadeUpMachine, outcome_of, product

SEARCH = SearchOptions(population=32, generations=1)
TRIALS = 48


class MadeUpLabour:
    def do(self, job: Message) -> Message:
        return results_message(job, [outcome_of(program) for program in programs_of(job)])

    def close(self) -> None:
        """Nothing is held."""


@dataclass
class Devices:
    """A connection to devices in this process, which do a job each whenever answers are asked for.

    The second device joins after so many answers.
    """

    devices_here: dict[str, FleetDevice]
    second_after: int
    waiting: list[tuple[str, str, bytes]] = field(default_factory=list[tuple[str, str, bytes]])
    answered: int = 0
    most: int = 0

    def devices(self) -> dict[str, Presence]:
        count = 1 if self.answered < self.second_after else 2
        shown = list(self.devices_here.items())[:count]
        return {address: Presence(one.announcement) for address, one in shown}

    def submit(self, address: str, label: str, key: str, signed: bytes) -> None:
        assert label == "dev"
        self.waiting.append((address, key, signed))
        self.most = max(self.most, len(self.waiting))

    def arrivals(self, timeout_s: float) -> list[tuple[str, bytes | None]]:
        del timeout_s
        if not self.waiting:
            return []
        address, key, signed = self.waiting.pop(0)
        self.answered += 1
        return [(key, self.devices_here[address].answer(signed))]

    def cancel(self, key: str) -> None:
        self.waiting = [one for one in self.waiting if one[1] != key]

    def close(self) -> None:
        """Nothing is held."""


@pytest.fixture
def fleet_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Fleet]]:
    """Makes a fleet whose second device joins after so many answers."""
    path = FleetKey.create(tmp_path / "fleet.key")
    key = FleetKey.read(path)
    made = {name: FleetDevice(Announcement.here("dev", 1e-3), key, MadeUpLabour()) for name in "ab"}

    def fleet(second_after: int) -> Fleet:
        devices = Devices(made, second_after)

        def connect(address: str) -> Callable[[], Devices]:
            del address
            return lambda: devices

        monkeypatch.setattr("ansorc.fleet.fleet.connect", connect)
        return Fleet("tcp://here:1", "dev", key=path, options=FleetOptions(refresh_s=0.0))

    yield fleet
    for one in made.values():
        one.close()


def tuned(task: Task, path: Path, machines: Fleet | MadeUpMachine) -> list[Record]:
    tune_task(task, TuneOptions(TRIALS, path, threads=1, search=SEARCH, measuring=MEASURING,
                                measurer=machines))  # fmt: skip
    with Records.open(path) as records:
        return records.all(task.key)


def test_a_fleet_of_one_device_measures_what_this_machine_would(
    tmp_path: Path, fleet_of: Callable[[int], Fleet]
) -> None:
    with MadeUpMachine(MEASURING) as here:
        alone = tuned(product(), tmp_path / "here.db", here)
    with fleet_of(1 << 30) as fleet:
        found = tuned(product(), tmp_path / "fleet.db", fleet)
    assert len(alone) >= TRIALS
    for one, other in zip(found, alone, strict=True):
        assert (one.program_key, one.known) == (other.program_key, other.known)
        assert (one.median_s, one.failure) == (other.median_s, other.failure)


def test_a_fleet_that_grows_keeps_its_devices_busy(
    tmp_path: Path, fleet_of: Callable[[int], Fleet]
) -> None:
    with fleet_of(20) as fleet:
        found = tuned(product(), tmp_path / "fleet.db", fleet)
        assert fleet.ahead == 4
    keys = [one.program_key for one in found]
    assert len(keys) == len(set(keys)) >= TRIALS
