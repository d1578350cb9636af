"""Transfer: programs that were fast with other settings, or for other extents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from math import log2

from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import Names, Step
from ansorc.search.record import Environment, Records
from ansorc.search.task import Task

_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
"""A whole number that is not a part of a name or of a decimal fraction."""


def find_related_programs(
    records: Records, task: Task, environment: Environment, count: int
) -> list[tuple[Step, ...]]:
    """Return the best programs of what is recorded nearest to `task`, `count` at most.

    First the task itself, with other threads or caches on the same machine: its times say nothing
    here, but its programs are likely to be good. Then tasks that are the same but for whole
    numbers: extents, strides, padding. Their programs have the extents of that task (`adapt`
    changes them). Each gives half of what is wanted at most, so that two of them have a say.
    """
    own_settings = ((task, other) for other in _other_settings(records, task, environment))
    others = ((other, environment) for other in _find_related(records, task))
    names = Names(task.dag)
    programs: list[tuple[Step, ...]] = []
    for other, where in chain(own_settings, others):
        limit = min(-(-count // 2), count - len(programs))
        best = [
            r.program.decode(names)
            for r in records.undefeated(other.key, where, limit)
            if not r.function
        ]
        programs += [program for program in best if program not in programs]
    return programs[:count]


def _other_settings(records: Records, task: Task, environment: Environment) -> list[Environment]:
    """This machine with other settings, as far as there are records of `task`."""
    machine = (environment.cpu, environment.features, environment.cores)
    others = [
        other
        for other in records.elsewhere(task.key, environment).environments
        if (other.cpu, other.features, other.cores) == machine
    ]
    return sorted(others, key=lambda other: (other.cache != environment.cache, other.threads))


def _find_related(records: Records, task: Task) -> Iterator[Task]:
    """Return the related tasks, the nearest one first."""
    words, numbers = _words(task.dag)
    near: list[tuple[float, str, Task]] = []
    for other in records.tasks():
        if other.key == task.key or other.target.text != task.target.text:
            continue
        other_words, others = _words(other.dag)
        if other_words == words:
            near.append((_distance(numbers, others), other.key, other))
    return (other for _, _, other in sorted(near, key=lambda entry: entry[:2]))


def structure_of(dag: ComputeDAG) -> str:
    """Return the definition without names and whole numbers: equal for similar computations."""
    return _words(dag.canonical)[0]


def _words(dag: ComputeDAG) -> tuple[str, list[int]]:
    """Return the definition without its whole numbers, and these numbers."""
    text = dag.to_text()
    return _NUMBER.sub("#", text), [int(number) for number in _NUMBER.findall(text)]


def _distance(numbers: list[int], others: list[int]) -> float:
    return sum(abs(log2((a + 1) / (b + 1))) for a, b in zip(numbers, others, strict=True))
