"""CostModel: learn from measured programs to score the ones that were not measured.

The score of a program is the sum of what gradient-boosted trees say of each of its statements
(paper §5.2); it estimates the best known time of the task divided by the time of the program.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import util
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ansorc.errors import RecordError
from ansorc.search.features import FEATURE_NAMES, FEATURE_VERSION, Features

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MIN_WEIGHT = 0.1
"""The weight of slow and failed programs. Weighted by score alone, failures would teach nothing."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One measured program."""

    task: str
    """The task that it belongs to, by key."""
    features: Features
    """[statements, features]."""
    seconds: float | None
    """Its time; None if it failed."""


class CostModel(Protocol):
    """Scores programs by their features: the higher the faster, in one task."""

    def predict(self, features: Features) -> FloatArray:
        """Return a score for each program of `features` [rows, statements, features]: [rows]."""
        ...

    def update(self, samples: Sequence[Sample]) -> None:
        """Learn from all programs measured so far, the ones seen before included."""
        ...


@dataclass
class RandomModel:
    """Scores at random: what a search without a model does."""

    rng: np.random.Generator

    def predict(self, features: Features) -> FloatArray:
        """Return uniform scores in [0, 1)."""
        return self.rng.random(len(features))

    def update(self, samples: Sequence[Sample]) -> None:
        """Learn nothing."""


class _Trees(Protocol):
    """What is used of a trained `lightgbm.Booster`."""

    def predict(
        self, data: npt.NDArray[np.float32], *, raw_score: bool, num_threads: int
    ) -> FloatArray: ...

    def model_to_string(self) -> str: ...


@dataclass
class TreeModel:
    """Gradient-boosted trees on statements; needs `is_available()`.

    Two models with the same samples, in the same order, and seed score alike.
    """

    seed: int = 0
    threads: int = 1
    trees: int = 120
    leaves: int = 24
    learning_rate: float = 0.12
    _booster: _Trees | None = field(default=None, repr=False)

    @property
    def is_trained(self) -> bool:
        """Whether it has seen a program that did not fail."""
        return self._booster is not None

    def predict(self, features: Features) -> FloatArray:
        """Return the scores [rows]; zeros before the first program was learned."""
        rows, statements, count = features.shape
        if self._booster is None or rows * statements == 0:
            return np.zeros(rows)
        flat = np.ascontiguousarray(features.reshape(rows * statements, count))
        scores: FloatArray = self._booster.predict(flat, raw_score=True, num_threads=self.threads)
        return np.sum(scores.reshape(rows, statements), axis=1)

    def update(self, samples: Sequence[Sample]) -> None:
        """Train on `samples` from scratch; without any success among them stay as it was."""
        if all(sample.seconds is None for sample in samples):
            return
        labels = labels_of(samples)
        matrix = np.concatenate([sample.features for sample in samples])
        counts = np.array([len(sample.features) for sample in samples])
        owner = np.repeat(np.arange(len(samples)), counts)
        objective = _SumObjective(owner, counts, labels)
        self._booster = self._boosted(matrix, labels[owner], objective)

    def save(self, path: Path) -> None:
        """Write the trees to `path`; they can be loaded by a program with the same features."""
        text = "" if self._booster is None else self._booster.model_to_string()
        data = {"version": FEATURE_VERSION, "features": list(FEATURE_NAMES), "trees": text}
        path.write_text(json.dumps(data), encoding="utf-8")

    def load(self, path: Path) -> None:
        """Take over the trees in `path`; raise RecordError if they are of other features."""
        try:
            data: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
            version, names, text = data["version"], data["features"], str(data["trees"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RecordError(f"{path} is not a saved cost model ({error})") from error
        if version != FEATURE_VERSION or names != list(FEATURE_NAMES):
            raise RecordError(
                f"{path} holds a cost model for features of version {version}, this program has "
                f"version {FEATURE_VERSION}; train it again from the records"
            )
        self._booster = _parsed(text) if text else None

    def _boosted(self, matrix: Features, labels: FloatArray, objective: _SumObjective) -> _Trees:
        import lightgbm  # noqa: PLC0415 - takes a second, which only those who train should pay

        parameters = self._parameters()
        data = lightgbm.Dataset(matrix, labels, params=parameters, free_raw_data=False)
        booster = lightgbm.Booster(parameters, data)
        for _ in range(self.trees):
            if booster.update(fobj=objective):
                break
        return booster

    def _parameters(self) -> dict[str, object]:
        return {
            "objective": "none",
            "num_leaves": self.leaves,
            "learning_rate": self.learning_rate,
            "min_data_in_leaf": 4,
            "min_sum_hessian_in_leaf": 0.0,
            "lambda_l2": 0.3,
            "feature_fraction": 0.6,
            "max_bin": 127,
            "min_data_in_bin": 1,
            "feature_pre_filter": False,
            "boost_from_average": False,
            "seed": self.seed,
            "deterministic": True,
            "force_col_wise": True,
            "num_threads": self.threads,
            "verbosity": -1,
        }


def is_available() -> bool:
    """Return whether LightGBM is installed, which TreeModel needs."""
    return util.find_spec("lightgbm") is not None


def _parsed(text: str) -> _Trees:
    import lightgbm  # noqa: PLC0415 - as in TreeModel

    return lightgbm.Booster(model_str=text)


def labels_of(samples: Sequence[Sample]) -> FloatArray:
    """Return [samples]: the best time of the sample's task / its time; 0 for a failure."""
    best: dict[str, float] = {}
    for sample in samples:
        if sample.seconds is not None:
            best[sample.task] = min(best.get(sample.task, np.inf), sample.seconds)
    return np.array([0.0 if s.seconds is None else best[s.task] / s.seconds for s in samples])


@dataclass(frozen=True, eq=False)
class _SumObjective:
    """The weighted squared error of the sum over the statements of a program."""

    owner: IntArray
    """[statements]: the program of each."""
    counts: IntArray
    """[programs]: the statements of each."""
    labels: FloatArray

    def __call__(self, scores: FloatArray, data: object) -> tuple[FloatArray, FloatArray]:
        """Return the first and second derivative for each statement.

        All statements of a program move its score at once, so the curvature grows with their
        number; without that, programs of many statements would overshoot.
        """
        total = np.bincount(self.owner, scores, minlength=len(self.counts))
        weights = np.maximum(self.labels, MIN_WEIGHT)
        gradient = weights * (total - self.labels)
        return gradient[self.owner], (weights * self.counts.astype(np.float64))[self.owner]
