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
        """Send a job to one device; its answer arrives with `key` in `arrivals`."""
        ...

    def arrivals(self, timeout_s: float) -> list[tuple[str, bytes | None]]:
        """Wait for answers, and return what has come: None where a device was lost."""
        ...

    def cancel(self, key: str) -> None:
        """Forget a job, and its answer."""
        ...

    def close(self) -> None:
        """Cancel all jobs in flight."""
        ...


@dataclass(frozen=True)
class FleetOptions:
    """When a tuner gives up on devices, in seconds."""

    start_s: float = 10.0
    """Time without a device after which a tuning does not begin."""
    patience_s: float = 120.0
    """Time without a device after which a tuning ends; its records are kept."""
    grace_s: float = 60.0
    """Addition to the time limit of a job, for its task's data and the transfers."""
    refresh_s: float = 1.0
    """Interval at which the scheduler is asked for its devices."""
    aside_s: float = 60.0
    """Time for which a device that hung or was at fault gets no jobs."""
    most_faults: int = 3
    """Faults in a row, or failures that no other device confirms, that set a device aside."""
    most_attempts: int = 4
    """Lost attempts after which a job is a failure of the measuring."""
