"""Tune whole networks: the trials of all their tasks are shared by the task scheduler."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ansorc.codegen.base import backend_of
from ansorc.codegen.call.network_module import NetworkModule
from ansorc.errors import OptionError
from ansorc.graph.kernel_threads import tune_threads
from ansorc.graph.network import Network
from ansorc.graph.network_build import built_network, chosen_programs
from ansorc.search.live_line import minutes
from ansorc.search.options import Scheduling
from ansorc.search.programs import ProgramChoice
from ansorc.search.tune_options import TuneOptions
from ansorc.search.tune_weighted import (
    RoundReport,
    ScheduledResult,
    WeightedTasks,
    ignore_round,
    tune_weighted,
)

TRIALS_PER_TASK = 64
"""Of a tuning that does not say how many trials it may spend."""
_THREADS_SHARE = 0.05
"""Of a limited time, what is kept to choose the threads of kernels."""


@dataclass(frozen=True, eq=False)
class NetworkTuneResult:
    """What the tuning of a network found, and the tuning of others beside it."""

    network: Network
    latency_s: float
    """The sum of weight x best time over its tasks; infinite while one has no program."""
    tuning: ScheduledResult
    """Of all networks that were tuned together."""
    options: TuneOptions

    def build(self, name: str = "") -> NetworkModule:
        """Return the network compiled with the best programs, as the C function `name`."""
        choice = ProgramChoice(self.options.records, self.options.threads, self.options.cache)
        return built_network(self.network, chosen_programs(self.network, choice), name)


def tune_networks(
    networks: Sequence[Network],
    options: TuneOptions,
    scheduling: Scheduling | None = None,
    on_round: Callable[[RoundReport], None] = ignore_round,
) -> list[NetworkTuneResult]:
    """Tune `networks` together, `scheduling.trials` for all of their tasks (None: 64 for each).

    Tasks that networks share are tuned once. At last each network is run with the best programs, to
    see how many threads each kernel should get, where this machine can run it and the time that the
    options give suffices to compile and to run it. Raise what `tune_weighted` does.
    """
    if options.cache == "other-work":
        raise OptionError(
            'measure="call" is for operators, which are called alone; the kernels of a network '
            "follow each other"
        )
    begin, budget = time.monotonic(), options.time_budget
    weighted = [
        WeightedTasks(
            network.source.name,
            tuple((task, float(network.weights[key])) for key, task in network.tasks.items()),
        )
        for network in networks
    ]
    less = None if budget is None else (1 - _THREADS_SHARE) * budget
    tuned = replace(options, trials=TRIALS_PER_TASK, time_budget=less)
    result = tune_weighted(weighted, tuned, scheduling, on_round)
    pairs = zip(networks, result.latencies, strict=True)
    found = [NetworkTuneResult(network, latency, result, options) for network, latency in pairs]
    measured = sum(one.measured_now for one in result.results)
    if measured and not result.interrupted:
        choice = ProgramChoice(options.records, options.threads, options.cache)
        deadline = math.inf if budget is None else begin + budget
        build_s = sum(one.spent.builds.total_s for one in result.results) / measured
        for one in found:
            can = backend_of(one.network.target).capabilities(one.network.target)
            is_late = time.monotonic() + len(one.network.tasks) * build_s >= deadline
            if math.isfinite(one.latency_s) and can.threads and not (can.obstacle or is_late):
                tune_threads(one.network, choice, deadline=deadline)
    return found


def round_line(done: RoundReport) -> str:
    """Return a round as one line: trials, the networks' times, the task that was measured."""
    measured = done.tasks[done.measured]
    words = [f"{done.trials}/{done.total}", ", ".join(map(milliseconds, done.latencies))]
    words.append(f"ETA {minutes(done.eta_s)}")
    words.append(f"{measured.task.name} {milliseconds(measured.best_s)}")
    return " | ".join(words)


def milliseconds(seconds: float | None) -> str:
    """Return `seconds` in milliseconds, for people; None and infinity are no result."""
    if seconds is None or not math.isfinite(seconds):
        return "no result yet"
    return f"{seconds * 1e3:.4g} ms"
