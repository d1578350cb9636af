"""What faults came to: records lost, doubled or wrong, tuners that hang, states of devices."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from ansorc.fleet.connection import ConnectionLost
from ansorc.fleet.status import DeviceStatus
from ansorc.search.measure import FailureKind, Measurement, ProgramText
from ansorc.search.record import Record, Records
from bench.fleet.fault_tuner import Note, TunerProcess, noted
from bench.fleet.faulty import MadeUpTimes
from bench.fleet.faulty_fleet import REAL, FaultyFleet

_SETTLED_S = 60.0


@dataclass
class Account:
    """What is wrong in the end, in words; and what there was."""

    lost: list[str] = field(default_factory=list[str])
    doubled: list[str] = field(default_factory=list[str])
    wrong: list[str] = field(default_factory=list[str])
    """Records that say something else than what the program comes to."""
    hangs: list[str] = field(default_factory=list[str])
    states: list[str] = field(default_factory=list[str])
    trials: int = 0
    tunings: int = 0
    given_up: int = 0
    """Programs that are recorded as failures of the measuring."""
    ends: int = 0
    """Tunings that ended in words, because no device was left."""
    notes: Counter[str] = field(default_factory=Counter[str])

    @property
    def defects(self) -> list[str]:
        """All that is wrong."""
        return [*self.lost, *self.doubled, *self.wrong, *self.hangs, *self.states]

    def take(self, tuner: TunerProcess) -> None:
        """Hold what `tuner` noted against what it recorded."""
        self.hangs += [f"{tuner.label}: {words}" for words in (*tuner.hangs, *tuner.ends)]
        tunings: dict[str, list[Note]] = {}
        for note in noted(tuner.directory):
            tunings.setdefault(note.tuning, []).append(note)
        for name, notes in tunings.items():
            path = tuner.directory / f"tune-{name}.db"
            self._take_tuning(f"{tuner.label} {name}", notes, path, is_real=tuner.label == REAL)

    def _take_tuning(self, name: str, notes: list[Note], path: Path, *, is_real: bool) -> None:
        records = _records_of(path)
        is_cut = any("stopped early" in note.words for note in notes if note.what == "notes")
        self.ends += is_cut
        self.tunings += any(note.what == "ended" for note in notes)
        self.ends += sum(note.what == "failed" for note in notes)
        self.notes.update(
            words for note in notes if note.what == "notes" for words in note.words.split("; ")
        )
        self.trials += sum(note.what == "recorded" for note in notes)
        run: Counter[str] = Counter()
        chosen: set[str] = set()
        for note in notes:
            if note.what == "begun":
                run.clear()
                chosen.clear()
            elif note.what == "chosen":
                chosen.add(note.words)
            elif note.what == "come":
                run[note.words] += 1
                if run[note.words] > 1:
                    self.doubled.append(f"{name}: {note.words} came {run[note.words]} times")
                if note.words not in chosen:
                    self.doubled.append(f"{name}: {note.words} came, but was not asked for")
            elif note.what == "recorded" and note.words not in records:
                self.lost.append(f"{name}: {note.words} was recorded and is gone")
            elif note.what == "ended" and not is_cut and (missing := chosen - run.keys()):
                self.lost.append(f"{name}: {len(missing)} programs never came")
        for record in records.values():
            self.given_up += record.failure is FailureKind.UNKNOWN
            if not is_real and not _is_true(record):
                found = record.failure or record.median_s
                self.wrong.append(f"{name}: {record.program_key} is recorded as {found}")
            if is_real and record.failure in {FailureKind.WRONG_RESULT, FailureKind.CRASH}:
                self.wrong.append(f"{name}: {record.program_key}: {record.message}")

    def take_states(self, fleet: FaultyFleet) -> None:
        """Wait until all devices are free, with nothing waiting there; say what is not so then."""
        deadline = time.monotonic() + _SETTLED_S
        while (found := _bad_states(fleet)) and time.monotonic() < deadline:
            time.sleep(0.5)
        self.states += found


def _records_of(path: Path) -> dict[str, Record]:
    if not path.exists():
        return {}
    with Records.open(path, read_only=True) as held:
        return {one.program_key: one for key in held.task_keys() for one in held.all(key)}


def _is_true(record: Record) -> bool:
    if record.failure is FailureKind.UNKNOWN:
        return True
    outcome, _ = MadeUpTimes(1.0).tried(ProgramText(record.steps, record.function))
    if isinstance(outcome, Measurement):
        return record.median_s == outcome.seconds[0]
    return record.failure is outcome.kind


def _bad_states(fleet: FaultyFleet) -> list[str]:
    try:
        found = fleet.status()
    except ConnectionLost as error:
        return [f"no scheduler: {error}"]
    bad = [_words(one) for one in found if one.state != "free" or one.report.waiting]
    labels = Counter(one.announcement.label for one in found if one.announcement)
    wanted = Counter(device.order.known.label for device in fleet.devices)
    if labels != wanted:
        bad.append(f"there are {dict(labels)}, not {dict(wanted)}")
    return bad


def _words(one: DeviceStatus) -> str:
    label = one.announcement.label if one.announcement else "?"
    return f"device {label} at {one.address} is {one.state}, {one.report.waiting} wait: {one.note}"
