"""MACHINE_FEATURES: the numbers that describe a statement on a CPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ansorc.search.features.columns import Column, FloatArray, columns_of, values_of
from ansorc.search.features.estimate import EstimateFeatures
from ansorc.search.features.feature_set import FeatureSet
from ansorc.search.features.loop_nest import LoopNest, LoopNests
from ansorc.search.features.loops import LoopFeatures
from ansorc.search.features.memory import (
    BUFFERS,
    BufferFeatures,
    CacheFeatures,
    buffer_features,
    largest_first,
)
from ansorc.search.features.operations import (
    OperationFeatures,
    operation_features,
)
from ansorc.search.features.registers import RegisterFeatures
from ansorc.search.features.statement import StageAnalysis
from ansorc.target import Target

_OF_BUFFER = columns_of(BufferFeatures, "")
COLUMNS: tuple[Column, ...] = (
    *columns_of(OperationFeatures, "operations"),
    *columns_of(LoopFeatures, "loops"),
    *columns_of(RegisterFeatures, "registers"),
    *columns_of(CacheFeatures, "caches"),
    *columns_of(EstimateFeatures, "estimate"),
    *(c for place in range(BUFFERS) for c in columns_of(BufferFeatures, f"buffer{place}")),
)


def _statement(nests: LoopNests, nest: LoopNest, target: Target) -> Iterator[FloatArray]:
    """The columns of one statement, in order."""
    statement = StageAnalysis(nests, nest, target)
    operations = operation_features(statement.counts, statement.places.inside[0])
    for group in (
        operations,
        statement.loops,
        statement.registers,
        statement.caches,
        statement.estimate,
    ):
        yield from values_of(group)
    numbers = largest_first(statement.accesses)
    for number in numbers:
        access, levels = statement.accesses[number], statement.levels
        yield from values_of(
            buffer_features(
                number, access, statement.places, statement.tile, statement.vectors, levels
            )
        )
    missing = (BUFFERS - len(numbers)) * len(_OF_BUFFER)
    yield from [np.zeros(nests.rows, dtype=np.float32)] * missing


MACHINE_FEATURES = FeatureSet("machine", 14, COLUMNS, _statement)
FEATURE_VERSION = MACHINE_FEATURES.version
FEATURE_NAMES = MACHINE_FEATURES.names
