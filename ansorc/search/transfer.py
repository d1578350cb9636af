"""Transfer: programs that were fast for the same computation of other extents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import log2

from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import Step, steps_from_json
from ansorc.search.record import Environment, Record, Records
from ansorc.search.task import Task

_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
"""A whole number that is not a part of a name or of a decimal fraction."""


def related_programs(
    records: Records, task: Task, environment: Environment, count: int
) -> list[tuple[Step, ...]]:
    """Return the best programs of the recorded tasks that are nearest to `task`, `count` at most.

    A task is related if it is the same but for whole numbers: extents, strides, padding. Its
    programs have the extents of that task (`adapted` changes them). Each task gives half of what is
    wanted at most, so that two of them have a say.
    """
    found: list[tuple[Step, ...]] = []
    for other in _related(records, task):
        limit = min(-(-count // 2), count - len(found))
        best = records.undefeated(other.key, environment, limit)
        found += [_program(record) for record in best if not record.function]
    return found[:count]


def _related(records: Records, task: Task) -> Iterator[Task]:
    """The related tasks, the nearest one first."""
    words, numbers = _words(task.dag)
    near: list[tuple[float, str, Task]] = []
    for other in records.tasks():
        if other.key == task.key or other.target.text != task.target.text:
            continue
        other_words, others = _words(other.dag)
        if other_words == words:
            near.append((_distance(numbers, others), other.key, other))
    return (other for _, _, other in sorted(near, key=lambda entry: entry[:2]))


def _words(dag: ComputeDAG) -> tuple[str, list[int]]:
    """The definition without its whole numbers, and these."""
    text = dag.to_text()
    return _NUMBER.sub("#", text), [int(number) for number in _NUMBER.findall(text)]


def _distance(numbers: list[int], others: list[int]) -> float:
    return sum(abs(log2((a + 1) / (b + 1))) for a, b in zip(numbers, others, strict=True))


def _program(record: Record) -> tuple[Step, ...]:
    return steps_from_json(json.loads(record.steps))
