"""The processes of a simulated fleet on this machine, and the seconds that they work."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from ansorc.fleet.connection import ConnectionLost
from ansorc.fleet.fleet import connect
from ansorc.fleet.signing import FleetKey

LABEL = "simulated"
_SCHEDULER = "from distributed.cli.dask_scheduler import main; main()"
_ANSORC = "from ansorc.cli.main import main; main()"
_START_S = 120.0
_TICKS = os.sysconf("SC_CLK_TCK")


class LocalFleet:
    """A scheduler and what serves `devices`, as processes; use it as a context manager."""

    def __init__(self, directory: Path, devices: int) -> None:
        self._directory, self._devices = directory, devices
        self.key = directory / "fleet.key"
        if not self.key.exists():
            FleetKey.create(self.key)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port: int = probe.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self._port}"
        self._ends = ExitStack()
        self.scheduler = self.workers = 0.0
        """Seconds of processor time, as of the last `used`."""
        self._processes: list[subprocess.Popen[bytes]] = []

    def commands(self) -> list[tuple[str, ...]]:
        """Return the arguments of Python for each process that serves devices."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self._start(("-c", _SCHEDULER, "--host", "127.0.0.1", "--port", str(self._port),
                         "--no-dashboard"))  # fmt: skip
            for arguments in self.commands():
                self._start(arguments)
            self._wait()
        except BaseException:
            self._ends.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def used(self) -> tuple[float, float]:
        """Return the seconds of processor time of the scheduler, and of all devices, so far."""
        seconds = [_processor_s(one.pid) for one in self._processes]
        return seconds[0], sum(seconds[1:])

    def _start(self, arguments: Sequence[str]) -> None:
        log = self._ends.enter_context(
            (self._directory / f"process-{len(self._processes)}.log").open("w")
        )
        process = subprocess.Popen(
            (sys.executable, *arguments), stdout=log, stderr=log,
            env={**os.environ, "ANSORC_FLEET_KEY": str(self.key)},
        )  # fmt: skip
        self._processes.append(process)
        self._ends.callback(process.wait)
        self._ends.callback(process.kill)

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_S
        while True:
            try:
                connection = connect(self.address)()
            except ConnectionLost:
                if time.monotonic() > deadline:
                    raise
                continue
            try:
                while len(connection.devices()) < self._devices:
                    if time.monotonic() > deadline:
                        raise ConnectionLost(f"not all {self._devices} devices came")
                    time.sleep(0.2)
            finally:
                connection.close()
            return


class SimulatedFleet(LocalFleet):
    """Simulated devices that take so many times as long as recorded, up to 64 in a process."""

    def __init__(self, directory: Path, records: Path, devices: int, slower: float = 1.0) -> None:
        super().__init__(directory, devices)
        self._records, self._slower = records, slower

    def commands(self) -> list[tuple[str, ...]]:
        """Return the processes' arguments."""
        counts = [min(64, self._devices - first) for first in range(0, self._devices, 64)]
        return [
            ("-m", "bench.fleet.simulated", self.address, str(self._records), LABEL, str(count),
             str(self._slower))
            for count in counts
        ]  # fmt: skip


class WorkersHere(LocalFleet):
    """A worker of this machine for each label, as `ansorc worker` starts it."""

    def __init__(self, directory: Path, labels: Sequence[str]) -> None:
        super().__init__(directory, len(labels))
        self._labels = labels

    def commands(self) -> list[tuple[str, ...]]:
        """Return the processes' arguments."""
        # The probe's time is given: the speed of a virtual machine varies.
        return [
            ("-c", _ANSORC, "worker", self.address, "--device", label, "--probe-s", "1e-3")
            for label in self._labels
        ]


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
