"""The devices of a tuner: those of its labels, that have its key, and that are alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ansorc.fleet.announcement import PURPOSE, Announcement, Presence, group_devices
from ansorc.fleet.signing import FleetKey, SignatureError

_MOST_PAST = 1000
"""Devices that are gone of which it is known what they did: of a process that was started again
nothing will come back, and workers of a queue of jobs are started again for months."""
_SILENT_S = 10.0
"""Seconds without a report after which a device counts as idle; Dask reports every 0.5 to 3 s."""


@dataclass(eq=False)
class DeviceState:
    """The tuner's knowledge of one device."""

    address: str
    announcement: Announcement
    attempts: dict[str, float] = field(default_factory=dict[str, float])
    """The jobs at the device by their keys, with time limits; that of the first one is running."""
    heard: float = 0.0
    """Time of the last answer, or of the first job after it was idle."""
    done: int = 0
    faults: int = 0
    """Number of faults in a row."""
    unconfirmed: int = 0
    aside_until: float = 0.0

    @property
    def label(self) -> str:
        """The label of equal machines."""
        return self.announcement.label

    @property
    def identity(self) -> str:
        """The identity that it keeps when it joins again at another address."""
        return self.announcement.identity or self.address

    @property
    def deadline(self) -> float:
        """The time at which its first attempt has taken too long."""
        return self.heard + next(iter(self.attempts.values())) if self.attempts else float("inf")


class Members:
    """The devices called `label`, and those called `builders`, as the scheduler reports them.

    The first group of devices that are alike is the one that measures, for good: the times of all
    programs of a tuning are of one kind of machine. `tell` gets notes for the user.
    """

    def __init__(
        self,
        key: FleetKey,
        labels: tuple[str, str],
        run: str,
        clock: Callable[[], float],
        tell: Callable[[str], None],
    ) -> None:
        self._key, self._run, self._clock, self._tell = key, run, clock, tell
        self.label, self.builders = labels
        self._devices: dict[str, DeviceState] = {}
        self._past: dict[str, DeviceState] = {}
        """Devices that have left, by identity, the latest last: they may join again."""
        self._kept: frozenset[str] = frozenset()
        self.like: Announcement | None = None
        """The machine of the devices that measure; None before the first device."""
        self._others: Counter[str] = Counter()
        """The number of devices of each other label."""

    def __getitem__(self, address: str) -> DeviceState:
        return self._devices[address]

    def get(self, address: str) -> DeviceState | None:
        """Return the device at `address`, or None if it is gone."""
        return self._devices.get(address)

    def with_identity(self, identity: str) -> DeviceState | None:
        """Return the device of that identity, or None if it is gone."""
        return next(
            (device for device in self._devices.values() if device.identity == identity), None
        )

    @property
    def all(self) -> list[DeviceState]:
        """All devices of both labels, also those that are kept apart."""
        return list(self._devices.values())

    @property
    def measuring(self) -> list[DeviceState]:
        """The devices that measure, including those that are set aside for now."""
        return [self._devices[address] for address in sorted(self._kept)]

    @property
    def building(self) -> list[DeviceState]:
        """The devices that compile; empty if each device compiles what it measures."""
        return self._of(self.builders)

    def usable(self, devices: list[DeviceState]) -> list[DeviceState]:
        """Return the devices that are not set aside."""
        now = self._clock()
        return [state for state in devices if state.aside_until <= now]

    def lacks(self, devices: Callable[[list[DeviceState]], list[DeviceState]] = list) -> str:
        """Return the label that has no device among `devices`, or an empty text."""
        if not devices(self.measuring):
            return self.label
        return self.builders if self.builders and not devices(self.building) else ""

    def refresh(self, announced: Mapping[str, Presence]) -> None:
        """Add devices that joined, and group equal ones."""
        others = Counter[str]()
        for address in announced.keys() - self._devices.keys():
            try:
                content = self._key.verify(PURPOSE, announced[address].announcement)
            except SignatureError:
                self._tell(f"the worker at {address} has another fleet key; it is not used")
                continue
            announcement = Announcement.from_json(content)
            if announcement.label in (self.label, self.builders):
                self._devices[address] = self._join(DeviceState(address, announcement))
            else:
                others[announcement.label] += 1
        self._others = others
        for state in self._devices.values():
            self._wait_for_others(state, announced[state.address])
        mine = [(state.address, state.announcement) for state in self._of(self.label)]
        self._kept, notes = group_devices(sorted(mine, key=lambda device: device[0]), self.like)
        if self.like is None and self._kept:
            self.like = self.measuring[0].announcement
        for note in notes:
            self._tell(note)

    def remove(self, address: str) -> None:
        """Remove a device."""
        state = self._devices.pop(address)
        self._past[state.identity] = state
        while len(self._past) > _MOST_PAST:
            del self._past[next(iter(self._past))]
        self._kept -= {address}

    def clear(self) -> None:
        """Remove all devices."""
        for address in list(self._devices):
            self.remove(address)

    def describe_labels(self) -> str:
        """Return a text that lists the labels."""
        counts = self._others + Counter(device.label for device in self._devices.values())
        if not counts:
            return "its scheduler has no devices at all: start `ansorc worker` on a machine"
        labels = ", ".join(f"'{label}' ({count})" for label, count in sorted(counts.items()))
        return f"the labels that its scheduler has: {labels}"

    def _join(self, state: DeviceState) -> DeviceState:
        """Return a device, with its history if it was here before."""
        if (past := self._past.pop(state.identity, None)) is not None:
            state.aside_until, state.unconfirmed = past.aside_until, past.unconfirmed
            state.done, state.faults = past.done, past.faults
        return state

    def _of(self, label: str) -> list[DeviceState]:
        return [device for device in self._devices.values() if label and device.label == label]

    def _wait_for_others(self, state: DeviceState, now: Presence) -> None:
        """Extend the time limit of an attempt while the device works for another tuner.

        That, too, may take as long as an attempt, if the device still reports.
        """
        job = now.report.job
        if not state.attempts or not job or job.startswith(f"ansorc-{self._run}-"):
            return
        if now.silent_s < _SILENT_S and now.report.busy_s < next(iter(state.attempts.values())):
            state.heard = self._clock()
