"""The cost models, and how well one predicts.

In: features and times of measured programs. Out: a score for each program that was not measured.
`ansorc.search.cost_model` has what all of them have in common.
"""

from ansorc.search.model.boosting import Growth, import_ahead, is_available
from ansorc.search.model.choice import NAMES, chosen_model, require_model
from ansorc.search.model.guarded import GuardedModel
from ansorc.search.model.random_scores import RandomModel
from ansorc.search.model.roofline import RooflineModel
from ansorc.search.model.trees import TreeModel

__all__ = [
    "NAMES", "Growth", "GuardedModel", "RandomModel", "RooflineModel", "TreeModel", "chosen_model",
    "import_ahead", "is_available", "require_model",
]  # fmt: skip
