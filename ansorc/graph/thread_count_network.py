"""How many threads work on each kernel of a network: as many as make it the fastest there.

A kernel of a few microseconds loses more by waiting for a second thread than that one does for it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ansorc.codegen.call.network_module import NetworkModule, link_network
from ansorc.codegen.network.plan import NetworkPlan
from ansorc.graph.network import Network
from ansorc.graph.network_build import choose_programs, compile_network_plan
from ansorc.graph.random_inputs import random_inputs
from ansorc.ir.aligned import Array
from ansorc.search.programs import ProgramChoice, program_key
from ansorc.search.record import KernelThreads, Records, current_environment
from ansorc.search.task import Task
from ansorc.search.thread_count_op import thread_counts
from ansorc.target import Target

_ROUNDS, _LEAST_ROUNDS = 31, 5
_TIE = 0.02
"""Fewer threads must be faster than all by this share: times are not measured more exactly."""
_QUANTILE = 0.1
"""The quantile of the rounds that counts: other work on the machine only adds to a time."""


@dataclass(frozen=True)
class ThreadChoice:
    """How many threads each kernel of a plan gets, and what that gains."""

    threads: tuple[int, ...]
    """For each of the plan's kernels; 0: all that the network is called with."""
    all_s: float
    """Seconds of the network where all get all, the sum of its kernels'; inf if nothing was
    measured, for want of time or of a second thread."""
    chosen_s: float
    """Seconds with this choice, measured in turns with the former."""

    def apply(self, plan: NetworkPlan) -> NetworkPlan:
        """Return `plan` with this choice."""
        calls = [replace(call, threads=self.threads[call.kernel]) for call in plan.calls]
        return replace(plan, calls=tuple(calls))


def tune_threads(
    network: Network, choice: ProgramChoice, on_task: Callable[[Task], None] = lambda _: None,
    deadline: float = math.inf,
) -> ThreadChoice:  # fmt: skip
    """Measure how many threads each kernel gets, and keep that in the record file.

    The programs are those that a build with `choice` uses, and its later builds use what was found
    here. `on_task` is told of each task before it is compiled. Where `time.monotonic()` comes to
    `deadline` before enough is measured, nothing is kept. Raise RecordError, BuildError.
    """
    programs = choose_programs(network, choice)
    plan = compile_network_plan(network, programs, on_task=on_task)
    arrays = list(random_inputs(network.source).values())
    measured = measure_threads(plan, network.target, arrays, choice.threads, deadline=deadline)
    if not math.isfinite(measured.all_s):
        return measured
    kept = [
        KernelThreads(key, program_key(task, programs[key]), threads)
        for (key, task), threads in zip(network.tasks.items(), measured.threads, strict=True)
    ]
    with Records.open(choice.records) as records:
        records.keep_threads(current_environment(choice.threads, choice.cache), kept)
    return measured


def measure_threads(
    plan: NetworkPlan, target: Target, arrays: Sequence[Array], threads: int = 0,
    rounds: int = _ROUNDS, deadline: float = math.inf,
) -> ThreadChoice:  # fmt: skip
    """Return the fastest number of threads of each kernel when the network runs on `arrays`.

    `arrays` are its inputs, `threads` the most that may work on a kernel (0: all cores). The whole
    network is run with all threads and with fewer, in turns; then so that each kernel has those
    with which it was the fastest, and those that are not faster there get all after all. Before
    `deadline`, of `time.monotonic()`, there are as many of the `rounds` as it leaves time for.
    """
    unknown = ThreadChoice((0,) * len(plan.kernels), math.inf, math.inf)
    counts = thread_counts(threads or target.real.cores)
    if not counts:
        return unknown
    whole = unknown.apply(plan)
    module = link_network(whole, target)
    limited = [_Run(module, count) for count in (threads, *counts)]
    now, share = time.monotonic(), len(limited) / (len(limited) + 2)  # the rest is for the pair
    seconds = _seconds(whole, limited, arrays, rounds, now + share * (deadline - now))
    if not seconds:
        return unknown
    first = _fastest(whole, (0, *counts), seconds)
    chosen = replace(unknown, threads=first).apply(whole)
    pair = [_Run(module, threads), _Run(link_network(chosen, target), threads)]
    seconds = _seconds(whole, pair, arrays, rounds, deadline)
    if not seconds:
        return unknown
    kept, total_s = list[int](), 0.0
    for count, all_s, chosen_s in zip(first, *seconds, strict=True):
        is_faster = chosen_s < (1.0 - _TIE) * all_s
        kept.append(count if is_faster else 0)
        total_s += chosen_s if is_faster and count else all_s
    return ThreadChoice(tuple(kept), sum(seconds[0]), total_s)


@dataclass(frozen=True)
class _Run:
    """A network, and how many threads it is called with."""

    module: NetworkModule
    threads: int


def _seconds(
    plan: NetworkPlan, runs: Sequence[_Run], arrays: Sequence[Array], rounds: int, deadline: float
) -> list[list[float]]:
    """Return for each run the seconds of each kernel, of all of its calls together.

    Return an empty list if there is no time for `rounds`, or for `_LEAST_ROUNDS` of them.
    """
    times_s = np.empty((len(runs), rounds, len(plan.calls)))
    order = list(range(len(runs)))
    done, begin = 0, time.monotonic()
    while done < rounds and (now := time.monotonic()) + (now - begin) / max(done, 1) < deadline:
        for number in order:
            run = runs[number]
            times = run.module.profile(*arrays, threads=run.threads, repeats=1)
            times_s[number, done] = [call.seconds for call in times]
        order.reverse()
        done += 1
    if done < min(rounds, _LEAST_ROUNDS):
        return []
    by_kernel = [[0.0] * len(plan.kernels) for _ in runs]
    quickest = np.quantile(times_s[:, :done], _QUANTILE, axis=1)
    for row, quick in zip(by_kernel, quickest, strict=True):
        for call, seconds in zip(plan.calls, quick, strict=True):
            row[call.kernel] += float(seconds)
    return by_kernel


def _fastest(
    plan: NetworkPlan, counts: Sequence[int], seconds: Sequence[Sequence[float]]
) -> tuple[int, ...]:
    """Return the number of threads of each kernel, from its seconds with each of `counts`.

    The first of `counts` stands for all threads.
    """
    threads: list[int] = []
    for kernel, column in zip(plan.kernels, zip(*seconds, strict=True), strict=True):
        least_s, count = min(zip(column, counts, strict=True))
        is_faster = kernel.signature.parallel and least_s < (1.0 - _TIE) * column[0]
        threads.append(count if is_faster else 0)
    return tuple(threads)
