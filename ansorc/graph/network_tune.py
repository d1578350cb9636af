"""Tune whole networks: the trials of all their tasks are shared by the task scheduler."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ansorc.codegen.base import backend_of
from ansorc.codegen.call.network_module import NetworkModule
from ansorc.errors import OptionError
from ansorc.graph.network import Network
from ansorc.graph.network_build import choose_programs, compile_network
from ansorc.graph.thread_count_network import tune_threads
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
from ansorc.target.units import seconds_text

TRIALS_PER_TASK = 64
"""The trials for each task of a tuning that does not say how many it may spend."""
_THREADS_SHARE = 0.05
"""The share of a limited time that is kept to choose the threads of kernels."""


@dataclass(frozen=True, eq=False)
class NetworkTuneResult:
    """The result of tuning a network, together with others."""

    network: Network
    latency_s: float
    """The sum of weight x best time over its tasks; infinite while one has no program."""
    tuning: ScheduledResult
    """The tuning of all networks that were tuned together."""
    options: TuneOptions

    def build(self, name: str = "") -> NetworkModule:
        """Return the network compiled with the best programs, as the C function `name`."""
        choice = ProgramChoice(self.options.records, self.options.threads, self.options.cache)
        return compile_network(self.network, choose_programs(self.network, choice), name)

    def __str__(self) -> str:
        network, tuning = self.network, self.tuning
        lines = [
            f"{network.source.name} for {network.target.text}: {seconds_text(self.latency_s)} in "
            f"{len(network.task_of)} kernels, {len(network.tasks)} of them different"
        ]
        for key, task in network.tasks.items():
            result, weight = tuning.result_of(task), network.weights[key]
            default = result.default and result.default.median_s
            untuned = f", untuned {seconds_text(default)}" if default else ""
            best = seconds_text(result.best.median_s if result.best else None)
            lines.append(f"{weight:4d} x {best}{untuned}: {task.name}, {result.trials} programs")
        lines += ["interrupted"] if tuning.interrupted else []
        notes = dict.fromkeys(note for result in tuning.results for note in result.notes)
        return "\n".join((*lines, *(f"note: {note}" for note in notes)))

    def __repr__(self) -> str:
        trials = sum(self.tuning.result_of(task).trials for task in self.network.tasks.values())
        return (
            f"<NetworkTuneResult of {self.network.source.name}: {seconds_text(self.latency_s)}, "
            f"{trials} programs of {len(self.network.tasks)} tasks>"
        )


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
    results = [NetworkTuneResult(network, latency, result, options) for network, latency in pairs]
    measured = sum(task.measured_now for task in result.results)
    if measured and not result.interrupted:
        choice = ProgramChoice(options.records, options.threads, options.cache)
        deadline = math.inf if budget is None else begin + budget
        build_s = sum(task.spent.builds.total_s for task in result.results) / measured
        for tuning in results:
            can = backend_of(tuning.network.target).capabilities(tuning.network.target)
            is_late = time.monotonic() + len(tuning.network.tasks) * build_s >= deadline
            if math.isfinite(tuning.latency_s) and can.threads and not (can.obstacle or is_late):
                tune_threads(tuning.network, choice, deadline=deadline)
    return results


def round_line(done: RoundReport) -> str:
    """Return a round as one line: trials, the networks' times, the task that was measured."""
    measured = done.tasks[done.measured]
    words = [f"{done.trials}/{done.total}", ", ".join(map(seconds_text, done.latencies))]
    words.append(f"ETA {minutes(done.eta_s)}")
    words.append(f"{measured.task.name} {seconds_text(measured.best_s)}")
    return " | ".join(words)
