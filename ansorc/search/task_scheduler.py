"""Which of many tasks is measured next: the gradient of an objective over networks (paper §6)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import numpy as np

from ansorc.errors import OptionError

Allocation: TypeAlias = Literal["gradient", "round-robin", "one-by-one"]
"""By the gradient; one round each in turns; all trials of a task, then the next task's."""
ObjectiveName: TypeAlias = Literal["f1", "f2", "f3", "f4"]
NetworkObjective: TypeAlias = Callable[[Sequence[float]], float]
"""A cost of the networks' latencies in seconds; less is better."""


@dataclass(frozen=True)
class SchedulerOptions:
    """How trials are shared among tasks; letters are those of the paper's section 6."""

    allocation: Allocation = "gradient"
    objective: ObjectiveName | NetworkObjective = "f1"
    """f1: the sum of the latencies. f2: of those beyond a network's `requirements`. f3: the
    geometric mean of speed-ups over `references`, negated. f4: f1, but a task whose last
    `stall_rounds` rounds gained nothing counts as constant."""
    requirements: tuple[float, ...] = ()
    """Seconds that are fast enough, for each network (L in f2)."""
    references: tuple[float, ...] = ()
    """Seconds that each network is compared with (B in f3)."""
    alpha: float = 0.2
    """The weight of what recent rounds gained, against what may still be gained."""
    beta: float = 2.0
    """A task may become as fast as similar ones by this factor (FLOP/s)."""
    window: int = 3
    """Rounds that the recent gain is measured over (Δt)."""
    epsilon: float = 0.05
    """The share of the rounds that a task drawn at random gets."""
    step: float = 1e-3
    """What the objective is derived by, as a share of a latency."""
    stall_rounds: int = 6
    """After so many rounds with less than `least_gain` a task is expected to gain nothing more."""
    least_gain: float = 2e-3
    """As a share of the task's latency."""

    def __post_init__(self) -> None:
        """Raise OptionError for an allocation or objective that there is not."""
        if self.allocation not in get_args(Allocation):
            known = ", ".join(get_args(Allocation))
            raise OptionError(f"there is no allocation '{self.allocation}'; use one of {known}")
        if isinstance(self.objective, str) and self.objective not in get_args(ObjectiveName):
            known = ", ".join(get_args(ObjectiveName))
            raise OptionError(
                f"there is no objective '{self.objective}'; use one of {known}, or a function of "
                "the networks' latencies"
            )


@dataclass
class TaskProgress:
    """What is known of one task while it is tuned."""

    flops: float
    similar: str
    """Equal for tasks that are alike but for their extents (the paper's N(i))."""
    history: list[float] = field(default_factory=list[float])
    """The best seconds after each round, infinite while nothing was right."""
    is_over: bool = False
    """Whether there is nothing more to measure, or nothing but failures."""

    @property
    def rounds(self) -> int:
        """How many rounds it has had (t_i)."""
        return len(self.history)

    @property
    def best(self) -> float:
        """The best seconds so far (g_i)."""
        return self.history[-1] if self.history else math.inf


class TaskScheduler:
    """Chooses tasks. Its choices follow from the progress it is shown and from `rng` alone."""

    def __init__(
        self,
        networks: Sequence[Mapping[int, int]],
        options: SchedulerOptions,
        rng: np.random.Generator,
    ) -> None:
        """`networks`: for each, how often it runs each task, by the task's number.

        Raise OptionError where an objective lacks a number for each network.
        """
        self._networks = networks
        self._options = options
        self._rng = rng
        for name, objective in (("requirements", "f2"), ("references", "f3")):
            given = len(getattr(options, name))
            if options.objective == objective and given != len(networks):
                raise OptionError(f"{objective} needs {name} for {len(networks)} networks")

    def latencies(self, seconds: Sequence[float]) -> list[float]:
        """Return the networks' latencies, the sum of weight x time, for tasks of these times."""
        return [sum(w * seconds[i] for i, w in network.items()) for network in self._networks]

    def objective(self, seconds: Sequence[float]) -> float:
        """Return the cost of tasks that take so many seconds."""
        found, options = self.latencies(seconds), self._options
        match options.objective:
            case "f1" | "f4":
                return sum(found)
            case "f2":
                return sum(map(max, found, options.requirements))
            case "f3":
                logs = [math.log(b / t) for b, t in zip(options.references, found, strict=True)]
                return -math.exp(statistics.fmean(logs))
            case function:
                assert callable(function)
                return float(function(found))

    def next(self, tasks: Sequence[TaskProgress]) -> int | None:
        """Return the number of the task whose round comes next; None if all are over."""
        alive = [number for number, task in enumerate(tasks) if not task.is_over]
        if not alive:
            return None
        fresh = [number for number in alive if not tasks[number].history]
        if self._options.allocation == "one-by-one":
            return alive[0]
        if fresh:
            return fresh[0]
        if self._options.allocation == "round-robin":
            return min(alive, key=lambda number: (tasks[number].rounds, number))
        if self._rng.random() < self._options.epsilon:
            return int(self._rng.choice(alive))
        gains = self.gains(tasks)
        best = max(gains[number] for number in alive)
        if best <= 0:
            return min(alive, key=lambda number: (tasks[number].rounds, number))
        return next(number for number in alive if gains[number] == best)

    def gains(self, tasks: Sequence[TaskProgress]) -> list[float]:
        """Return how much each task's next round is expected to lower the objective (-df/dt_i)."""
        known = [task.best for task in tasks if math.isfinite(task.best)]
        guess = max(known, default=1.0)  # what failed so far counts as slow
        seconds = [task.best if math.isfinite(task.best) else guess for task in tasks]
        return [
            0.0 if task.is_over else self._slope(number, seconds) * self._expected(number, tasks)
            for number, task in enumerate(tasks)
        ]

    def _slope(self, number: int, seconds: Sequence[float]) -> float:
        """How much the objective falls for each second that a task becomes faster."""
        step = seconds[number] * self._options.step
        faster = [*seconds]
        faster[number] -= step
        return (self.objective(seconds) - self.objective(faster)) / step

    def _expected(self, number: int, tasks: Sequence[TaskProgress]) -> float:
        """The seconds that the next round is expected to gain: recent gains and what may come."""
        task, options = tasks[number], self._options
        if not math.isfinite(task.best) or self._is_settled(task):
            return 0.0
        history = task.history
        recent = 0.0
        if task.rounds > options.window and math.isfinite(history[-1 - options.window]):
            recent = (history[-1 - options.window] - history[-1]) / options.window
        reachable = task.best / task.rounds
        speeds = [
            other.flops / other.best
            for place, other in enumerate(tasks)
            if place != number and other.similar == task.similar and math.isfinite(other.best)
        ]
        if speeds and task.flops:
            at_best = options.beta * task.flops / max(speeds)
            reachable = max(reachable, task.best - at_best)
        return options.alpha * recent + (1 - options.alpha) * reachable

    def _is_settled(self, task: TaskProgress) -> bool:
        """Whether its last rounds gained too little to expect more."""
        options = self._options
        if task.rounds <= options.stall_rounds:
            return False
        before = task.history[-1 - options.stall_rounds]
        return math.isfinite(before) and before - task.best < options.least_gain * before
