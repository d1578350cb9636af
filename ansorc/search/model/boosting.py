"""The one place that knows LightGBM: gradient-boosted trees for an objective of our own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module, util
from typing import Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float32]
Objective = Callable[[FloatArray, object], tuple[FloatArray, FloatArray]]
"""(what the trees say [rows]) → first and second derivative of the loss [rows]."""


class Trees(Protocol):
    """What is used of a trained `lightgbm.Booster`."""

    def predict(self, data: Matrix, *, raw_score: bool, num_threads: int) -> FloatArray: ...

    def model_to_string(self) -> str: ...


@dataclass(frozen=True)
class Growth:
    """How trees are grown."""

    trees: int = 80
    leaves: int = 24
    learning_rate: float = 0.2
    seed: int = 0
    threads: int = 1

    def parameters(self) -> dict[str, object]:
        """Return LightGBM's names for these numbers, and the ones that are always the same."""
        return {
            "objective": "none",
            "num_leaves": self.leaves,
            "learning_rate": self.learning_rate,
            "min_data_in_leaf": 4,
            "min_sum_hessian_in_leaf": 0.0,
            "lambda_l2": 0.3,
            "feature_fraction": 0.8,
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
    """Return whether LightGBM is installed."""
    return util.find_spec("lightgbm") is not None


def import_ahead() -> None:
    """Import LightGBM, which takes a second, at a time when it delays nothing."""
    if is_available():
        import_module("lightgbm")


def grown(matrix: Matrix, objective: Objective, growth: Growth) -> Trees:
    """Return trees for the rows of `matrix` that make `objective` small."""
    import lightgbm  # noqa: PLC0415 - takes a second, which only those who train should pay

    parameters = growth.parameters()
    unused = np.zeros(len(matrix))
    data = lightgbm.Dataset(matrix, unused, params=parameters, free_raw_data=False)
    booster = lightgbm.Booster(parameters, data)
    for _ in range(growth.trees):
        if booster.update(fobj=objective):
            break
    return booster


def trees_of(text: str) -> Trees:
    """Return the trees that `model_to_string` wrote; raise ValueError if `text` is cut off."""
    import lightgbm  # noqa: PLC0415 - as in `grown`

    if not text.startswith("tree\n") or "end of parameters" not in text:
        raise ValueError("its trees are cut off")
    return lightgbm.Booster(model_str=text)
