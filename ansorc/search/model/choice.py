"""Which cost model a search asks: one of ours by name, or one of the user."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ansorc.errors import OptionError
from ansorc.search.cost_model import CostModel
from ansorc.search.model.boosting import Growth, is_available
from ansorc.search.model.guarded import GuardedModel
from ansorc.search.model.random_scores import RandomModel
from ansorc.search.model.roofline import RooflineModel
from ansorc.search.model.trees import TreeModel

NAMES = ("trees", "roofline", "random")
"""What `SearchOptions.cost_model` may be, besides an object with `predict` and `update`."""


def chosen_model(
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
        return GuardedModel(wanted, tell)
    if wanted == "random":
        return RandomModel(np.random.default_rng(seed))
    if wanted == "trees" and is_available():
        return TreeModel(Growth(seed=seed))
    if wanted == "trees":
        tell("LightGBM is not installed: the search ranks programs by the analytic model alone")
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
