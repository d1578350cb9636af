"""TreeModel: gradient-boosted trees that correct the analytic estimate of each statement.

The time of a program is the sum of the times of its statements (paper §5.2), and the time of a
statement is its estimate, corrected by layers of trees. Learning a correction instead of the time
makes the first few measurements count.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ansorc.errors import RecordError
from ansorc.search.cost_model import SCORED_SECONDS, Float64Array, Sample
from ansorc.search.features import FEATURE_NAMES, FEATURE_VERSION, Features, estimate_cycles
from ansorc.search.model.boosting import Growth, Trees, grow_trees, trees_of

MIN_WEIGHT = 0.1
"""The weight of slow and failed programs. Weighted by speed alone, failures would teach nothing."""
FAILED_TIME = 10.0
"""A failed program is learned to take at least this many times the best time of its task."""


def best_seconds(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the least time of each task that has a success."""
    best: dict[str, float] = {}
    for sample in samples:
        if sample.seconds is not None:
            best[sample.task] = min(best.get(sample.task, np.inf), sample.seconds)
    return best


def labels_of(samples: Sequence[Sample]) -> Float64Array:
    """Return [samples]: the best time of the sample's task / its time; 0 for a failure."""
    best = best_seconds(samples)
    return np.array([0.0 if s.seconds is None else best[s.task] / s.seconds for s in samples])


@dataclass(frozen=True, eq=False)
class SumOfStatementsLoss:
    """The weighted squared error of the logarithm of a program's time."""

    owner: npt.NDArray[np.int64]
    """[statements]: the program of each."""
    times: Float64Array
    """[statements]: what is expected before the trees correct it, in seconds."""
    logs: Float64Array
    """[programs]: the logarithm of the measured time, for failures of the time they must exceed."""
    is_failed: npt.NDArray[np.bool_]
    weights: Float64Array
    """[programs], 1 on average."""
    factor: float
    """The factor by which the earlier times were too short on the whole; `times` includes it."""

    @staticmethod
    def of(samples: Sequence[Sample], times: Float64Array) -> SumOfStatementsLoss:
        """Return the loss for samples of tasks that have a success each.

        `times` [statements] are the times that are expected so far, in any unit.
        """
        best, labels = best_seconds(samples), labels_of(samples)
        logs = np.log([s.seconds or FAILED_TIME * best[s.task] for s in samples])
        weights = np.maximum(labels, MIN_WEIGHT)
        weights = weights / np.mean(weights)
        owner = np.repeat(np.arange(len(samples)), [len(s.features) for s in samples])
        gaps = logs - np.log(np.bincount(owner, times))
        worked = labels > 0
        factor = float(np.exp(np.average(gaps[worked], weights=weights[worked])))
        return SumOfStatementsLoss(owner, times * factor, logs, ~worked, weights, factor)

    def __call__(
        self, corrections: Float64Array, data: object
    ) -> tuple[Float64Array, Float64Array]:
        """Return the first and second derivative for each statement.

        The second one is put at its upper bound for all: LightGBM counts the rows of a leaf by it
        and stops with an error where these counts come out wrong (its issue 4739).
        """
        times = self.times * np.exp(corrections)
        total = np.bincount(self.owner, times, minlength=len(self.logs))
        error = np.log(total) - self.logs
        error = self.weights * np.where(self.is_failed, np.minimum(error, 0), error)
        share = times / total[self.owner]
        return error[self.owner] * share, np.ones_like(times)


REGROW_AT = 1.25
"""The trees are grown anew when there are so many times the samples that they were grown for; until
then a few trees more correct them."""
_FEWEST_TREES = 8


@dataclass(frozen=True, eq=False)
class TreeLayer:
    """A correction: the times before it are multiplied by `factor` and by what the trees say."""

    factor: float
    trees: Trees


