"""Features: each program of a population as numbers that tell how fast it may be.

In: a sketch and rows of genes, or a State. Out: a float32 array [rows, statements, features].
"""

from ansorc.search.features.feature_set import (
    ESTIMATE_COLUMN,
    Features,
    FeatureSet,
    estimate_cycles,
    estimating_set,
)
from ansorc.search.features.machine import (
    COLUMNS,
    FEATURE_NAMES,
    FEATURE_VERSION,
    MACHINE_FEATURES,
)

__all__ = [
    "COLUMNS", "ESTIMATE_COLUMN", "FEATURE_NAMES", "FEATURE_VERSION", "MACHINE_FEATURES",
    "FeatureSet", "Features", "estimate_cycles", "estimating_set",
]  # fmt: skip
