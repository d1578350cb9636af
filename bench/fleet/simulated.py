"""Simulated devices: each sleeps for as long as a recorded trial took, and answers as recorded.

    python -m bench.fleet.simulated tcp://127.0.0.1:8786 tune.db LABEL COUNT SLOWER

serves COUNT of them in one process, SLOWER times as slow as recorded. A program that is not
recorded gets the times of one that is, the same each time.
"""

from __future__ import annotations

import hashlib
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from ansorc.fleet.announcement import Announcement
from ansorc.fleet.device import FleetDevice
from ansorc.fleet.engine import run_devices
from ansorc.fleet.jobs import programs_of, results_message
from ansorc.fleet.signing import FleetKey
from ansorc.search.measure import Failure, Measurement, Outcome, ProgramText, RunCost
from ansorc.search.measure.messages import Message
from ansorc.search.record import Record, Records


class RecordedTimes:
    """What measuring programs came to, and how long it took, by their keys."""

    def __init__(self, path: Path, slower: float = 1.0) -> None:
        self._slower = slower
        with Records.open(path, create=False) as records:
            (task, *_) = records.tasks()
            known = records.all(task.key)
        self._known = {one.program_key: one for one in known}
        self._any = [one for one in known if one.build_s + one.run_s > 0]

    def of(self, program: ProgramText) -> Record:
        """Return the record of `program`, or that of another program."""
        if (found := self._known.get(program.key)) is not None:
            return found
        digest = hashlib.sha256(program.key.encode()).digest()
        return self._any[int.from_bytes(digest[:8], "big") % len(self._any)]

    def trial_s(self, record: Record) -> float:
        """Return for how long a device sleeps."""
        return self._slower * (record.build_s + record.run_s)

    @property
    def mean_s(self) -> float:
        """Seconds that a trial takes on average."""
        return sum(map(self.trial_s, self._any)) / len(self._any)

    def tried(self, program: ProgramText) -> tuple[Outcome, float]:
        """Return what comes of `program`, and the seconds that it takes a device."""
        record = self.of(program)
        outcome = (
            Failure.of(record.failure, record.message)
            if record.failure is not None
            else Measurement((record.median_s or 0.0,), record.checked)
        )
        return outcome, self.trial_s(record)


class Times(Protocol):
    """What programs come to on a simulated device."""

    def tried(self, program: ProgramText) -> tuple[Outcome, float]:
        """Return what comes of `program`, and the seconds that it takes a device."""
        ...


class SimulatedLabour:
    """Does jobs by sleeping."""

    def __init__(self, times: Times) -> None:
        self._times = times

    def do(self, job: Message) -> Message:
        """Sleep for the time of each program, and answer what comes of it."""
        outcomes: list[Outcome] = []
        for program in programs_of(job):
            outcome, seconds = self._times.tried(program)
            time.sleep(seconds)
            outcomes.append(replace(outcome, run=RunCost(repeats_s=seconds)))
        return results_message(job, outcomes)

    def close(self) -> None:
        """There is nothing to free."""


def main() -> None:
    """Serve devices until the process is ended."""
    address, path, label, count, slower = sys.argv[1:]
    times, key = RecordedTimes(Path(path), float(slower)), FleetKey.read()
    known = Announcement.here(label, probe_s=1e-3)
    run_devices(
        address, [FleetDevice(known, key, SimulatedLabour(times)) for _ in range(int(count))]
    )


if __name__ == "__main__":
    main()
