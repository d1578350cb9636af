"""The cost models: features and times of measured programs in, scores of other programs out.

* `choice`: the model that a search asks, by name or the user's own; the analytic and the random one
* `trees`: the learned model, gradient-boosted corrections of the analytic estimate
* `boosting`: LightGBM, which nothing else imports
* `training`: a trained model from record files, and how well its predictions agree with what was
  measured

`ansorc.search.cost_model` has what all models have in common.
"""

from ansorc.search.model.boosting import Growth, import_ahead, what_is_missing
from ansorc.search.model.choice import (
    NAMES,
    FallbackModel,
    RandomModel,
    RooflineModel,
    choose_model,
    require_model,
)
from ansorc.search.model.trees import TreeModel

__all__ = [
    "NAMES", "FallbackModel", "Growth", "RandomModel", "RooflineModel", "TreeModel", "choose_model",
    "import_ahead", "require_model", "what_is_missing",
]  # fmt: skip
