"""Run a compiled kernel on fresh inputs, hold its numbers against the reference, then time it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import partial

import numpy as np

from ansorc.codegen.base import backend_of
from ansorc.codegen.call.call_times import CallTimes, call_times
from ansorc.codegen.call.module import Module
from ansorc.codegen.call.timing import Timing
from ansorc.errors import MeasureError
from ansorc.ir.aligned import Array
from ansorc.search.measure.check import expectations
from ansorc.search.measure.data import draw_with_rounding
from ansorc.search.measure.drawn_data import Inputs
from ansorc.search.task import Task

_PAIRS, _PROBE_S, _KERNEL_S, _CALLS_S = 11, 0.01, 0.03, 0.1


@dataclass(frozen=True)
class CheckedTime:
    """The time of a kernel whose numbers were right."""

    timing: Timing
    error: float
    """Largest deviation from the float64 reference, in units of the tolerance."""
    peak_share: float
    """Its FLOP/s by what an FMA probe reached right before, the median of several pairs."""
    calls: CallTimes
    """The times of calls from Python."""


def check_and_time(
    task: Task,
    module: Module,
    rng: np.random.Generator,
    *,
    threads: int = 0,
    given: Inputs | None = None,
) -> CheckedTime:
    """Run `module` on random inputs of `task`, or those `given` by name, and return its time.

    Kernel and FMA probe are timed in turns: the clock of a machine changes within seconds, and
    only what ran at the same clock compares. Raise MeasureError if an output deviates from the
    float64 reference by more than rounding.
    """
    inputs, references, roundings = draw_with_rounding(task, rng, given)
    arrays = _arguments(task, inputs)
    packed = [
        module.pack(param.name, array) if param.is_rewritten else array
        for param, array in zip(module.signature.params, arrays, strict=True)
    ]
    module(*packed, threads=threads)
    by_name = dict(zip((b.name for b in task.dag.arguments), arrays, strict=True))
    by_name |= {new: by_name[old] for new, old in task.dag.updates.items()}
    worst = 0.0
    expected = expectations(task.dag, references, roundings)
    for buffer, expectation in zip(task.dag.outputs, expected, strict=True):
        verdict = expectation.compare(by_name[buffer.name])
        if verdict.complaint:
            raise MeasureError(f"'{buffer.name}' is wrong: {verdict.complaint}")
        worst = max(worst, verdict.max_error)
    threads_used = threads or task.target.real.cores
    probe = backend_of(task.target).probes.peak(task.target, threads_used)
    pairs = [
        (probe.time(_PROBE_S)[0], module.time(*packed, threads=threads, min_time_s=_KERNEL_S))
        for _ in range(_PAIRS)
    ]
    shares = [task.dag.flops / timing.median_s / peak for peak, timing in pairs]
    calls = call_times(partial(module, *packed, threads=threads), _CALLS_S)
    timing = _join([timing for _, timing in pairs])
    return CheckedTime(timing, worst, statistics.median(shares), calls)


def _join(timings: list[Timing]) -> Timing:
    """One timing of the medians of several."""
    medians = [timing.median_s for timing in timings]
    low, median, high = statistics.quantiles(medians, n=4, method="inclusive")
    fastest = min(timing.fastest_s for timing in timings)
    return Timing(median, high - low, len(timings), timings[0].calls, fastest)


def _arguments(task: Task, inputs: list[Array]) -> list[Array]:
    """The arguments in call order; outputs hold what no kernel computes."""
    given = dict(zip((buffer.name for buffer in task.dag.inputs), inputs, strict=True))
    arrays: list[Array] = []
    for buffer in task.dag.arguments:
        if buffer.name in given:
            arrays.append(given[buffer.name])
        else:
            # every bit set: NaN as a float, -1 as an integer
            filled = np.full(max(1, buffer.bytes), 0xFF, np.uint8).view(buffer.dtype.numpy)
            arrays.append(filled.reshape(buffer.shape))
    return arrays
