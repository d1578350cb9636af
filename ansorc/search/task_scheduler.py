"""The task scheduler: which task of some networks gets the next round (paper §6, appendix A).

Nothing is measured here. What is decided follows from the options, the seed, and what the records
say of each task, so that tuning which was interrupted goes on as it would have.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ansorc.errors import OptionError
from ansorc.search.options import Scheduling

_DELTA = 1e-4
"""The share by which a latency is made smaller for the derivative of a user's objective. The
paper's implementation takes 0.1 ms off, more than many a task takes."""
_FIRST_GAIN = 0.1
"""The share of a task's seconds that its first round is expected to save; it fits recorded curves
(docs/decisions/0107)."""
_NO_TIME_S = 1e-9
"""Seconds of a task without a program: next to nothing, but an objective can divide by it."""

TaskStatus = Literal["active", "resting", "met", "exhausted", "failed"]
"""Whether a task gets rounds, or why it does not: it gains next to nothing; the objective does not
depend on it any more; it has no more programs; none of its programs works."""


@dataclass(frozen=True)
class TaskProgress:
    """The progress of one task; all of it follows from its records."""

    trials: int = 0
    curve: tuple[tuple[int, float], ...] = ()
    """(trial, best seconds so far) at each improvement."""
    flops: float = 0.0
    group: str = ""
    """Equal for similar tasks; "" for one that is similar to none."""
    is_over: bool = False
    """Whether there is nothing left to measure, or nothing can be."""

    @property
    def best_s(self) -> float:
        """Seconds of the best program, inf before there is one."""
        return self.curve[-1][1] if self.curve else math.inf

    def best_after(self, trials: float) -> float:
        """Return the best seconds among the first `trials`, or of the first program at all."""
        if not self.curve:
            return math.inf
        count = bisect_right(self.curve, trials, key=lambda point: point[0])
        return self.curve[max(count - 1, 0)][1]

    @property
    def flops_per_s(self) -> float:
        """The speed of its best program."""
        return self.flops / self.best_s


@dataclass(frozen=True)
class Round:
    """The task and the trials to measure next."""

    task: int
    trials: int
    is_local_search: bool = False


def objective_value(options: Scheduling, latencies: Sequence[float]) -> float:
    """Return what is to become small, for the `latencies` of the networks in seconds."""
    match options.objective:
        case "f1" | "f4":
            return sum(latencies)
        case "f2":
            pairs = zip(latencies, _of_each(options.requirements, latencies), strict=True)
            return sum(max(latency, enough) for latency, enough in pairs)
        case "f3":
            pairs = zip(latencies, _of_each(options.references, latencies), strict=True)
            logs = [math.log(reference / latency) for latency, reference in pairs]
            return -math.exp(sum(logs) / len(logs))
        case function:
            return float(function(latencies))


def objective_slopes(options: Scheduling, latencies: Sequence[float]) -> list[float]:
    """Return the derivative of the objective by each network's latency, from below.

    That of a user's function is numeric, with a step relative to the latency.
    """
    match options.objective:
        case "f1" | "f4":
            return [1.0] * len(latencies)
        case "f2":
            pairs = zip(latencies, _of_each(options.requirements, latencies), strict=True)
            return [float(latency > enough) for latency, enough in pairs]
        case "f3":
            value = objective_value(options, latencies)
            return [-value / (len(latencies) * latency) for latency in latencies]
        case function:
            value, slopes = float(function(latencies)), list[float]()
            for number, latency in enumerate(latencies):
                less = [*latencies]
                less[number] = latency * (1 - _DELTA)
                slopes.append((value - float(function(less))) / (latency * _DELTA))
            return slopes


def _of_each(given: Sequence[float], latencies: Sequence[float]) -> Sequence[float]:
    if len(given) != len(latencies):
        raise OptionError(f"the objective has {len(given)} times for {len(latencies)} networks")
    return given


