"""Tune whole networks: the trials of all their tasks are shared by the task scheduler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ansorc.codegen.call.network_module import NetworkModule
from ansorc.graph.network import Network
from ansorc.graph.network_build import built_network, chosen_programs
from ansorc.search.programs import ProgramChoice
from ansorc.search.scheduled_tuning import Round, ScheduledResult, ScheduledTuning
from ansorc.search.task import Task
from ansorc.search.task_scheduler import SchedulerOptions
from ansorc.search.tune_options import TuneOptions

TRIALS_PER_TASK = 64
"""Of a tuning that does not say how many trials it may spend."""


@dataclass(frozen=True, eq=False)
class NetworkTuneResult:
    """What the tuning of a network found, and the tuning of others beside it."""

    network: Network
    latency_s: float
    """The sum of weight x best time over its tasks."""
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
    scheduling: SchedulerOptions | None = None,
    on_round: Callable[[Round], None] = lambda _: None,
) -> list[NetworkTuneResult]:
    """Tune `networks` together, `options.trials` for all of their tasks; 0: 64 for each task.

    Tasks that networks share are tuned once. Raise what `ScheduledTuning.run` does.
    """
    tasks: dict[str, Task] = {}
    for network in networks:
        tasks |= network.tasks
    trials = options.trials or TRIALS_PER_TASK * len(tasks)
    result = ScheduledTuning(
        tasks,
        [network.weights for network in networks],
        replace(options, trials=trials),
        scheduling or SchedulerOptions(),
        on_round,
    ).run()
    pairs = zip(networks, result.latencies, strict=True)
    return [NetworkTuneResult(network, latency, result, options) for network, latency in pairs]
