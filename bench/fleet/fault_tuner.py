"""A tuner of its own process that tunes one task after the other, and notes all that comes.

    python -m bench.fleet.fault_tuner ADDRESS KEY LABEL DIRECTORY TRIALS

What it notes in DIRECTORY/noted.jsonl: "chosen", the key of a program, before a device may have it;
"come" with its result; "recorded" once the search has taken that; "begun" and "ended" or "failed",
with words, around a tuning. A file DIRECTORY/stop ends it after the tuning that is under way.
"""

from __future__ import annotations

import faulthandler
import json
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import ansorc as ac
from ansorc.errors import MeasureError
from ansorc.fleet.connection import FleetOptions
from ansorc.fleet.fleet import Fleet, FleetOrder
from ansorc.search.measure import MeasureOptions, Outcome, RunOptions
from ansorc.search.options import SearchOptions
from ansorc.search.task import Task
from ansorc.search.tune import tune_task
from ansorc.search.tune_options import TuneOptions

SHORT = FleetOptions(start_s=20.0, patience_s=20.0, grace_s=2.0, refresh_s=0.25, aside_s=3.0)
"""As much shorter than usual as the faults are."""
_SEARCH = SearchOptions(population=32, generations=1, cost_model="roofline")
_MEASURING = MeasureOptions(
    RunOptions(threads=1, min_total_s=1e-3, max_total_s=2e-3, min_timeout_s=0.5, retry_share=0.0),
    builders=1, build_timeout_s=1.0,
)  # fmt: skip
_HUNG_S, _START_S = 60.0, 300.0
"""A tuner that notes nothing for so long hangs; one that has not noted anything yet may be waiting
for the disk and the cores until all that it imports is there."""


@dataclass(frozen=True)
class Note:
    """A line of what a tuner noted."""

    what: str
    tuning: str
    words: str
    """Or the key of a program."""
    at: float
    """Seconds, by the clock of the wall."""


class NotingFleet(Fleet):
    """Notes what is chosen, comes and is recorded."""

    def note_to(self, path: Path, tuning: str) -> None:
        """Note to `path` from now on, as of `tuning`."""
        self._notes_to, self._tuning = path.open("a", buffering=1), tuning

    def note(self, what: str, words: str) -> None:
        """Write a line, which stays when this process is killed."""
        self._notes_to.write(json.dumps([what, self._tuning, words, time.time()]) + "\n")

    def measure(self, orders: Iterator[FleetOrder | None]) -> Generator[tuple[FleetOrder, Outcome]]:
        """As `Fleet.measure`."""
        for order, outcome in super().measure(self._chosen(orders)):
            key = order.programs[0].key
            self.note("come", key)
            yield order, outcome
            self.note("recorded", key)

    def _chosen(self, orders: Iterator[FleetOrder | None]) -> Iterator[FleetOrder | None]:
        for order in orders:
            if order is not None:
                self.note("chosen", order.programs[0].key)
            yield order


def task_of(number: int, fleet: Fleet) -> Task:
    """Return the task of a tuning: a small product, another one each time."""
    n, k = 24 + 8 * (number % 8), 16 + 8 * (number // 8)
    a, b = ac.placeholder((n, k), name="A"), ac.placeholder((k, 32), name="B")
    return Task(ac.ComputeDAG([a, b, ac.ops.matmul(a, b, name="C")]), fleet.target)


def tune_on(fleet: NotingFleet, directory: Path, trials: int, number: int) -> None:
    """Tune task `number`, or go on with that; raise MeasureError where no device is left."""
    fleet.note_to(directory / "noted.jsonl", str(number))
    fleet.note("begun", "")
    options = TuneOptions(
        trials, directory / f"tune-{number}.db", seed=number, threads=1, search=_SEARCH,
        measuring=_MEASURING, measurer=fleet,
    )  # fmt: skip
    result = tune_task(task_of(number, fleet), options)
    fleet.note("notes", "; ".join(result.notes))
    fleet.note("ended", fleet.summary)


def noted(directory: Path) -> list[Note]:
    """Return what a tuner noted, oldest first; a line that it was killed at is left out."""
    path = directory / "noted.jsonl"
    lines = path.read_text().split("\n") if path.exists() else []
    return [Note(*json.loads(line)) for line in lines[:-1] if line]


class TunerProcess:
    """A tuner in a process, which can be killed and goes on then; `hangs` counts what it must not.

    `label`: of the devices that it tunes for.
    """

    def __init__(self, address: str, key: Path, label: str, directory: Path, trials: int) -> None:
        self.directory, self.label = directory, label
        directory.mkdir()
        self._arguments = (address, str(key), label, str(directory), str(trials))
        self._watched = time.monotonic()
        self.hangs: list[str] = []
        self.ends: list[str] = []
        """Exits that it was not asked for."""
        self._process = self._start()

    @property
    def has_begun(self) -> bool:
        """Whether it has noted anything."""
        return self._noted_bytes() > 0

    def watch(self) -> None:
        """Look whether it lives and goes on; start it again if not."""
        size = self._noted_bytes()
        now = time.monotonic()
        # All these processes may be stopped together, while something else is measured.
        self._idle_s += min(now - self._watched, 0.5)
        self._watched = now
        if size != self._size:
            self._size, self._idle_s, self._limit_s = size, 0.0, _HUNG_S
        if self._process.poll() is not None:
            self.ends.append(f"exit code {self._process.returncode}")
            self._process = self._start()
        elif self._idle_s > self._limit_s:
            self.hangs.append(f"nothing for {self._limit_s:.0f} s after {size} bytes")
            self._process.send_signal(signal.SIGUSR1)
            time.sleep(1)
            self.kill()

    def kill(self) -> None:
        """Kill it, and start it again."""
        self._process.kill()
        self._process.wait()
        self._process = self._start()

    def stop(self, timeout_s: float) -> None:
        """Let it end its tuning; it hangs if that takes longer."""
        (self.directory / "stop").touch()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.hangs.append(f"it did not end its tuning in {timeout_s:.0f} s")
            self._process.send_signal(signal.SIGUSR1)
            time.sleep(1)
            self.close()

    def close(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()

    def _noted_bytes(self) -> int:
        path = self.directory / "noted.jsonl"
        return path.stat().st_size if path.exists() else 0

    def _start(self) -> subprocess.Popen[bytes]:
        self._size, self._idle_s, self._limit_s = self._noted_bytes(), 0.0, _START_S
        with (self.directory / "tuner.log").open("ab") as log:
            return subprocess.Popen(
                (sys.executable, "-m", "bench.fleet.fault_tuner", *self._arguments),
                stdout=log, stderr=log,
            )  # fmt: skip


def main() -> None:
    """Tune until there is a file that says stop."""
    faulthandler.register(signal.SIGUSR1)
    address, key, label, place, trials = sys.argv[1:]
    directory = Path(place)
    with NotingFleet(address, label, key=key, options=SHORT) as fleet:
        while not (directory / "stop").exists():
            number = sum(one.what == "ended" for one in noted(directory))
            try:
                tune_on(fleet, directory, int(trials), number)
            except MeasureError as error:
                fleet.note_to(directory / "noted.jsonl", str(number))
                fleet.note("failed", str(error))


if __name__ == "__main__":
    main()
