"""From recorded programs to a trained model, and to how well it predicts what it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ansorc.search.cost_model import Sample
from ansorc.search.model.boosting import Growth
from ansorc.search.model.labels import best_seconds, labels_of
from ansorc.search.model.trees import TreeModel


@dataclass(frozen=True, eq=False)
class Predictions:
    """Throughputs of programs that a model had not seen, as shares of the best of their task."""

    predicted: npt.NDArray[np.float64]
    actual: npt.NDArray[np.float64]
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


def _expected(samples: Sequence[Sample], model: TreeModel) -> npt.NDArray[np.float64]:
    times = [float(model.expected_seconds(sample.features[None])[0]) for sample in samples]
    return np.array(times)
