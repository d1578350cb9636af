"""A scheduler and devices on this machine, each of which can be made to fail and be mended."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from ansorc.fleet.announcement import Announcement
from ansorc.fleet.fleet import connect
from ansorc.fleet.signing import FleetKey
from ansorc.fleet.status import DeviceStatus, fleet_status
from bench.fleet.faulty import DeviceOrder, Faults, fork_server, serve_device, serve_scheduler
from bench.fleet.proxy import Proxy

SIMULATED, REAL = "simulated", "real"
_PROBE_S = 1e-3
_UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


@dataclass(eq=False)
class FaultyDevice:
    """A device: its process, its way to the scheduler, and what is wrong with it."""

    order: DeviceOrder
    faults: Faults
    proxy: Proxy
    process: ForkServerProcess | None = None
    fault: str = ""
    """The one that it has now."""

    @property
    def name(self) -> str:
        """What it is called in the log."""
        return self.order.log.stem


class FaultyFleet:
    """`simulated` devices, `real` ones and a scheduler; use it as a context manager.

    A trial takes a simulated device about `trial_s`, a real one rests as long after each.
    """

    def __init__(self, directory: Path, simulated: int, real: int, trial_s: float) -> None:
        self._directory = directory
        self._context = fork_server()
        self.key = FleetKey.create(directory / "fleet.key")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.scheduler: ForkServerProcess | None = None
        self.tuners_proxy = Proxy(self.port)
        known = Announcement.here(SIMULATED, _PROBE_S)
        self.devices: list[FaultyDevice] = []
        for number in range(simulated + real):
            label = SIMULATED if number < simulated else REAL
            proxy = Proxy(self.port)
            log = directory / f"{label}-{number}.log"
            order = DeviceOrder(replace(known, label=label), proxy.port, trial_s, label == REAL,
                                self.key, log)  # fmt: skip
            self.devices.append(FaultyDevice(order, Faults(self._context), proxy))

    def __enter__(self) -> FaultyFleet:
        try:
            self.start_scheduler()
            for device in self.devices:
                self.start(device)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes."""
        for device in self.devices:
            self.kill(device)
            device.proxy.close()
        self.kill_scheduler()
        self.tuners_proxy.close()

    @property
    def address(self) -> str:
        """The scheduler's, for those who are never cut off from it."""
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def tuners_address(self) -> str:
        """The scheduler's, for tuners."""
        return f"tcp://127.0.0.1:{self.tuners_proxy.port}"

    def start_scheduler(self) -> None:
        """Start the scheduler, at the same port each time."""
        log = self._directory / "scheduler.log"
        self.scheduler = self._process(serve_scheduler, self.port, log)

    def kill_scheduler(self) -> None:
        """Kill the scheduler."""
        _kill(self.scheduler)
        self.scheduler = None

    def signal_scheduler(self, number: int) -> None:
        """Send a signal to the scheduler."""
        assert self.scheduler is not None
        assert self.scheduler.pid is not None
        os.kill(self.scheduler.pid, number)

    def start(self, device: FaultyDevice, slower: float = 1.0) -> None:
        """Start the process of a device, whose machine is so many times as slow as it was."""
        known = replace(device.order.known, probe_s=_PROBE_S * slower)
        device.process = self._process(
            serve_device, replace(device.order, known=known), device.faults
        )

    def kill(self, device: FaultyDevice) -> None:
        """Kill the process of a device, and those that it started."""
        for pid in processes_of(device):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _kill(device.process)
        device.process = None

    def status(self) -> list[DeviceStatus]:
        """Return what the scheduler tells of the devices; raise ConnectionLost without one."""
        connection = connect(self.address)()
        try:
            return fleet_status(connection, FleetKey.read(self.key))
        finally:
            connection.close()

    def _process(self, target: Callable[..., None], *arguments: object) -> ForkServerProcess:
        process = self._context.Process(target=target, args=arguments, daemon=False)
        process.start()
        return process


def processes_of(device: FaultyDevice) -> list[int]:
    """Return the ids of the process of a device and of all that descend from it, itself last."""
    if device.process is None or device.process.pid is None:
        return []
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(place.name))
    found = [device.process.pid]
    for pid in found:
        found += children.get(pid, [])
    return found[::-1]


def limit_files(device: FaultyDevice, *, is_full: bool) -> None:
    """Let the processes of a device write no files, as on a full disk; or again."""
    limits = (0, resource.RLIM_INFINITY) if is_full else _UNLIMITED
    for pid in processes_of(device):
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)


def send(device: FaultyDevice, number: int) -> None:
    """Send a signal to the processes of a device."""
    for pid in processes_of(device):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _kill(process: ForkServerProcess | None) -> None:
    if process is not None:
        process.kill()
        process.join()
