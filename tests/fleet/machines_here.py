"""A real scheduler and real workers, each a process, on this machine."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from ansorc.fleet.connection import ConnectionLost
from ansorc.fleet.fleet import connect

COMMAND = (sys.executable, "-c", "from ansorc.cli.main import main; main()")
SCHEDULER = "from distributed.cli.dask_scheduler import main; main()"


class FleetHere:
    """Starts a scheduler and workers, kills them, and ends what is left of them."""

    def __init__(self, directory: Path, key: Path, protocol: str = "tcp") -> None:
        self._directory, self._host = directory, f"{protocol}://127.0.0.1"
        self.environment = {**os.environ, "ANSORC_FLEET_KEY": str(key)}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port: int = probe.getsockname()[1]
        self.address = f"{self._host}:{self._port}"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = self.start_scheduler()

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        arguments = ("--host", self._host, "--port", str(self._port), "--no-dashboard")
        self.scheduler = self._start((sys.executable, "-c", SCHEDULER, *arguments), "scheduler")
        return self.scheduler

    def start_worker(
        self, label: str, probe_s: float = 1e-3, *more: str, before: str = ""
    ) -> subprocess.Popen[bytes]:
        """The probe's time is given: this machine is busy with tests. `before`: Python text."""
        arguments = ("worker", self.address, "--device", label, "--probe-s", str(probe_s), *more)
        command = (*COMMAND[:2], before + COMMAND[2], *arguments)
        return self._start(command, f"worker-{len(self.processes)}")

    def wait_for_devices(self, count: int, timeout_s: float = 60.0) -> None:
        """Wait until the scheduler tells of so many: a worker says that it serves before that."""
        deadline = time.monotonic() + timeout_s
        while True:
            with contextlib.suppress(ConnectionLost), closing(connect(self.address)()) as client:
                while len(client.devices()) != count:
                    assert time.monotonic() < deadline, self.logs()
                    time.sleep(0.05)
                return
            assert time.monotonic() < deadline, self.logs()

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self._directory.glob("*.log")))

    def wait_for(self, pattern: str, timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not re.search(pattern, self.logs()):
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.05)

    def close(self) -> None:
        for process in reversed(self.processes):
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    def _start(self, command: tuple[str, ...], name: str) -> subprocess.Popen[bytes]:
        with (self._directory / f"{name}-{len(self.processes)}.log").open("w") as log:
            process = subprocess.Popen(
                command, env=self.environment, stdout=log, stderr=log, cwd=self._directory
            )
        self.processes.append(process)
        return process
