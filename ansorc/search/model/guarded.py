"""GuardedModel: a cost model of a user, whose faults must not end a tuning run of hours."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ansorc.search.cost_model import CostModel, Sample
from ansorc.search.features import Features
from ansorc.search.model.roofline import RooflineModel


class GuardedModel:
    """Asks `model` until it fails or returns nonsense; then the analytic model, and says so.

    `tell` gets the one sentence for the user.
    """

    def __init__(self, model: CostModel, tell: Callable[[str], None]) -> None:
        self._model, self._tell = model, tell
        self._has_failed = False

    def predict(self, features: Features) -> npt.NDArray[np.float64]:
        """Return the model's scores, or the analytic ones once it has failed: [rows]."""
        if not self._has_failed:
            try:
                return _checked(self._model.predict(features), len(features))
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
        self._tell(
            f"the cost model {type(self._model).__name__} failed in {method} "
            f"({type(error).__name__}: {error}); the search went on with the analytic model"
        )


def _checked(scores: object, rows: int) -> npt.NDArray[np.float64]:
    """Return `scores` as [rows] numbers; raise ValueError if they are something else."""
    found = np.asarray(scores, dtype=np.float64)
    if found.shape != (rows,):
        raise ValueError(f"{rows} scores were asked for, an array of shape {found.shape} came")
    if not np.isfinite(found).all():
        raise ValueError(f"{int(np.sum(~np.isfinite(found)))} of {rows} scores are not finite")
    return found
