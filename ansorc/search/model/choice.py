"""The cost model that a search asks: learned, analytic, random, or one of the user's.

A model of the user is code that may fail after hours of tuning. It is replaced by the analytic one
then, and the user is told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ansorc.errors import OptionError
from ansorc.search.cost_model import CostModel, Float64Array, Sample
from ansorc.search.features import Features, estimate_cycles
from ansorc.search.model.boosting import Growth, what_is_missing
from ansorc.search.model.trees import TreeModel

_LOG = logging.getLogger(__name__)
NAMES = ("trees", "roofline", "random")
"""Values of `SearchOptions.cost_model`, besides an object with `predict` and `update`."""
SCALE_CYCLES = 1e6
"""The time of a program that scores one half."""


def choose_model(
    wanted: str | CostModel, rng: np.random.Generator, tell: Callable[[str], None]
) -> CostModel:
    """Return the model `wanted`; `tell` gets what the user should know of it, now or later.

    Raise OptionError if it is neither one of NAMES nor a model.
    """
    require_model(wanted)
    seed = int(rng.integers(1 << 31))
    if isinstance(wanted, TreeModel):
        return wanted
    if not isinstance(wanted, str):
        return FallbackModel(wanted, tell)
    if wanted == "random":
        return RandomModel(np.random.default_rng(seed))
    if wanted == "trees":
        missing = what_is_missing()
        if not missing:
            return TreeModel(Growth(seed=seed))
        tell(f"{missing}: the search ranks programs by the analytic model alone")
    return RooflineModel()


def require_model(wanted: object) -> None:
    """Raise OptionError unless a search can use `wanted` as its cost model."""
    known = ", ".join(NAMES)
    if isinstance(wanted, str):
        if wanted not in NAMES:
            raise OptionError(f"there is no cost model '{wanted}'; it is one of {known}")
        return
    missing = [name for name in ("predict", "update") if not callable(getattr(wanted, name, None))]
    if isinstance(wanted, type) or missing:
        kind = wanted.__name__ if isinstance(wanted, type) else type(wanted).__name__
        reason = f"it has no {' and no '.join(missing)}" if missing else "it is a class"
        raise OptionError(
            f"{kind} cannot be used as a cost model, {reason}; give one of {known}, or an object "
            "like ansorc.search.cost_model.CostModel"
        )


@dataclass(frozen=True)
class RooflineModel:
    """Scores by the cycles that `ansorc.search.features.estimate` expects; needs no training."""

    def predict(self, features: Features) -> Float64Array:
        """Return [rows] scores in (0, 1] that fall with the estimated time."""
        return SCALE_CYCLES / (SCALE_CYCLES + np.sum(estimate_cycles(features), axis=1))

    def update(self, samples: Sequence[Sample]) -> None:
        """Learn nothing."""


@dataclass
class RandomModel:
    """Scores at random; what it returns depends on `rng` alone."""

    rng: np.random.Generator

    def predict(self, features: Features) -> Float64Array:
        """Return uniform scores in [0, 1)."""
        return self.rng.random(len(features))

    def update(self, samples: Sequence[Sample]) -> None:
        """Learn nothing."""


class FallbackModel:
    """Asks `model` until it fails or returns nonsense; then the analytic model, and says so.

    `tell` gets the one sentence for the user.
    """

    def __init__(self, model: CostModel, tell: Callable[[str], None]) -> None:
        self._model, self._tell = model, tell
        self._has_failed = False

    def predict(self, features: Features) -> Float64Array:
        """Return the model's scores, or the analytic ones once it has failed: [rows]."""
        if not self._has_failed:
            try:
                return _check_scores(self._model.predict(features), len(features))
            except Exception as error:  # noqa: BLE001 - any fault of code that is not ours
                self._give_up("predict", error)
        return RooflineModel().predict(features)

    def update(self, samples: Sequence[Sample]) -> None:
        """Let the model learn, unless it has failed."""
        if self._has_failed:
            return
        try:
            self._model.update(samples)
        except Exception as error:  # noqa: BLE001 - as in `predict`
            self._give_up("update", error)

    def _give_up(self, method: str, error: Exception) -> None:
        self._has_failed = True
        _LOG.info("the cost model fails in %s: %s", method, error)
        self._tell(
            f"the cost model {type(self._model).__name__} failed in {method} "
            f"({type(error).__name__}: {error}); the search went on with the analytic model"
        )


def _check_scores(scores: object, rows: int) -> Float64Array:
    """Return `scores` as [rows] numbers; raise ValueError if they are something else."""
    array = np.asarray(scores, dtype=np.float64)
    if array.shape != (rows,):
        raise ValueError(f"{rows} scores were asked for, an array of shape {array.shape} came")
    if not np.isfinite(array).all():
        raise ValueError(f"{int(np.sum(~np.isfinite(array)))} of {rows} scores are not finite")
    return array
