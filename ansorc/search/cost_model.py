"""CostModel: learn from measured programs to score the ones that were not measured.

The time of a program is the sum of the times of its statements (paper §5.2), and the time of a
statement is its analytic estimate, corrected by gradient-boosted trees. Learning a correction
instead of the time makes the first few measurements count: after 32 programs of a 512³ matmul the
order of 81 % of the pairs is right, against 66 % for trees that begin with nothing.
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
from ansorc.search.features import FEATURE_NAMES, FEATURE_VERSION, Features, estimated_cycles

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MIN_WEIGHT = 0.1
"""The weight of slow and failed programs. Weighted by speed alone, failures would teach nothing."""
FAILED_TIME = 10.0
"""A failed program is learned to take at least this many times the best time of its task."""
SCORED_SECONDS = 1e-3
"""The time of a program that scores 1."""


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
    trees: int = 100
    leaves: int = 16
    learning_rate: float = 0.1
    _booster: _Trees | None = field(default=None, repr=False)
    _cycle_s: float = field(default=1.0, repr=False)
    """The typical time of an estimated cycle."""

    @property
    def is_trained(self) -> bool:
        """Whether it has seen a program that did not fail."""
        return self._booster is not None

    def predict(self, features: Features) -> FloatArray:
        """Return SCORED_SECONDS / expected time, [rows]; before training by the estimate alone."""
        return SCORED_SECONDS / np.maximum(self.expected_seconds(features), 1e-12)

    def expected_seconds(self, features: Features) -> FloatArray:
        """Return the time that programs [rows, statements, features] should take, [rows]."""
        return np.sum(self.predict_statements(features), axis=1)

    def predict_statements(self, features: Features) -> FloatArray:
        """Return the time that each statement should take, [rows, statements]."""
        rows, statements, count = features.shape
        times = estimated_cycles(features) * self._cycle_s
        if self._booster is not None and times.size:
            flat = np.ascontiguousarray(features.reshape(rows * statements, count))
            logs = self._booster.predict(flat, raw_score=True, num_threads=self.threads)
            times = times * np.exp(logs).reshape(rows, statements)
        return times

    def update(self, samples: Sequence[Sample]) -> None:
        """Train on `samples` from scratch; without any success among them stay as it was.

        Failures of a task without a success say nothing.
        """
        labels = labels_of(samples)
        known = {sample.task for sample in samples if sample.seconds is not None}
        used = [place for place, sample in enumerate(samples) if sample.task in known]
        if not used:
            return
        objective = _objective([samples[place] for place in used], labels[used])
        self._cycle_s = objective.cycle_s
        matrix = np.concatenate([samples[place].features for place in used])
        self._booster = self._boosted(matrix, objective)

    def save(self, path: Path) -> None:
        """Write the trees to `path`; they can be loaded by a program with the same features."""
        data = {
            "version": FEATURE_VERSION,
            "features": list(FEATURE_NAMES),
            "cycle_s": self._cycle_s,
            "trees": "" if self._booster is None else self._booster.model_to_string(),
        }
        path.write_text(json.dumps(data), encoding="utf-8")

    def load(self, path: Path) -> None:
        """Take over the trees in `path`; raise RecordError if they are of other features."""
        try:
            data: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
            version, names, text = data["version"], data["features"], str(data["trees"])
            cycle_s = float(str(data["cycle_s"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RecordError(f"{path} is not a saved cost model ({error})") from error
        if version != FEATURE_VERSION or names != list(FEATURE_NAMES):
            raise RecordError(
                f"{path} holds a cost model for features of version {version}, this program has "
                f"version {FEATURE_VERSION}; train it again from the records"
            )
        self._booster, self._cycle_s = (_parsed(text) if text else None), cycle_s

    def _boosted(self, matrix: Features, objective: _SumObjective) -> _Trees:
        import lightgbm  # noqa: PLC0415 - takes a second, which only those who train should pay

        parameters = self._parameters()
        unused = np.zeros(len(matrix))
        data = lightgbm.Dataset(matrix, unused, params=parameters, free_raw_data=False)
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
            "feature_fraction": 0.5,
            "extra_trees": True,
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
    """The weighted squared error of the logarithm of a program's time."""

    owner: IntArray
    """[statements]: the program of each."""
    times: FloatArray
    """[statements]: the estimated times in seconds."""
    logs: FloatArray
    """[programs]: the logarithm of the measured time, for failures of the time they must exceed."""
    is_failed: npt.NDArray[np.bool_]
    weights: FloatArray
    """[programs], 1 on average."""
    cycle_s: float

    def __call__(self, corrections: FloatArray, data: object) -> tuple[FloatArray, FloatArray]:
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


def _objective(samples: Sequence[Sample], labels: FloatArray) -> _SumObjective:
    """The objective for samples of tasks that have a success each."""
    best = {
        sample.task: sample.seconds
        for sample, label in zip(samples, labels, strict=True)
        if label == 1 and sample.seconds is not None
    }
    seconds = [s.seconds or FAILED_TIME * best[s.task] for s in samples]
    weights = np.maximum(labels, MIN_WEIGHT)
    weights = weights / np.mean(weights)
    cycles = [estimated_cycles(sample.features) for sample in samples]
    logs = np.log(seconds)
    gaps = logs - np.log([np.sum(each) for each in cycles])
    worked = labels > 0
    cycle_s = float(np.exp(np.average(gaps[worked], weights=weights[worked])))
    owner = np.repeat(np.arange(len(samples)), [len(each) for each in cycles])
    return _SumObjective(
        owner, np.concatenate(cycles) * cycle_s, logs, labels == 0, weights, cycle_s
    )
