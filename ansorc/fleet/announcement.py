"""The announcement of a device that joins a fleet, and the grouping of equal devices."""

from __future__ import annotations

import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ansorc.codegen.base import backend_of
from ansorc.search.record import Environment, current_environment
from ansorc.target import Target

MOST_DIFFERENCE = 0.05
"""Devices of one label whose probes differ by more do not measure for the same task."""
MOST_DRIFT = 1.5
"""A device whose probe takes so many times as long or as short as at its start measures nothing:
something else works there, or its clock is wrong. Clocks that follow heat differ by less."""
_PROBES = 60
PURPOSE = "announcement"


@dataclass(frozen=True)
class Announcement:
    """A device: its label, and what it proved to be at its start."""

    label: str
    target: str
    """Its target, as text."""
    cpu: str
    features: tuple[str, ...]
    cores: int
    """The number of cores that it may use."""
    probe_s: float
    """The seconds for a fixed piece of work in one thread."""
    probe_is_given: bool = False
    """Whether `probe_s` was given, not measured."""
    identity: str = ""
    """The identity of the worker's process; its address changes when it joins again."""

    @staticmethod
    def here(label: str, probe_s: float | None = None) -> Announcement:
        """Return the announcement of this machine; `probe_s` is measured unless given."""
        known = current_environment()
        return Announcement(
            label, Target.parse("native").text, known.cpu, known.features, known.cores,
            calibrate(steady_work()) if probe_s is None else probe_s, probe_s is not None,
        )  # fmt: skip

    def environment(self, threads: int, cache: Any) -> Environment:
        """Return the environment under which its times are recorded."""
        return Environment(self.cpu, self.features, self.cores, threads, cache)

    @property
    def machine(self) -> tuple[object, ...]:
        """The fields that must be equal for devices that measure for one task."""
        return self.target, self.cpu, self.features, self.cores

    def to_json(self) -> bytes:
        """Return the fields as JSON text in UTF-8."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_json(text: bytes) -> Announcement:
        """Return the announcement that `to_json` wrote."""
        announcement = Announcement(**json.loads(text))
        return replace(announcement, features=tuple(announcement.features))


@dataclass(frozen=True)
class DeviceReport:
    """A report of a device about its work, unsigned; for people, and for time limits."""

    done: int = 0
    """Jobs that it has done since its start."""
    faults: int = 0
    """Jobs that it could not do because of a fault of the device."""
    refused: int = 0
    """Jobs that were not signed."""
    rate: float = 0.0
    """Jobs a second, over the last minute."""
    job: str = ""
    """The name of the current job, or ""."""
    busy_s: float = 0.0
    """The seconds since the current job began."""
    waiting: int = 0
    """Jobs that wait at the device, of all tuners."""


@dataclass(frozen=True)
class Presence:
    """A device as the scheduler knows it."""

    announcement: bytes
    """Signed."""
    report: DeviceReport = DeviceReport()
    silent_s: float = 0.0
    """Seconds since its last report, as far as was seen."""


def steady_work() -> Callable[[int], None]:
    """Return the work of the calibration probe, for this machine."""
    target = Target.parse("native")
    return backend_of(target).probes.steady_work(target, 1)


def calibrate(
    work: Callable[[int], None],
    clock: Callable[[], float] = time.perf_counter,
    enough_s: float = 0.0,
) -> float:
    """Return the shortest time of many calls of `work(1)`: disturbances only make it slower.

    It ends at the first call that takes at most `enough_s`.
    """
    least = float("inf")
    for _ in range(_PROBES):
        begin = clock()
        work(1)
        least = min(least, clock() - begin)
        if least <= enough_s:
            break
    return least


def group_devices(
    devices: Sequence[tuple[str, Announcement]], like: Announcement | None = None
) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the addresses of devices of one label that may measure for one task, and notes.

    They are the largest group of one machine type whose probes differ by at most `MOST_DIFFERENCE`;
    of equal groups the fastest. If others have measured before, it is the largest group that
    includes `like`. For each other device a note gives the reason.
    """
    machines: defaultdict[tuple[object, ...], list[tuple[str, Announcement]]] = defaultdict(list)
    for address, device in devices:
        machines[device.machine].append((address, device))
    if not devices:
        return frozenset(), ()
    if like is not None:
        machines = defaultdict(list, {like.machine: [*machines[like.machine], ("", like)]})
    groups = [_close_probes(members, like) for members in machines.values()]
    chosen = max(groups, key=lambda group: (len(group), -group[0][1].probe_s))
    inside = frozenset(address for address, _ in chosen if address)
    kept = chosen[0][1]
    usual = statistics.median(device.probe_s for _, device in chosen)
    notes = tuple(
        f"device '{device.label}' at {address} is kept apart: "
        + (
            f"it is another machine ({device.cpu}, {device.cores} cores; the others: {kept.cpu}, "
            f"{kept.cores} cores)"
            if device.machine != kept.machine
            else f"its probe differs by {device.probe_s / usual - 1:+.0%} from that of the others"
        )
        + "; give it another label"
        for address, device in devices
        if address not in inside
    )
    return inside, notes


def _close_probes(
    members: list[tuple[str, Announcement]], like: Announcement | None
) -> list[tuple[str, Announcement]]:
    """Return the largest group with close probes, that of `like` included, the fastest first."""
    ordered = sorted(members, key=lambda member: member[1].probe_s)
    runs = [
        [entry for entry in ordered[first:] if entry[1].probe_s <= least * (1 + MOST_DIFFERENCE)]
        for first, least in enumerate(member[1].probe_s for member in ordered)
    ]
    if like is not None:
        runs = [run for run in runs if ("", like) in run]
    return max(runs, key=len)