@dataclass
class TreeModel:
    """One model for all tasks; needs LightGBM (`boosting.what_is_missing`).

    Before it has learned anything it ranks by the analytic estimate alone. Samples of tasks that an
    update does not mention are kept from earlier updates. Two models with the same seed that got
    the same updates score alike.
    """

    growth: Growth = field(default_factory=Growth)
    enough: int = 8
    """Successes of a task before anything is learned from it."""
    layers: tuple[TreeLayer, ...] = ()
    """The layers that were learned before this model was made; they stay."""
    _own: tuple[TreeLayer, ...] = field(default=(), repr=False)
    _grown_for: int = field(default=0, repr=False)
    """Samples for which the first of its own layers was grown."""
    _samples: dict[str, list[Sample]] = field(default_factory=dict[str, list[Sample]], repr=False)

    @property
    def is_trained(self) -> bool:
        """Whether it knows more than the estimate."""
        return bool(self.layers or self._own)

    def predict(self, features: Features) -> Float64Array:
        """Return SCORED_SECONDS / expected time: [rows]."""
        return SCORED_SECONDS / np.maximum(self.predict_seconds(features), 1e-12)

    def predict_seconds(self, features: Features) -> Float64Array:
        """Return the time that programs [rows, statements, features] should take, [rows].

        Before anything was learned the unit is not a second.
        """
        return np.sum(self.predict_statements(features), axis=1)

    def predict_statements(self, features: Features) -> Float64Array:
        """Return the time that each statement should take, [rows, statements], in that unit."""
        rows, statements, count = features.shape
        flat = np.ascontiguousarray(features.reshape(rows * statements, count))
        return self._times(flat, self._layers).reshape(rows, statements)

    def update(self, samples: Sequence[Sample]) -> None:
        """Learn from `samples`: all of their tasks, the ones of earlier updates included.

        A task with few successes teaches nothing yet, and failures of a task without any never do.
        """
        by_task: dict[str, list[Sample]] = {}
        for sample in samples:
            by_task.setdefault(sample.task, []).append(sample)
        self._samples |= by_task
        used = [
            each
            for of_task in self._samples.values()
            if self._is_enough(of_task)
            for each in of_task
        ]
        if not used:
            return
        if self._own and self._grown_for <= len(used) < REGROW_AT * self._grown_for:
            new = len(used) / self._grown_for - 1
            trees = max(_FEWEST_TREES, round(self.growth.trees * new))
            first = self._own[0]
            refit = self._layer(used, (*self.layers, first), replace(self.growth, trees=trees))
            self._own = (first, refit)
        else:
            self._own = (self._layer(used, self.layers, self.growth),)
            self._grown_for = len(used)

    def save(self, path: Path) -> None:
        """Write what was learned to `path`, for programs with the same features."""
        layers = [
            {"factor": layer.factor, "trees": layer.trees.model_to_string()}
            for layer in self._layers
        ]
        data = {"version": FEATURE_VERSION, "features": list(FEATURE_NAMES), "layers": layers}
        path.write_text(json.dumps(data), encoding="utf-8")

    @staticmethod
    def load(path: Path, seed: int = 0) -> TreeModel:
        """Return a model that goes on from the one in `path`.

        Raise RecordError if that is of other features, or no model.
        """
        try:
            data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            version, names, saved = data["version"], data["features"], data["layers"]
            texts = [(float(layer["factor"]), str(layer["trees"])) for layer in saved]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _not_a_model(path, error) from error
        if version != FEATURE_VERSION or names != list(FEATURE_NAMES):
            raise RecordError(
                f"{path} holds a cost model for features of version {version}, this program has "
                f"version {FEATURE_VERSION}; train it again from the records (`ansorc train`)"
            )
        try:
            layers = tuple(TreeLayer(factor, trees_of(text)) for factor, text in texts)
        except ValueError as error:
            raise _not_a_model(path, error) from error
        return TreeModel(Growth(seed=seed), layers=layers)

    @property
    def _layers(self) -> tuple[TreeLayer, ...]:
        return (*self.layers, *self._own)

    def _is_enough(self, samples: Sequence[Sample]) -> bool:
        return sum(sample.seconds is not None for sample in samples) >= self.enough

    def _layer(
        self, samples: Sequence[Sample], layers: Sequence[TreeLayer], growth: Growth
    ) -> TreeLayer:
        """A layer for what `layers` leave wrong."""
        matrix = np.concatenate([sample.features for sample in samples])
        loss = SumOfStatementsLoss.of(samples, self._times(matrix, layers))
        return TreeLayer(loss.factor, grow_trees(matrix, loss, growth))

    def _times(self, flat: npt.NDArray[np.float32], layers: Sequence[TreeLayer]) -> Float64Array:
        """The expected times of statements [statements, features]."""
        times = estimate_cycles(flat)
        if not len(flat):
            return times
        for layer in layers:
            # One thread: to wake a second one takes longer than a thousand statements, and the
            # other cores build programs meanwhile.
            logs = layer.trees.predict(flat, raw_score=True, num_threads=1)
            times = times * (layer.factor * np.exp(logs))
        return times


def _not_a_model(path: Path, error: Exception) -> RecordError:
    return RecordError(f"{path} is not a saved cost model ({error})")
