"""A tuner's way to the devices of a fleet, whatever carries it, and when it gives up on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ansorc.fleet.announcement import Presence


class ConnectionLost(Exception):  # noqa: N818 - what happened
    """The scheduler is gone, and with it all that was under way."""


class Connection(Protocol):
    """A tuner's way to the devices; its methods raise ConnectionLost once the scheduler is gone."""

    def devices(self) -> dict[str, Presence]:
        """Return each device, by its address."""
        ...

    def submit(self, address: str, label: str, key: str, signed: bytes) -> None:
        """Send a job to one device; `arrivals` tells of `key`."""
        ...

    def arrivals(self, timeout_s: float) -> list[tuple[str, bytes | None]]:
        """Wait for answers, and return what has come: None where a device was lost."""
        ...

    def cancel(self, key: str) -> None:
        """Forget a job, and its answer."""
        ...

    def close(self) -> None:
        """Give up what is under way."""
        ...


@dataclass(frozen=True)
class FleetOptions:
    """When a tuner gives up on devices, in seconds."""

    start_s: float = 10.0
    """A tuning does not begin where there was no device for so long."""
    patience_s: float = 120.0
    """A tuning ends, with what is recorded, when there was no device for so long."""
    grace_s: float = 60.0
    """Added to the time that a job may take: for its task's data, and the way there and back."""
    refresh_s: float = 1.0
    """The scheduler is asked so often which devices there are."""
    aside_s: float = 60.0
    """A device that hung or was at fault gets nothing for so long."""
    most_faults: int = 3
    """So many faults in a row, or failures that no other device confirms, set a device aside."""
    most_attempts: int = 4
    """A job that was lost on so many devices is a failure of the measuring."""
