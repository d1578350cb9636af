"""The program of a side: a `SideProgram`, and how long its calls take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from ansorc.codegen.call.call_times import back_to_back, with_other_work
from ansorc.ir.aligned import Array

_LONG_S = 1.0
"""A first call of this length is not repeated to learn how long one takes."""


def openvino_options(threads: int) -> dict[str, object]:
    """Return how OpenVINO's CPU plugin compiles a model that is compared: one stream for latency,
    float32 throughout."""
    return {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "EXECUTION_MODE_HINT": "ACCURACY",
    }


class Unsupported(Exception):  # noqa: N818 - it is an answer, not an error
    """The side cannot express the workload; the text says what is missing."""


@dataclass(frozen=True)
class SideProgram:
    """One way in which a side computes the problem, ready to be called."""

    name: str
    """In a few words, what was chosen: a layout, where the weights were prepared."""
    run: Callable[[], object]
    """Compute the result once, as a user of the side calls it."""
    output: Callable[[], Array]
    """The result of the latest run, in the shape or order that the comparison asks for."""
    time: Callable[[float], list[float]] | None = None
    """Seconds a call, of several batches of about so many seconds together: for sides that can
    repeat calls without the interpreter. None to be called from Python."""
    tuned_s: float = 0.0
    """Seconds spent on tuning, in this run."""
    trials: int = 0
    """Programs that were measured for it, in earlier runs too."""
    is_limit: bool = False
    """Whether it is no computation, but what the machine could do: it has no output."""


class Clocked:
    """A program and what one call of it takes, about."""

    def __init__(self, program: SideProgram) -> None:
        self.program = program
        self.call_s = self._first_calls()

    def burst(self, seconds: float) -> list[float]:
        """Run for about `seconds` after a warm-up; return the seconds a call of each batch."""
        if self.program.time is not None:
            return self.program.time(seconds)
        return back_to_back(self.program.run, seconds)

    def times(self, seconds: float) -> dict[str, list[float]]:
        """Return the seconds of calls in each way of calling, each for about `seconds`.

        "seconds": repeated without the interpreter where the side can; "called": back to back from
        Python; "spaced": from Python with other work between. A limit has the first alone.
        """
        times = {"seconds": self.burst(seconds)}
        if self.program.is_limit:
            return times
        run, has_own = self.program.run, self.program.time is not None
        times["called"] = back_to_back(run, seconds) if has_own else times["seconds"]
        return {**times, "spaced": with_other_work(run, seconds)}

    def _first_calls(self) -> float:
        """Warm up, and learn how long a call takes: the least of three calls, of one if long."""
        if self.program.time is not None:
            return statistics.median(self.program.time(0.0))
        first = self._time_call()
        return first if first > _LONG_S else min(self._time_call() for _ in range(3))

    def _time_call(self) -> float:
        begin = time.perf_counter()
        self.program.run()
        return time.perf_counter() - begin
