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

from ansorc.fleet.connection import ConnectionLost
from ansorc.fleet.fleet import connect
from ansorc.fleet.signing import FleetKey

LABEL = "simulated"
_SCHEDULER = "from distributed.cli.dask_scheduler import main; main()"
_START_S = 120.0
_TICKS = os.sysconf("SC_CLK_TCK")


class SimulatedFleet:
    """A scheduler and `devices` simulated ones in a few processes; use it as a context manager."""

    def __init__(self, directory: Path, records: Path, devices: int, slower: float = 1.0) -> None:
        self._directory, self._records, self._devices = directory, records, devices
        self._slower = slower
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

    def __enter__(self) -> SimulatedFleet:
        try:
            self._start(("-c", _SCHEDULER, "--host", "127.0.0.1", "--port", str(self._port),
                         "--no-dashboard"))  # fmt: skip
            left, each = self._devices, 64
            while left > 0:
                count = min(left, each)
                left -= count
                self._start(("-m", "bench.fleet.simulated", self.address, str(self._records), LABEL,
                             str(count), str(self._slower)))  # fmt: skip
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


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
