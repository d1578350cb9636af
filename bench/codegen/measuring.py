"""Check a case's numbers, then time it in turns with the probe of its limit."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import numpy as np

from ansorc.codegen.build import prepare
from ansorc.codegen.call.module import Module
from ansorc.codegen.inspect.assembly import innermost_loops
from ansorc.codegen.llvm.binding import assembly
from ansorc.codegen.llvm.emit import emit_llvm
from ansorc.codegen.llvm.limits import CopyProbe, FmaProbe, ReadProbe
from ansorc.graph.api import build
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import Schedule, lower
from ansorc.search.measure.check import expectations
from ansorc.search.measure.data import Array, draw_with_rounding
from ansorc.search.task import Task
from ansorc.target import Target
from bench.codegen.case import Case, Limit

_TURNS, _PROBE_S, _KERNEL_S = 15, 0.01, 0.03


@dataclass(frozen=True)
class Finding:
    """What was measured of one case with one number of threads."""

    case: str
    threads: int
    seconds: float
    share: float
    """Of the limit, the median of turns."""
    quartiles: tuple[float, float]
    goal: float
    of_peak: float
    """What the operations counted (a math function is one) are of the FMA peak, likewise."""
    spills: int
    """Spills and reloads in the innermost loops that multiply and add (in all, where none do)."""


def measure(case: Case, target: Target, threads: int) -> Finding:
    """Build the case, compare its numbers with float64, and time it."""
    dag = case.dag()
    schedule = case.schedule(dag, target, threads)
    module = build(schedule, target)
    arrays = _checked_arrays(dag, module, target, threads)
    probe = _probe(case.limit, dag, target, threads)
    fastest = probe if isinstance(probe, FmaProbe) else FmaProbe(target, threads)
    flops = float(case.flops or dag.flops)
    work = flops if case.limit is Limit.FMA else float(sum(array.nbytes for array in arrays))
    turns: list[tuple[float, float, float]] = []
    for _ in range(_TURNS):
        limit = probe.time(_PROBE_S)[0]
        seconds = module.time(*arrays, threads=threads, min_time_s=_KERNEL_S).median_s
        peak = limit if fastest is probe else fastest.time(_PROBE_S)[0]
        turns.append((work / seconds / limit, seconds, flops / seconds / peak))
    shares, times, of_peak = zip(*turns, strict=True)
    low, share, high = statistics.quantiles(shares, n=4, method="inclusive")
    return Finding(
        case.name, threads, statistics.median(times), share, (low, high),
        case.goals[min(threads, 2) - 1], statistics.median(of_peak), _spills(schedule, target),
    )  # fmt: skip


def _checked_arrays(dag: ComputeDAG, module: Module, target: Target, threads: int) -> list[Array]:
    """Return the arguments after a run whose outputs, poisoned before, were right."""
    rng = np.random.default_rng(0)
    inputs, references, roundings = draw_with_rounding(Task(dag, target, "kernel"), rng)
    outputs = [np.full(buffer.shape, np.nan, buffer.dtype.numpy) for buffer in dag.outputs]
    module(*inputs, *outputs, threads=threads)
    expected = expectations(dag, references, roundings)
    for buffer, found, right in zip(dag.outputs, outputs, expected, strict=True):
        verdict = right.compare(found)
        if verdict.complaint:
            raise SystemExit(f"'{buffer.name}' is wrong: {verdict.complaint}")
    return [*inputs, *outputs]


def _probe(
    limit: Limit, dag: ComputeDAG, target: Target, threads: int
) -> FmaProbe | ReadProbe | CopyProbe:
    """Return the probe of a limit; bandwidths are those of as many bytes as the case moves."""
    if limit is Limit.FMA:
        return FmaProbe(target, threads)
    size = sum(buffer.bytes for buffer in dag.params)
    if limit is Limit.READ:
        return ReadProbe(target, threads, size)
    return CopyProbe(target, threads, size // 2)


def _spills(schedule: Schedule, target: Target) -> int:
    prepared = prepare(lower(schedule), target)
    loops = innermost_loops(assembly(emit_llvm(prepared, target), target))
    working = [loop for loop in loops if loop.fma] or loops
    return sum(loop.spills for loop in working)