@dataclass(frozen=True, eq=False)
class TaskScheduler:
    """Chooses the next round among the tasks of some networks, for as long as `trials` last."""

    options: Scheduling
    weights: tuple[tuple[float, ...], ...]
    """[networks][tasks]: how often a task appears in a network."""
    trials: int
    """In all, those that are recorded counted in."""
    seed: int = 0
    local_share: float = 0.0
    """Share of the trials, the last ones, that are local search."""

    def next(self, tasks: Sequence[TaskProgress]) -> Round | None:
        """Return the next round for what is known of `tasks`; None at the end.

        First every task has its warm-up, and rounds that were interrupted are completed; then those
        go on that have no program that works. By the gradient only tasks get more that are active.
        """
        spent = sum(task.trials for task in tasks)
        status = self.status(tasks)
        alive = [n for n in range(len(tasks)) if status[n] not in ("exhausted", "failed")]
        active = [n for n in alive if status[n] == "active"]
        if spent >= self.trials or not alive:
            return None
        chosen: int | None
        match self.options.strategy:
            case "equal":
                share = self._share(len(tasks))
                chosen = next((n for n in alive if tasks[n].trials < share), None)
            case "round-robin":
                chosen = min(alive, key=lambda n: (tasks[n].trials // self.round_size, n))
            case _:
                chosen = self._first(tasks, alive)
                if chosen is None and active:
                    chosen = self._by_gradient(tasks, active, spent)
        if chosen is None:
            return None
        done = tasks[chosen].trials
        count = self.round_size - done % self.round_size
        if self.options.strategy == "gradient" and done < self.warm_up:
            count = self.warm_up - done
        left = self.trials - spent
        if self.options.strategy == "equal":
            left = min(left, self._share(len(tasks)) - tasks[chosen].trials)
        return Round(chosen, min(count, left), self._is_local(tasks, chosen, spent))

    @property
    def round_size(self) -> int:
        """Trials of a round; fewer where there are not enough for one round of each task."""
        return max(1, min(self.options.trials_per_round, self.trials // len(self.weights[0])))

    @property
    def warm_up(self) -> int:
        """Trials of each task before the gradient decides."""
        return min(self.options.warm_up, self.round_size)

    def latencies(self, tasks: Sequence[TaskProgress]) -> tuple[float, ...]:
        """Return the seconds of each network; inf while one of its tasks has no program."""
        return self._latencies([task.best_s for task in tasks])

    def task_seconds(self, tasks: Sequence[TaskProgress]) -> list[float]:
        """Return what each task takes in all networks together; 0 without a program."""
        return [
            sum(weights[number] for weights in self.weights) * task.best_s if task.curve else 0.0
            for number, task in enumerate(tasks)
        ]

    def value(self, tasks: Sequence[TaskProgress]) -> float:
        """Return the objective; tasks without a program count next to nothing."""
        return objective_value(self.options, self._latencies(_best_times(tasks)))

    def status(self, tasks: Sequence[TaskProgress]) -> list[TaskStatus]:
        """Return what each task is doing."""
        states: list[TaskStatus] = []
        slopes, size = self._slopes(tasks), abs(self.value(tasks))
        for task, slope in zip(tasks, slopes, strict=True):
            if not task.curve and (task.is_over or task.trials >= self.options.most_failures):
                states.append("failed")
            elif task.is_over:
                states.append("exhausted")
            elif self.options.strategy != "gradient" or not task.curve:
                states.append("active")
            elif not slope:
                states.append("met")
            else:
                states.append("resting" if self._is_resting(task, slope, size) else "active")
        return states

    def gradients(self, tasks: Sequence[TaskProgress]) -> list[float]:
        """Return the change of the objective that one round more of each task should make, ≤ 0."""
        return [
            slope * self._change(tasks, number) if tasks[number].curve else 0.0
            for number, slope in enumerate(self._slopes(tasks))
        ]

    def _change(self, tasks: Sequence[TaskProgress], number: int) -> float:
        """Return the change of a task's seconds by one round more, as the paper approximates it."""
        options, task = self.options, tasks[number]
        rounds = task.trials / self.round_size
        window = min(float(options.backward_window), rounds - 1)
        backward = 0.0
        if window > 0:
            before = task.best_after((rounds - window) * self.round_size)
            backward = (task.best_s - before) / window
        forward = -_FIRST_GAIN * task.best_s / (1 + rounds) ** 3
        if (speed := self._speed_of_similar(tasks, number)) > 0:
            forward = min(forward, options.beta * task.flops / speed - task.best_s)
        return options.alpha * backward + (1 - options.alpha) * forward

    def _speed_of_similar(self, tasks: Sequence[TaskProgress], number: int) -> float:
        """FLOP/s of the best similar task; 0 if there is none, or this one had time to follow."""
        task = tasks[number]
        others = [
            other
            for k, other in enumerate(tasks)
            if k != number and other.group == task.group and other.curve
        ]
        if not task.group or not others:
            return 0.0
        best = max(other.flops_per_s for other in others)
        lead = self.options.similarity_lead * self.round_size
        is_ahead = task.trials > lead + max(other.trials for other in others)
        return 0.0 if is_ahead and task.flops_per_s < best / self.options.beta else best

    def _first(self, tasks: Sequence[TaskProgress], alive: Sequence[int]) -> int | None:
        """Who goes first whatever it gains: an interrupted round, the warm-up, no program yet."""
        open_sizes = (0, self.warm_up % self.round_size)
        begun = (n for n in alive if tasks[n].trials % self.round_size not in open_sizes)
        fresh = [n for n in alive if not tasks[n].trials]  # the time may be up before all begin
        fresh.sort(key=lambda n: -tasks[n].flops * sum(row[n] for row in self.weights))
        without = (n for n in alive if not tasks[n].curve)
        return next((n for some in (begun, fresh, without) for n in some), None)

    def _by_gradient(self, tasks: Sequence[TaskProgress], active: Sequence[int], spent: int) -> int:
        rng = np.random.default_rng([self.seed, spent])
        if rng.random() < self.options.epsilon:
            return active[int(rng.integers(len(active)))]
        gradients = self.gradients(tasks)
        return max(active, key=lambda n: abs(gradients[n]))

    def _is_resting(self, task: TaskProgress, slope: float, size: float) -> bool:
        """Return whether nothing is to be expected of it, relative to the objective's `size`."""
        least = self.options.least_gain * size
        if slope * task.best_s < least:
            return True
        window = self.options.rest_after * self.round_size
        if task.trials < window + self.round_size:  # of which the first is no measure
            return False
        before = task.best_after(min(task.trials - window, task.trials / 2))
        return slope * (before - task.best_s) < least

    def _is_local(self, tasks: Sequence[TaskProgress], chosen: int, spent: int) -> bool:
        if not self.local_share or tasks[chosen].trials < self.round_size:
            return False
        if self.options.strategy == "equal":
            spent, whole = tasks[chosen].trials, self._share(len(tasks))
        else:
            whole = self.trials
        if spent >= (1 - self.local_share) * whole:
            return True
        every = self.options.local_search_every
        return bool(every) and (tasks[chosen].trials // self.round_size) % every == every - 1

    def _share(self, count: int) -> int:
        return math.ceil(self.trials / count)

    def _latencies(self, seconds: Sequence[float]) -> tuple[float, ...]:
        return tuple(
            sum(w * s for w, s in zip(weights, seconds, strict=True) if w)
            for weights in self.weights
        )

    def _slopes(self, tasks: Sequence[TaskProgress]) -> list[float]:
        """Return the derivative of the objective by the seconds of each task."""
        latencies = self._latencies(_best_times(tasks))
        by_network = objective_slopes(self.options, latencies)
        slopes = [
            sum(
                slope * weights[number]
                for slope, weights in zip(by_network, self.weights, strict=True)
            )
            for number in range(len(tasks))
        ]
        if self.options.objective == "f4":
            window = self.options.early_stop * self.round_size
            for number, task in enumerate(tasks):
                is_old = task.trials >= window + self.round_size
                if is_old and task.best_after(task.trials - window) == task.best_s:
                    slopes[number] = 0.0
        return slopes


def _best_times(tasks: Sequence[TaskProgress]) -> list[float]:
    return [task.best_s if task.curve else _NO_TIME_S for task in tasks]
