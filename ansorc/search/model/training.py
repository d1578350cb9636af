"""From record files to a trained model, and to what it predicts of programs that it has not seen.

A program in several files is one. One that was timed at several hours is known better: what
disturbs a machine makes programs slower, never faster. So the shortest of its times counts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ansorc.errors import AnsorcError, RecordError
from ansorc.schedule import Names, replay, steps_from_json
from ansorc.search.cost_model import Float64Array, Sample
from ansorc.search.features import extract_state
from ansorc.search.measure.result import FailureKind
from ansorc.search.model.boosting import Growth
from ansorc.search.model.loss import best_seconds, labels_of
from ansorc.search.model.trees import TreeModel
from ansorc.search.record import Record, Records
from ansorc.search.task import Task

_Programs = dict[str, Record]
"""The records of a task in one environment, by their programs' keys."""


@dataclass(frozen=True)
class TrainingSet:
    """What record files have to learn from."""

    samples: tuple[Sample, ...]
    """Their tasks are keys of `names`: a task in each environment is one of its own."""
    names: dict[str, str]
    """The names of the tasks."""
    unreadable: int
    """Programs whose steps do not fit this ansorc, or that are loop programs without steps."""


def training_set(files: Sequence[Path]) -> TrainingSet:
    """Return what record files have to learn from.

    Programs that failed by a fault of the measuring are left out. Raise RecordError for a file that
    cannot be read, and if nothing is left.
    """
    tasks: dict[str, Task] = {}
    known: dict[str, _Programs] = {}
    for path in files:
        for key, (task, programs) in _programs(path).items():
            tasks[key] = task
            for record in programs.values():
                _keep(known.setdefault(key, {}), record)
    names = {key: Names(task.dag) for key, task in tasks.items()}
    samples = [
        _sample(tasks[key], names[key], key, record)
        for key, programs in known.items()
        for record in programs.values()
    ]
    found = tuple(sample for sample in samples if sample is not None)
    if not any(sample.seconds is not None for sample in found):
        named = ", ".join(map(str, files))
        raise RecordError(f"{named}: no program with a time to learn from; tune something first")
    names = {key: tasks[key].name for key in dict.fromkeys(sample.task for sample in found)}
    return TrainingSet(found, names, len(samples) - len(found))


def _keep(programs: _Programs, record: Record) -> None:
    """Add `record` unless its program is there with a time as short.

    A program that has a time in one file and failed in another worked.
    """
    known = programs.get(record.program_key)
    if known is None or _seconds(record) < _seconds(known):
        programs[record.program_key] = record


def _seconds(record: Record) -> float:
    return math.inf if record.median_s is None else record.median_s


def _programs(path: Path) -> dict[str, tuple[Task, _Programs]]:
    """The programs of a file, without those whose records say nothing of them."""
    found: dict[str, tuple[Task, _Programs]] = {}
    with Records.open(path, create=False) as opened:
        for task in opened.tasks():
            for record in opened.all(task.key):
                if record.failure is not FailureKind.UNKNOWN:
                    key = f"{task.key} {record.environment.key}"
                    _keep(found.setdefault(key, (task, {}))[1], record)
    return found


def _sample(task: Task, names: Names, key: str, record: Record) -> Sample | None:
    if record.function:
        return None
    try:
        state = replay(task.dag, names.own(steps_from_json(json.loads(record.steps))))
        target = task.with_threads(record.environment.running).target
        return Sample(key, extract_state(state, target)[0], record.median_s)
    except AnsorcError:
        return None


@dataclass(frozen=True, eq=False)
class Predictions:
    """Throughputs of programs that a model had not seen, as shares of the best of their task."""

    predicted: Float64Array
    actual: Float64Array
    tasks: tuple[str, ...]


def trained(samples: Sequence[Sample], growth: Growth) -> TreeModel:
    """Return a model that has learned from `samples`, of however few successes."""
    model = TreeModel(growth, enough=1)
    model.update(samples)
    return model


def predictions(
    samples: Sequence[Sample], folds: Sequence[str], tested: Sequence[str], growth: Growth
) -> Predictions:
    """Predict the samples whose fold is in `tested`, each by a model trained on the other folds.

    `folds` [samples] says which one each is in. The unit of a task's throughputs is that of its
    best program; of a task that was not trained with, that of the program predicted to be best.
    Tasks without any success are left out.
    """
    best, labels = best_seconds(samples), labels_of(samples)
    owners, found = np.array([sample.task for sample in samples]), np.array(folds)
    predicted = np.zeros(len(samples))
    for fold in dict.fromkeys(tested):
        training = [samples[place] for place in _places(found != fold)]
        model, seen = trained(training, growth), {sample.task for sample in training}
        for task in best:
            places = _places((found == fold) & (owners == task))
            times = _expected([samples[place] for place in places], model)
            unit = best[task] if task in seen else np.min(times, initial=np.inf)
            predicted[places] = unit / times
    chosen = _places(np.isin(found, np.array(tested)) & np.isin(owners, list(best)))
    return Predictions(predicted[chosen], labels[chosen], tuple(owners[chosen].tolist()))


def random_folds(count: int, seed: int) -> list[str]:
    """Return the folds of `count` programs: "test" for a random fifth, "train" for the others."""
    order = np.random.default_rng(seed).permutation(count)
    return ["test" if place % 5 == 0 else "train" for place in order.tolist()]


def _places(chosen: npt.NDArray[np.bool_]) -> list[int]:
    return np.flatnonzero(chosen).tolist()


def _expected(samples: Sequence[Sample], model: TreeModel) -> Float64Array:
    times = [float(model.expected_seconds(sample.features[None])[0]) for sample in samples]
    return np.array(times)
