"""A live runner: arrays, code and programs on its machine, by number; each method is a request."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ansorc.fleet.drawn_inputs import Draw
from ansorc.fleet.frames import MOST_PAYLOAD
from ansorc.fleet.runner_link import RunnerLink, RunnerRequest
from ansorc.fleet.runner_machine import RunnerMachine
from ansorc.ir.packing import Packing
from ansorc.search.measure.options import RunOptions

_PIECE = MOST_PAYLOAD - 64
_CODE_ARRAY = 0
"""The number of the array for object code that is loaded later."""
_ARRAYS = 1024
MOST_PROGRAMS = 16
"""The most programs of one trial."""
_TIMED, _IN_TURNS = 1, 2
_CACHES = ("warm", "cold", "cold-weights")
_START_S = 60.0
_GRACE_S = 30.0
"""Added to the limit of a trial, for the way there and back."""


class TrialOutcome(IntEnum):
    """The end of a trial."""

    DONE = 0
    STATUS = 1
    SIGNAL = 2
    TIMEOUT = 3
    OUTSIDE = 4
    NO_MEMORY = 5
    ENDED = 6


STAGES = ("while it was made ready", "in its first call", "while it was timed")


class ArgumentKind(IntEnum):
    """The role of a kernel's argument for the runner."""

    INPUT = 0
    OUTPUT = 1
    CONSTANT = 2


@dataclass(frozen=True)
class BoardProgram:
    """A kernel that is loaded, and its arguments: the numbers of arrays, or of outputs."""

    code: int
    workspace_bytes: int
    arguments: tuple[tuple[ArgumentKind, int], ...]

    def encode(self) -> bytes:
        """Return it as it is on the pipe."""
        head = struct.pack("<IQI", self.code, self.workspace_bytes, len(self.arguments))
        return head + b"".join(struct.pack("<II", *argument) for argument in self.arguments)


@dataclass(frozen=True)
class BoardTrial:
    """Programs of one task to be called, and to be timed unless they are only checked."""

    programs: tuple[BoardProgram, ...]
    outputs: tuple[tuple[int, int], ...]
    """Bytes of each, and the byte that it is poisoned with."""
    options: RunOptions
    limit_s: float
    best_s: float = 0.0
    is_timed: bool = True
    in_turns: bool = False

    def encode(self) -> bytes:
        """Return it as it is on the pipe."""
        options = self.options
        flags = _TIMED * self.is_timed | _IN_TURNS * self.in_turns
        head = struct.pack(
            "<IIiIIId", flags, _CACHES.index(options.cache), options.threads,
            len(self.programs), len(self.outputs), 0, self.limit_s,
        )  # fmt: skip
        timing = struct.pack(
            "<4I8d", options.min_repeats, options.max_repeats, options.rank_rounds,
            options.rank_least_rounds, self.best_s, options.min_total_s, options.max_total_s,
            options.precision, options.near_factor, options.early_stop_factor,
            options.rank_total_s, options.rank_repeat_s,
        )  # fmt: skip
        outputs = b"".join(struct.pack("<QI", *output) for output in self.outputs)
        return head + timing + outputs + b"".join(output.encode() for output in self.programs)


@dataclass(frozen=True)
class ProgramTimes:
    """The times of one program of a trial that was done."""

    first_s: float
    seconds: tuple[float, ...]
    stopped_early: bool
    digests: bytes
    """Digest of all outputs after the first call: equal digests mean equal bits."""


