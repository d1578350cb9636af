"""Features: each program of a population as numbers that tell how fast it may be.

In: a sketch and rows of genes, or a State. Out: a float32 array [rows, statements, features].
"""

from ansorc.search.features.extract import (
    COLUMNS,
    FEATURE_NAMES,
    FEATURE_VERSION,
    MACHINE_FEATURES,
    Features,
    FeatureSet,
    estimated_cycles,
)

__all__ = [
    "COLUMNS", "FEATURE_NAMES", "FEATURE_VERSION", "MACHINE_FEATURES",
    "FeatureSet", "Features", "estimated_cycles",
]  # fmt: skip
