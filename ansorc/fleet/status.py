"""The status of a fleet, as its scheduler and its devices report it: for people and scripts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from ansorc.errors import OptionError
from ansorc.fleet.announcement import PURPOSE, Announcement, DeviceReport, group_devices
from ansorc.fleet.connection import Connection, ConnectionLost
from ansorc.fleet.fleet import connect
from ansorc.fleet.signing import FleetKey, SignatureError
from ansorc.target.units import seconds_text

_SILENT_S = 10.0
HEADINGS = (
    "device", "state", "waiting", "done", "per s", "faults", "refused", "probe", "cores", "CPU",
    "address",
)  # fmt: skip
"""Titles of the columns of `DeviceStatus.row`."""


@dataclass(frozen=True)
class DeviceStatus:
    """One device of a fleet."""

    address: str
    announcement: Announcement | None
    """None if it was signed with another key."""
    report: DeviceReport
    state: str
    """"free", "measures", "silent", "another key" or "kept apart"."""
    note: str = ""
    """Why it is kept apart, or what it measures for whom."""

    def row(self) -> tuple[str, ...]:
        """Return it as texts for people."""
        known, report = self.announcement, self.report
        machine = (
            (seconds_text(known.probe_s), str(known.cores), known.cpu) if known else ("", "", "")
        )
        return (
            known.label if known else "?", self.state, str(report.waiting), str(report.done),
            f"{report.rate:.1f}", str(report.faults), str(report.refused), *machine, self.address,
        )  # fmt: skip

    def to_json(self) -> dict[str, object]:
        """Return it as a JSON object; what is not known is null."""
        known = self.announcement
        return {
            "address": self.address,
            "label": known and known.label,
            "state": self.state,
            "note": self.note,
            "target": known and known.target,
            "cpu": known and known.cpu,
            "cores": known and known.cores,
            "probe_s": known and known.probe_s,
            "waiting": self.report.waiting,
            "done": self.report.done,
            "rate": self.report.rate,
            "faults": self.report.faults,
            "refused": self.report.refused,
            "busy_s": self.report.busy_s,
        }


def summary_of(devices: Sequence[DeviceStatus]) -> str:
    """Return how many devices there are, and what they do together."""
    jobs = sum(device.report.waiting + bool(device.report.job) for device in devices)
    rate = sum(device.report.rate for device in devices)
    return f"{len(devices)} devices, {jobs} jobs there, {rate:.1f} programs/s"


def devices_at(scheduler: str) -> list[DeviceStatus]:
    """Return all devices at the scheduler at that address; raise OptionError if there is none."""
    key = FleetKey.read()
    try:
        with closing(connect(scheduler)()) as connection:
            return fleet_status(connection, key)
    except ConnectionLost as error:
        raise OptionError(str(error)) from error


def fleet_status(connection: Connection, key: FleetKey) -> list[DeviceStatus]:
    """Return all devices by label and address; raise ConnectionLost without a scheduler."""
    present = connection.devices()
    known: dict[str, Announcement] = {}
    labels: defaultdict[str, list[tuple[str, Announcement]]] = defaultdict(list)
    for address in sorted(present):
        try:
            content = key.verify(PURPOSE, present[address].announcement)
        except SignatureError:
            continue
        known[address] = Announcement.from_json(content)
        labels[known[address].label].append((address, known[address]))
    apart: dict[str, str] = {}
    for devices in labels.values():
        kept, notes = group_devices(devices)
        others = [address for address, _ in devices if address not in kept]
        apart |= dict(zip(others, notes, strict=True))
    statuses: list[DeviceStatus] = []
    for address, presence in present.items():
        report, state, note = presence.report, "free", apart.get(address, "")
        if address not in known:
            state = "another key"
        elif presence.silent_s > _SILENT_S:
            state = "silent"
        elif note:
            state = "kept apart"
        elif report.job:
            state, note = "measures", f"for tuner {report.job.split('-')[1]}"
        statuses.append(DeviceStatus(address, known.get(address), report, state, note))
    return sorted(
        statuses,
        key=lambda status: (
            status.announcement.label if status.announcement else "",
            status.address,
        ),
    )
