"""Devices that fail as they are told to, each in a process of its own, and their scheduler.

A device sleeps for a trial and answers a made-up outcome that follows from the program alone, so
that everybody knows what must be recorded. All processes are forks of one that has everything
imported: a start costs milliseconds.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import sys
import tempfile
import time
from ctypes import Array, c_double
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path

from distributed.cli.dask_scheduler import main as scheduler_main

from ansorc.fleet.announcement import Announcement
from ansorc.fleet.device import FleetDevice, Sandbox
from ansorc.fleet.engine import run_devices
from ansorc.fleet.jobs import programs_of, results_message
from ansorc.fleet.signing import FleetKey
from ansorc.search.measure import Failure, FailureKind, Measurement, Outcome, ProgramText
from ansorc.search.measure.messages import Message
from bench.fleet.simulated import SimulatedLabour

WRONG = Failure.of(FailureKind.WRONG_RESULT, "the numbers differ")
_FACTOR, _IS_WRONG, _STUCK_S = range(3)


@dataclass(frozen=True)
class MadeUpTimes:
    """Outcomes that follow from the program: one of 16 is wrong, the others take 1 to 2 ms.

    A trial takes half of `trial_s` to one and a half of it.
    """

    trial_s: float

    def tried(self, program: ProgramText) -> tuple[Outcome, float]:
        """Return what comes of `program`, and the seconds that it takes a device."""
        digest = hashlib.sha256(program.key.encode()).digest()
        seconds = self.trial_s * (0.5 + digest[0] / 255)
        if digest[1] < 16:
            return WRONG, seconds
        return Measurement(
            (1e-3 * (1 + int.from_bytes(digest[2:6], "big") / 2**32),), True
        ), seconds


class Faults:
    """What a device does wrong now; shared with its process, whichever that is."""

    def __init__(self, context: ForkServerContext) -> None:
        self._values: Array[c_double] = context.Array("d", [1.0, 0.0, 0.0], lock=False)

    @property
    def factor(self) -> float:
        """Its clock runs so many times as fast."""
        return self._values[_FACTOR]

    @factor.setter
    def factor(self, value: float) -> None:
        self._values[_FACTOR] = value

    @property
    def is_wrong(self) -> bool:
        """All that it computes is wrong."""
        return bool(self._values[_IS_WRONG])

    @is_wrong.setter
    def is_wrong(self, value: bool) -> None:
        self._values[_IS_WRONG] = value

    @property
    def stuck_s(self) -> float:
        """It takes so many seconds more for a trial."""
        return self._values[_STUCK_S]

    @stuck_s.setter
    def stuck_s(self, value: float) -> None:
        self._values[_STUCK_S] = value


class FaultyLabour:
    """Sleeps, writes a file as a build does, and answers what `faults` make of the outcome."""

    def __init__(self, trial_s: float, faults: Faults) -> None:
        self._times, self._faults = MadeUpTimes(trial_s), faults
        self._labour = SimulatedLabour(self._times)

    def do(self, job: Message) -> Message:
        """Do one job; raise OSError where nothing can be written."""
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"object code")
        answer = self._labour.do(job)
        until = time.monotonic() + self._faults.stuck_s
        while time.monotonic() < until and self._faults.stuck_s:
            time.sleep(0.1)
        if self._faults.factor == 1 and not self._faults.is_wrong:
            return answer
        return results_message(job, list(map(self._disturbed, programs_of(job))))

    def close(self) -> None:
        """There is nothing to free."""

    def _disturbed(self, program: ProgramText) -> Outcome:
        outcome, _ = self._times.tried(program)
        if self._faults.is_wrong:
            return WRONG
        if isinstance(outcome, Measurement):
            return Measurement((outcome.seconds[0] * self._faults.factor,), True)
        return outcome


class Paced:
    """Measures really, in processes of its own, and rests after each job: others need the cores."""

    def __init__(self, rest_s: float) -> None:
        self._sandbox, self._rest_s = Sandbox(), rest_s

    def do(self, job: Message) -> Message:
        """Do one job."""
        answer = self._sandbox.do(job)
        time.sleep(self._rest_s)
        return answer

    def close(self) -> None:
        """Kill the processes that measure."""
        self._sandbox.close()


@dataclass(frozen=True)
class DeviceOrder:
    """What a process of a device is to be: it announces `known` at the scheduler at `port`.

    A trial takes about `trial_s`; one that `is_real` measures, and rests as long after each.
    """

    known: Announcement
    port: int
    trial_s: float
    is_real: bool
    key: Path
    log: Path


def serve_device(order: DeviceOrder, faults: Faults) -> None:
    """Serve one device until this process is ended."""
    _log_to(order.log)
    labour = Paced(order.trial_s) if order.is_real else FaultyLabour(order.trial_s, faults)
    device = FleetDevice(
        order.known, FleetKey.read(order.key), labour,
        lambda enough_s: order.known.probe_s * faults.factor,
    )  # fmt: skip
    run_devices(f"tcp://127.0.0.1:{order.port}", [device], lambda words: print(words, flush=True))


def serve_scheduler(port: int, log: Path) -> None:
    """Be a scheduler until this process is ended."""
    _log_to(log)
    scheduler_main(["--host", "127.0.0.1", "--port", str(port), "--no-dashboard"])


def fork_server() -> ForkServerContext:
    """Return what makes the processes; it imports all this once."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(["bench.fleet.faulty"])
    return made


def _log_to(path: Path) -> None:
    with path.open("ab") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
