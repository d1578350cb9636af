"""What record files have to learn from; a program in several of them is one.

A program that was timed at several hours is known better: what disturbs a machine makes programs
slower, never faster. So the shortest of its times counts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ansorc.errors import AnsorcError, RecordError
from ansorc.schedule import replay, steps_from_json
from ansorc.search.cost_model import Sample
from ansorc.search.features import extract_state
from ansorc.search.measure.result import FailureKind
from ansorc.search.record import Record, Records
from ansorc.search.task import Task

Programs = dict[str, Record]
"""The records of a task in one environment, by their programs' keys."""


@dataclass(frozen=True)
class Recorded:
    """What record files have to learn from."""

    samples: tuple[Sample, ...]
    """Their tasks are keys of `names`: a task in each environment is one of its own."""
    names: dict[str, str]
    """The names of the tasks."""
    unreadable: int
    """Programs whose steps do not fit this ansorc, or that are loop programs without steps."""


def recorded(files: Sequence[Path]) -> Recorded:
    """Return what record files have to learn from.

    Programs that failed by a fault of the measuring are left out. Raise RecordError for a file that
    cannot be read, and if nothing is left.
    """
    tasks: dict[str, Task] = {}
    known: dict[str, Programs] = {}
    for path in files:
        for key, (task, programs) in _programs(path).items():
            tasks[key] = task
            for record in programs.values():
                _keep(known.setdefault(key, {}), record)
    samples = [
        _sample(tasks[key], key, record)
        for key, programs in known.items()
        for record in programs.values()
    ]
    found = tuple(sample for sample in samples if sample is not None)
    if not any(sample.seconds is not None for sample in found):
        named = ", ".join(map(str, files))
        raise RecordError(f"{named}: no program with a time to learn from; tune something first")
    names = {key: tasks[key].name for key in dict.fromkeys(sample.task for sample in found)}
    return Recorded(found, names, len(samples) - len(found))


def _keep(programs: Programs, record: Record) -> None:
    """Add `record` unless its program is there with a time as short.

    A program that has a time in one file and failed in another worked.
    """
    known = programs.get(record.program_key)
    if known is None or _seconds(record) < _seconds(known):
        programs[record.program_key] = record


def _seconds(record: Record) -> float:
    return math.inf if record.median_s is None else record.median_s


def _programs(path: Path) -> dict[str, tuple[Task, Programs]]:
    """The programs of a file, without those whose records say nothing of them."""
    found: dict[str, tuple[Task, Programs]] = {}
    with Records.open(path, create=False) as opened:
        for task in opened.tasks():
            for record in opened.all(task.key):
                if record.failure is not FailureKind.UNKNOWN:
                    key = f"{task.key} {record.environment.key}"
                    _keep(found.setdefault(key, (task, {}))[1], record)
    return found


def _sample(task: Task, key: str, record: Record) -> Sample | None:
    if record.function:
        return None
    try:
        state = replay(task.dag, steps_from_json(json.loads(record.steps)))
        target = task.with_threads(record.environment.running).target
        return Sample(key, extract_state(state, target)[0], record.median_s)
    except AnsorcError:
        return None
