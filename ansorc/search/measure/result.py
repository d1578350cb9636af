"""Outcomes of measuring a program: its times or a typed failure, and what they cost."""

from __future__ import annotations

import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from enum import Enum
from functools import cached_property
from typing import Self, TypeAlias


class Stopwatch:
    """Adds up seconds by phase; while an inner phase runs, the outer one stands still.

    It counts the phases of the thread that made it; those of others run beside what it waits for.
    `clock` returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._thread = threading.get_ident()
        self._since = clock()
        self._open: list[str] = []
        self._seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def phase(self, name: str) -> Generator[None]:
        """Count the time spent inside of the `with` as `name`."""
        if threading.get_ident() != self._thread:
            yield
            return
        self._turn()
        self._open.append(name)
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    def seconds(self, name: str) -> float:
        """Return the seconds of phase `name` so far."""
        return self._seconds.get(name, 0.0)

    def _turn(self) -> None:
        now = self._clock()
        if self._open:
            self._seconds[self._open[-1]] += now - self._since
        self._since = now


@dataclass(frozen=True)
class _Cost:
    @property
    def total_s(self) -> float:
        """Seconds for all phases."""
        return sum(astuple(self))

    @classmethod
    def sum(cls, costs: Iterable[Self]) -> Self:
        """Return the sum of `costs`, phase by phase."""
        return cls(*map(sum, zip(*map(astuple, costs), strict=True)))


@dataclass(frozen=True)
class BuildCost(_Cost):
    """Seconds that each phase of building a candidate took."""

    lower_s: float = 0.0
    passes_s: float = 0.0
    emit_s: float = 0.0
    llvm_s: float = 0.0


@dataclass(frozen=True)
class RunCost(_Cost):
    """Seconds that each phase of running a candidate took."""

    prepare_s: float = 0.0
    """Linking the machine code, packing constants."""
    warm_up_s: float = 0.0
    """The first call, which is not timed."""
    check_s: float = 0.0
    """Poisoning the outputs and comparing them with the reference."""
    repeats_s: float = 0.0
    """The timed calls, with what is done between them."""


_MESSAGE_CHARACTERS = 500

ProbeTime: TypeAlias = tuple[float, float]
"""When a worker ran its probe, by the clock that all processes share, and the seconds that it took
(`timing.NoiseProbe`)."""


class FailureKind(Enum):
    """Why a candidate has no time."""

    REFUSED = "refused"
    """A step does not fit the program (ScheduleError)."""
    LOWERING = "lowering"
    """The schedule could not be turned into a legal loop program."""
    COMPILE = "compile"
    """Machine code could not be made or loaded."""
    BUILD_TIMEOUT = "build timeout"
    CRASH = "crash"
    """The process died by a signal while it held the candidate."""
    RUN_TIMEOUT = "run timeout"
    OUT_OF_MEMORY = "out of memory"
    WRONG_RESULT = "wrong result"
    """The numbers differ from the float64 reference by more than rounding explains."""
    UNTIMED = "untimed"
    """Right, but run in an emulator, whose times are worth nothing."""
    UNKNOWN = "unknown"
    """A fault of the measuring itself; such a candidate may be measured again."""


@dataclass(frozen=True, kw_only=True)
class _Costs:
    """What an outcome cost; outcomes that say the same are equal whatever they cost."""

    build: BuildCost = field(default_factory=BuildCost, compare=False, repr=False)
    run: RunCost = field(default_factory=RunCost, compare=False, repr=False)
    """All zero where equal code was timed before: that outcome is repeated."""


@dataclass(frozen=True)
class Failure(_Costs):
    """Why a candidate could not be timed, in at most 500 characters."""

    kind: FailureKind
    message: str
    detail: str = field(default="", compare=False, repr=False)
    """The whole error text (traceback, log of the dead process), for people; not recorded."""

    @staticmethod
    def of(kind: FailureKind, message: str, detail: str = "") -> Failure:
        """Return a failure whose message is one short line of `message`."""
        line = " ".join(message.split())
        if len(line) > _MESSAGE_CHARACTERS:
            line = line[: _MESSAGE_CHARACTERS - 1] + "…"
        return Failure(kind, line, detail or message)


@dataclass(frozen=True)
class Measurement(_Costs):
    """How long a candidate ran: one entry for each repeat, in seconds for one call."""

    seconds: tuple[float, ...]
    checked: bool
    """Its output was compared with the float64 reference and agreed."""
    stopped_early: bool = False
    """Timing stopped after one repeat because it was far slower than the best known."""
    max_error: float = 0.0
    """Largest deviation from the reference, in units of the tolerance; 0 when not checked."""
    note: str = ""
    """The device's note on its clock at that time; it is the message of the record."""

    @cached_property
    def median_s(self) -> float:
        """The middle of the repeats, in seconds."""
        return statistics.median(self.seconds)

    @cached_property
    def spread_s(self) -> float:
        """The distance between the quartiles of the repeats, in seconds; 0 for one repeat."""
        if len(self.seconds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return high - low


Outcome: TypeAlias = Measurement | Failure
"""What comes of one program. It does not hold the program: whoever asked knows which it was."""