@dataclass(frozen=True)
class TrialReport:
    """The runner's report of a trial."""

    outcome: TrialOutcome
    value: int
    """The kernel's status, the signal, or the number of the output."""
    stage: str
    program: int
    """The program that ran when the trial failed."""
    times: tuple[ProgramTimes, ...]
    """The outcome of each program, if it ran."""

    @staticmethod
    def decode(answer: bytes, programs: int, outputs: int) -> TrialReport:
        """Return what a runner answers to a trial."""
        outcome, value, stage, program = struct.unpack_from("<4I", answer)
        times: list[ProgramTimes] = []
        at = 16
        for _ in range(programs if outcome == TrialOutcome.DONE else 0):
            count, stopped, first_s = struct.unpack_from("<IId", answer, at)
            at += 16
            digests = answer[at : at + 16 * outputs]
            at += 16 * outputs
            seconds = struct.unpack_from(f"<{count}d", answer, at)
            at += 8 * count
            times.append(ProgramTimes(first_s, seconds, bool(stopped), digests))
        return TrialReport(TrialOutcome(outcome), value, STAGES[stage], program, tuple(times))


class BoardRunner:
    """A runner that `command` started, and what its machine is.

    Methods raise LinkError if the runner is lost, and RefusedError if it refuses a request.
    """

    def __init__(self, command: str) -> None:
        self.link = RunnerLink(command)
        try:
            hello = self.link.request(RunnerRequest.HELLO, timeout_s=_START_S)
            self.machine = RunnerMachine.of(hello, command)
        except BaseException:
            self.link.close()
            raise
        self._free = list(range(_ARRAYS - 1, _CODE_ARRAY, -1))

    def close(self) -> None:
        """End it; may be called twice."""
        self.link.close()

    def allocate(self, nbytes: int) -> int:
        """Return the number of a new array."""
        number = self._free.pop()
        self._allocate(number, nbytes)
        return number

    def drop(self, number: int) -> None:
        """Free an array."""
        self.link.request(RunnerRequest.DROP, struct.pack("<I", number))
        self._free.append(number)

    def write(self, number: int, content: bytes) -> None:
        """Put `content` into an array, from its beginning on."""
        for begin in range(0, len(content), _PIECE):
            head = struct.pack("<IQ", number, begin)
            self.link.request(RunnerRequest.WRITE, head + content[begin : begin + _PIECE])

    def draw(self, number: int, draw: Draw) -> None:
        """Fill an array with what `draw` makes."""
        request = struct.pack("<4IQ", number, *draw.codes, draw.seed)
        self.link.request(RunnerRequest.DRAW, request)

    def pack(self, source: int, packed: int, packing: Packing) -> None:
        """Fill the array `packed` as `packing`, which has no transforms, says."""
        shape, dtype = packing.source.shape, packing.source.dtype
        request = struct.pack(
            "<6I", source, packed, dtype.bytes, len(shape), len(packing.parts), 0
        ) + b"".join(
            [struct.pack("<qq", *pair) for pair in zip(shape, packing.offsets, strict=True)]
            + [struct.pack("<IIqq", p.dimension, 0, p.stride, p.extent) for p in packing.parts]
        )
        self.link.request(RunnerRequest.PACK, request)

    def load(self, code: int, object_code: bytes, name: str) -> None:
        """Load an object file as number `code`, for its function `name`."""
        self._allocate(_CODE_ARRAY, len(object_code))
        self.write(_CODE_ARRAY, object_code)
        request = struct.pack("<II", code, _CODE_ARRAY) + name.encode()
        self.link.request(RunnerRequest.LOAD, request)

    def run(self, trial: BoardTrial) -> TrialReport:
        """Run a trial in a process of its own."""
        answer = self.link.request(RunnerRequest.RUN, trial.encode(), trial.limit_s + _GRACE_S)
        return TrialReport.decode(answer, len(trial.programs), len(trial.outputs))

    def fetch(self, output: int, dtype: np.dtype[np.generic], count: int) -> NDArray[np.generic]:
        """Return what an output of the last trial holds, of `count` elements."""
        size = count * dtype.itemsize
        pieces = [
            self.link.request(
                RunnerRequest.FETCH,
                struct.pack("<IQI", output, begin, min(_PIECE, size - begin)),
            )
            for begin in range(0, size, _PIECE)
        ]
        return np.frombuffer(b"".join(pieces), dtype, count)

    def _allocate(self, number: int, nbytes: int) -> None:
        self.link.request(RunnerRequest.ALLOCATE, struct.pack("<IQ", number, nbytes))
