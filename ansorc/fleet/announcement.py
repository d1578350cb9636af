"""What a device says of itself when it joins a fleet, and which devices belong together."""

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
"""Devices of one label whose probes differ by more do not measure for one task."""
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
    """Its own, as text."""
    cpu: str
    features: tuple[str, ...]
    cores: int
    """Those that it may use."""
    probe_s: float
    """Seconds that a fixed piece of work takes it, in one thread."""
    probe_is_given: bool = False
    """It was told, not measured."""
    identity: str = ""
    """Of the worker's process: it has another address when it joins again."""

    @staticmethod
    def here(label: str, probe_s: float | None = None) -> Announcement:
        """Return what this process can prove of its machine: `probe_s` is measured unless given."""
        known = current_environment()
        return Announcement(
            label, Target.parse("native").text, known.cpu, known.features, known.cores,
            calibrated(steady_work()) if probe_s is None else probe_s, probe_s is not None,
        )  # fmt: skip

    def environment(self, threads: int, cache: Any) -> Environment:
        """Return what its times are recorded under."""
        return Environment(self.cpu, self.features, self.cores, threads, cache)

    @property
    def machine(self) -> tuple[object, ...]:
        """What must be equal of devices that measure for one task."""
        return self.target, self.cpu, self.features, self.cores

    def to_json(self) -> bytes:
        """Return the fields as JSON text in UTF-8."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_json(text: bytes) -> Announcement:
        """Return what `to_json` wrote."""
        found = Announcement(**json.loads(text))
        return replace(found, features=tuple(found.features))


@dataclass(frozen=True)
class DeviceReport:
    """What a device says of its work, unsigned: for people, and for how long to wait for it."""

    done: int = 0
    """Jobs that it has done since its start."""
    faults: int = 0
    """Jobs that it could not do, for a reason of its own."""
    refused: int = 0
    """Jobs that were not signed."""
    rate: float = 0.0
    """Jobs a second, over the last minute."""
    job: str = ""
    """The name of the one under way, or empty."""
    busy_s: float = 0.0
    """Seconds for which it has been under way."""
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


def calibrated(
    work: Callable[[int], None],
    clock: Callable[[], float] = time.perf_counter,
    enough_s: float = 0.0,
) -> float:
    """Return the shortest seconds of `work(1)`, of many: what disturbs only makes it slower.

    It ends early with the first that takes no longer than `enough_s`.
    """
    least = float("inf")
    for _ in range(_PROBES):
        begin = clock()
        work(1)
        least = min(least, clock() - begin)
        if least <= enough_s:
            break
    return least


def kept_together(
    devices: Sequence[tuple[str, Announcement]], like: Announcement | None = None
) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the addresses of those devices of one label that may measure for one task, and notes.

    They are the most numerous ones of one machine type whose probes lie within `MOST_DIFFERENCE`,
    the faster ones of as many; if others have measured before, the most that go with `like` of
    them. A note says of each other one why it is kept apart.
    """
    machines: defaultdict[tuple[object, ...], list[tuple[str, Announcement]]] = defaultdict(list)
    for address, one in devices:
        machines[one.machine].append((address, one))
    if not devices:
        return frozenset(), ()
    if like is not None:
        machines = defaultdict(list, {like.machine: [*machines[like.machine], ("", like)]})
    groups = [_close_probes(members, like) for members in machines.values()]
    chosen = max(groups, key=lambda group: (len(group), -group[0][1].probe_s))
    inside = frozenset(address for address, _ in chosen if address)
    kept = chosen[0][1]
    usual = statistics.median(one.probe_s for _, one in chosen)
    notes = tuple(
        f"device '{one.label}' at {address} is kept apart: "
        + (
            f"it is another machine ({one.cpu}, {one.cores} cores; the others: {kept.cpu}, "
            f"{kept.cores} cores)"
            if one.machine != kept.machine
            else f"its probe differs by {one.probe_s / usual - 1:+.0%} from that of the others"
        )
        + "; give it another label"
        for address, one in devices
        if address not in inside
    )
    return inside, notes


def _close_probes(
    members: list[tuple[str, Announcement]], like: Announcement | None
) -> list[tuple[str, Announcement]]:
    """The most members whose probes are close, that of `like` among them, the fastest first."""
    ordered = sorted(members, key=lambda member: member[1].probe_s)
    runs = [
        [one for one in ordered[first:] if one[1].probe_s <= least * (1 + MOST_DIFFERENCE)]
        for first, least in enumerate(member[1].probe_s for member in ordered)
    ]
    if like is not None:
        runs = [run for run in runs if ("", like) in run]
    return max(runs, key=len)
