"""The task scheduler on curves that were measured before: `python -m bench schedule --help`.

Nothing is measured: the programs of a task come in the order in which they were recorded, whoever
asks for them. So strategies are compared on the same curves, in seconds instead of hours.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.table import Table

from ansorc.search.options import Scheduling
from ansorc.search.record import Records
from ansorc.search.task_scheduler import TaskProgress, TaskScheduler
from ansorc.search.transfer import structure_of
from ansorc.search.tuning_run import curve_of

STRATEGIES = ("gradient", "round-robin", "equal")
SHARES = (0.125, 0.25, 0.5, 0.75, 1.0)
"""Of the trials, at which the table shows the latency."""


@dataclass(frozen=True)
class RecordedTask:
    """A task, and the best time after each of the programs that were measured of it."""

    name: str
    trials: int
    curve: tuple[tuple[int, float], ...]
    flops: float = 0.0
    group: str = ""
    weight: float = 1.0

    def after(self, trials: int) -> TaskProgress:
        """What the scheduler knows when `trials` programs are measured."""
        known = tuple(point for point in self.curve if point[0] <= trials)
        return TaskProgress(trials, known, self.flops, self.group, trials >= self.trials)


@dataclass(frozen=True)
class Simulated:
    """What one strategy did."""

    curve: tuple[tuple[int, float], ...]
    """(trials of all tasks, seconds of the network) after each round; inf in the beginning."""
    trials: tuple[int, ...]
    """Of each task at the end."""

    @property
    def final_s(self) -> float:
        """Seconds of the network at the end."""
        return self.curve[-1][1]

    def latency_after(self, trials: float) -> float:
        """Return the seconds of the network after `trials` programs."""
        return min((s for spent, s in self.curve if spent <= trials), default=math.inf)

    def trials_to(self, seconds: float) -> int | None:
        """Return how many programs it took to be so fast; None if it never was."""
        return next((spent for spent, found in self.curve if found <= seconds), None)


def simulate(
    tasks: Sequence[RecordedTask],
    scheduling: Scheduling,
    trials: int,
    seed: int = 0,
    weights: Sequence[Sequence[float]] | None = None,
) -> Simulated:
    """Let the scheduler share out `trials` programs of `tasks`, one network of their weights."""
    rows = weights or [[task.weight for task in tasks]]
    scheduler = TaskScheduler(scheduling, tuple(map(tuple, rows)), trials, seed)
    spent = [0] * len(tasks)
    curve: list[tuple[int, float]] = []
    progress = [task.after(0) for task in tasks]
    while (chosen := scheduler.next(progress)) is not None:
        number = chosen.task
        spent[number] = min(spent[number] + chosen.trials, tasks[number].trials)
        progress[number] = tasks[number].after(spent[number])
        curve.append((sum(spent), sum(scheduler.latencies(progress))))
    return Simulated(tuple(curve), tuple(spent))


def in_hindsight(tasks: Sequence[RecordedTask], trials: int, round_size: int) -> Simulated:
    """Share out `trials` by who knows all curves beforehand.

    Each task gets its first program, or any number of whole rounds. Strategies that give whole
    rounds are no faster; only their last one may be cut short.
    """
    best = np.full(trials + 1, np.inf)
    best[0] = 0.0
    choices: list[tuple[Sequence[int], npt.NDArray[np.int64]]] = []
    for task in tasks:
        counts = (1, *range(round_size, min(task.trials, trials) + 1, round_size))
        rows = np.full((len(counts), trials + 1), np.inf)
        for row, count in zip(rows, counts, strict=True):
            row[count:] = best[: trials + 1 - count] + task.weight * task.after(count).best_s
        choices.append((counts, np.argmin(rows, axis=0)))
        best = np.min(rows, axis=0)
    left, given = int(np.argmin(best)), list[int]()
    for counts, chosen in reversed(choices):
        given.append(counts[int(chosen[left])])
        left -= given[-1]
    points = [(spent, float(s)) for spent, s in enumerate(np.minimum.accumulate(best))]
    return Simulated(tuple(points), tuple(reversed(given)))


def recorded_tasks(path: Path, weights: dict[str, float]) -> list[RecordedTask]:
    """Return the tasks of a record file, in the environment that has most of them."""
    with Records.open(path, create=False) as records:
        tasks = records.tasks()
        found = [(task, records.all(task.key)) for task in tasks]
    counts = Counter(record.environment for _, known in found for record in known)
    if not counts:
        return []
    environment = counts.most_common(1)[0][0]
    chosen: list[RecordedTask] = []
    for task, every in found:
        known = [record for record in every if record.environment == environment]
        curve, weight = curve_of(known), weights.get(task.name, 1.0)
        group = structure_of(task.dag)
        if curve:
            chosen.append(RecordedTask(task.name, len(known), curve, task.dag.flops, group, weight))
    return chosen


def compared(
    tasks: Sequence[RecordedTask], scheduling: Scheduling, trials: int, seed: int
) -> dict[str, Simulated]:
    """Return what each strategy did with the same budget, and the best there is."""
    found = {
        name: simulate(tasks, replace(scheduling, strategy=name), trials, seed)
        for name in STRATEGIES
    }
    return {**found, "in hindsight": in_hindsight(tasks, trials, scheduling.trials_per_round)}


def schedule_table(found: dict[str, Simulated], trials: int) -> Table:
    """Latencies over trials as in the paper's Figure 10, and the trials to round-robin's last."""
    last = found["round-robin"].final_s
    shown = Table(title=f"latency of the network, ms, of {trials} trials")
    shown.add_column("strategy")
    for share in SHARES:
        shown.add_column(f"{round(share * trials)}", justify="right")
    shown.add_column("trials to round-robin's last", justify="right")
    for name, one in found.items():
        cells = [one.latency_after(share * trials) * 1e3 for share in SHARES]
        words = [f"{cell:.4g}" if math.isfinite(cell) else "-" for cell in cells]
        shown.add_row(name, *words, str(one.trials_to(last) or "-"))
    return shown


def allocation_table(tasks: Sequence[RecordedTask], found: dict[str, Simulated]) -> Table:
    """What each task got."""
    shown = Table(title="trials of each task")
    for head in ("task", "weight", "recorded", *found):
        shown.add_column(head, justify="left" if head == "task" else "right")
    for number, task in enumerate(tasks):
        given = [str(one.trials[number]) for one in found.values()]
        shown.add_row(task.name, f"{task.weight:g}", str(task.trials), *given)
    return shown
