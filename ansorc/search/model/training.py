"""Cost models from recorded programs: labels, training, and how good a model is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ansorc.errors import AnsorcError, RecordError
from ansorc.schedule import Names, replay
from ansorc.search.cost_model import Float64Array, Sample
from ansorc.search.measure.result import FailureKind
from ansorc.search.model.boosting import Growth
from ansorc.search.model.trees import TreeModel, best_seconds, labels_of
from ansorc.search.record import Record, RecordLocation, Records
from ansorc.search.space import extract_state
from ansorc.search.task import Task

_BLOCK = 512
"""Programs that are compared with all others at once."""


@dataclass(frozen=True)
class Metrics:
    """Agreement of predictions with labels, which are throughputs from 0 to 1, the best program's.

    As in the paper, §5.2 and §7.4. The paper's figures are of the programs of all tasks together.
    """

    rmse: float
    """Root of the mean squared difference."""
    r2: float
    """Share of the labels' variance that is explained; 1 is perfect, 0 the mean, below is worse."""
    pairwise: float
    """Share of the pairs with different labels that are ordered rightly; ties count one half."""
    recall: float
    """Share of the k best programs that is among the k best predicted."""
    peak: float
    """The best label among the k best predicted, for each unit of the best label."""
    k: int
    """How many programs `recall` and `peak` look at: fewer where there are fewer."""


def metrics(predicted: Float64Array, actual: Float64Array, k: int = 30) -> Metrics:
    """Return how well `predicted` [programs] agrees with the labels `actual` [programs].

    There is at least one program.
    """
    k = min(k, len(actual))
    error = float(np.mean((predicted - actual) ** 2))
    variance = float(np.var(actual))
    chosen = np.argsort(-predicted, kind="stable")[:k]
    best = np.argsort(-actual, kind="stable")[:k]
    highest = float(actual.max())
    return Metrics(
        rmse=error**0.5,
        r2=1 - error / variance if variance > 0 else 0.0,
        pairwise=_pairwise(predicted, actual),
        recall=float(np.isin(chosen, best).sum()) / k,
        peak=float(actual[chosen].max()) / highest if highest > 0 else 0.0,
        k=k,
    )


def _pairwise(predicted: Float64Array, actual: Float64Array) -> float:
    right, pairs = 0.0, 0
    for begin in range(0, len(actual), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        is_faster = actual[block, None] > actual
        said = np.sign(predicted[block, None] - predicted)[is_faster]
        right += float(np.sum(said + 1)) / 2
        pairs += len(said)
    return right / pairs if pairs else 1.0


_Programs = dict[str, Record]
"""The records of a task in one environment, by their programs' keys."""


@dataclass(frozen=True)
class TrainingSet:
    """The programs of record files to learn from."""

    samples: tuple[Sample, ...]
    """Their tasks are keys of `names`: a task in each environment is one of its own."""
    names: dict[str, str]
    """The names of the tasks."""
    unreadable: int
    """Programs whose steps do not fit this ansorc, or that are loop programs without steps."""


def training_set(files: Sequence[RecordLocation]) -> TrainingSet:
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
        sample_of(tasks[key], names[key], key, record)
        for key, programs in known.items()
        for record in programs.values()
    ]
    usable = tuple(sample for sample in samples if sample is not None)
    if not any(sample.seconds is not None for sample in usable):
        named = ", ".join(map(str, files))
        raise RecordError(f"{named}: no program with a time to learn from; tune something first")
    names = {key: tasks[key].name for key in dict.fromkeys(sample.task for sample in usable)}
    return TrainingSet(usable, names, len(samples) - len(usable))


def _keep(programs: _Programs, record: Record) -> None:
    """Add `record` unless its program is there with a time as short.

    A program that has a time in one file and failed in another worked.
    """
    known = programs.get(record.program_key)
    if known is None or _seconds(record) < _seconds(known):
        programs[record.program_key] = record


def _seconds(record: Record) -> float:
    return math.inf if record.median_s is None else record.median_s


def _programs(path: RecordLocation) -> dict[str, tuple[Task, _Programs]]:
    """The programs of a file, without those whose records say nothing of them."""
    programs: dict[str, tuple[Task, _Programs]] = {}
    with Records.open(path, create=False) as opened:
        for task in opened.tasks():
            for record in opened.all(task.key):
                if record.failure not in (FailureKind.UNKNOWN, FailureKind.UNTIMED):
                    key = f"{task.key} {record.environment.key}"
                    _keep(programs.setdefault(key, (task, {}))[1], record)
    return programs


def sample_of(task: Task, names: Names, key: str, record: Record) -> Sample | None:
    """Return what `record` teaches, of a task called `key` whose names are `names`.

    None for a loop program without steps, and for steps that do not fit this ansorc.
    """
    if record.function:
        return None
    try:
        state = replay(task.dag, record.program.decode(names))
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


def train_model(samples: Sequence[Sample], growth: Growth) -> TreeModel:
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
    owners, fold_of = np.array([sample.task for sample in samples]), np.array(folds)
    predicted = np.zeros(len(samples))
    for fold in dict.fromkeys(tested):
        training = [samples[number] for number in _places(fold_of != fold)]
        model, seen = train_model(training, growth), {sample.task for sample in training}
        for task in best:
            places = _places((fold_of == fold) & (owners == task))
            times = _predict_seconds([samples[number] for number in places], model)
            unit = best[task] if task in seen else np.min(times, initial=np.inf)
            predicted[places] = unit / times
    chosen = _places(np.isin(fold_of, np.array(tested)) & np.isin(owners, list(best)))
    return Predictions(predicted[chosen], labels[chosen], tuple(owners[chosen].tolist()))


def random_folds(count: int, seed: int) -> list[str]:
    """Return the folds of `count` programs: "test" for a random fifth, "train" for the others."""
    order = np.random.default_rng(seed).permutation(count)
    return ["test" if number % 5 == 0 else "train" for number in order.tolist()]


def _places(chosen: npt.NDArray[np.bool_]) -> list[int]:
    return np.flatnonzero(chosen).tolist()


def _predict_seconds(samples: Sequence[Sample], model: TreeModel) -> Float64Array:
    times = [float(model.predict_seconds(sample.features[None])[0]) for sample in samples]
    return np.array(times)
