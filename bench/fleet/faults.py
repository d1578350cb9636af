"""Random faults of a fleet: which, when, for how long; how each begins and is mended."""

from __future__ import annotations

import heapq
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.fleet.fault_tuner import TunerProcess
from bench.fleet.faulty_fleet import FaultyDevice, FaultyFleet, limit_files, send

Mend = Callable[[], None]
_LONG_PARTITION_S = 60.0


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault, how often it comes beside the others, and for how many seconds."""

    name: str
    share: float
    seconds: tuple[float, float]


OF_DEVICES = (
    FaultKind("killed", 4, (0.2, 4)),
    FaultKind("stopped", 3, (0.5, 12)),
    FaultKind("cut off", 3, (0.5, 12)),
    FaultKind("connections reset", 1, (0.1, 0.2)),
    FaultKind("lies", 3, (1, 6)),
    FaultKind("computes wrongly", 2, (1, 6)),
    FaultKind("does not end", 2, (3, 12)),
    FaultKind("disk full", 3, (1, 6)),
    FaultKind("back slower", 2, (1, 6)),
    FaultKind("cut off for a minute", 0.2, (_LONG_PARTITION_S, _LONG_PARTITION_S)),
)
_SIMULATED_ALONE = {"lies", "computes wrongly", "does not end", "back slower"}
OF_FLEET = (
    FaultKind("scheduler killed", 2, (0.1, 3)),
    FaultKind("scheduler stopped", 1, (0.5, 8)),
    FaultKind("tuner cut off", 1, (0.5, 12)),
    FaultKind("tuner killed", 1, (0.1, 0.2)),
)


class Disturbance:
    """Lets faults come at random times, the same ones for the same seed; mends each later.

    At most half of the simulated devices, and one real one, have a fault at once.
    """

    def __init__(
        self, fleet: FaultyFleet, tuners: Sequence[TunerProcess], seed: int,
        shortened: float = 1.0,
    ) -> None:  # fmt: skip
        self._fleet, self._tuners, self._rng = fleet, tuners, random.Random(seed)
        self._shortened = shortened
        self._mends: list[tuple[float, int, Mend]] = []
        self._fleet_fault = ""
        self.begun: Counter[str] = Counter()

    def begin_one(self) -> None:
        """Let one fault begin."""
        kinds = (*OF_DEVICES, *OF_FLEET)
        (kind,) = self._rng.choices(kinds, [one.share for one in kinds])
        seconds = self._rng.uniform(*kind.seconds)
        if seconds < _LONG_PARTITION_S:
            seconds *= self._shortened
        device = self._rng.choice(self._fleet.devices)
        self._wait_until_possible(kind, device)
        if kind in OF_FLEET:
            mend = self._begin_of_fleet(kind.name)
        else:
            device = self._able(kind, device)
            device.fault = kind.name
            mend = self._begin_of_device(kind.name, device)
        self.begun[kind.name] += 1
        heapq.heappush(self._mends, (time.monotonic() + seconds, self.begun.total(), mend))

    def wait(self, seconds: float) -> None:
        """Wait so long, and mend what is to be mended meanwhile."""
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            while self._mends and self._mends[0][0] <= now:
                heapq.heappop(self._mends)[2]()
            for tuner in self._tuners:
                tuner.watch()
            time.sleep(0.02)

    def mend_all(self) -> None:
        """Wait until every fault is mended."""
        while self._mends:
            self.wait(0.1)

    def _wait_until_possible(self, kind: FaultKind, device: FaultyDevice) -> None:
        while self._fleet_fault if kind in OF_FLEET else self._able(kind, device).fault:
            self.wait(0.05)

    def _able(self, kind: FaultKind, device: FaultyDevice) -> FaultyDevice:
        """`device` if it may have the fault, else the next one that may, if there is one."""
        devices = self._fleet.devices
        first = devices.index(device)
        around = [*devices[first:], *devices[:first]]
        if kind.name in _SIMULATED_ALONE:
            around = [one for one in around if not one.order.is_real]
        for one in around:
            alike = [other for other in devices if other.order.is_real == one.order.is_real]
            bad = [other for other in alike if other.fault]
            is_liar = kind.name == "computes wrongly"
            if one.fault or 2 * (len(bad) + 1) > len(alike):
                continue
            if is_liar and any(other.fault == kind.name for other in bad):
                continue
            return one
        return next((one for one in around if one.fault), around[0])

    def _begin_of_device(self, name: str, device: FaultyDevice) -> Mend:
        fleet, faults = self._fleet, device.faults

        def end() -> None:
            device.fault = ""

        if name == "killed":
            fleet.kill(device)
            return lambda: (fleet.start(device), end())[1]
        if name == "stopped":
            send(device, signal.SIGSTOP)
            return lambda: (send(device, signal.SIGCONT), end())[1]
        if name.startswith("cut off"):
            device.proxy.hold()
            is_reset = self._rng.random() < 0.5
            return lambda: (is_reset and device.proxy.cut(), device.proxy.release(), end())[2]
        if name == "connections reset":
            device.proxy.cut()
            return end
        if name == "disk full":
            limit_files(device, is_full=True)
            return lambda: (limit_files(device, is_full=False), end())[1]
        if name == "back slower":
            fleet.kill(device)
            fleet.start(device, slower=self._rng.choice([0.7, 1.3, 3.0]))
            return lambda: (fleet.kill(device), fleet.start(device), end())[2]
        if name == "lies":
            faults.factor = self._rng.choice([3.0, 1 / 3])
        elif name == "computes wrongly":
            faults.is_wrong = True
        else:
            faults.stuck_s = 1e6
        return lambda: (_set_right(device), end())[1]

    def _begin_of_fleet(self, name: str) -> Mend:
        fleet = self._fleet
        self._fleet_fault = name

        def end() -> None:
            self._fleet_fault = ""

        if name == "scheduler killed":
            fleet.kill_scheduler()
            return lambda: (fleet.start_scheduler(), end())[1]
        if name == "scheduler stopped":
            fleet.signal_scheduler(signal.SIGSTOP)
            return lambda: (fleet.signal_scheduler(signal.SIGCONT), end())[1]
        if name == "tuner cut off":
            fleet.tuners_proxy.hold()
            return lambda: (fleet.tuners_proxy.release(), end())[1]
        self._rng.choice(self._tuners).kill()
        return end


def _set_right(device: FaultyDevice) -> None:
    device.faults.factor, device.faults.is_wrong, device.faults.stuck_s = 1.0, False, 0.0
