"""Extract: the features of whole populations, in closed form.

Nothing is lowered: one evaluation over arrays of extents serves a single program and thousands of
candidates alike (DESIGN.md §3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from ansorc.schedule.extent import Extent
from ansorc.schedule.state import State
from ansorc.search.features.access import accesses_of
from ansorc.search.features.buffers import (
    BUFFERS,
    BufferFeatures,
    buffer_features,
    largest_first,
)
from ansorc.search.features.caches import CacheFeatures, cache_features, levels_of
from ansorc.search.features.columns import Column, FloatArray, columns_of, values_of
from ansorc.search.features.estimate import EstimateFeatures, estimate_features
from ansorc.search.features.feature_set import Features, FeatureSet
from ansorc.search.features.loops import LoopFeatures, loop_features
from ansorc.search.features.nest import Nest, Nests
from ansorc.search.features.operations import (
    OperationFeatures,
    operation_counts,
    operation_features,
)
from ansorc.search.features.panels import in_panels
from ansorc.search.features.places import places_of
from ansorc.search.features.registers import RegisterFeatures, register_features
from ansorc.search.features.tile import tile_of, vectors_of
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.genes import Genes
from ansorc.target import Target

COLUMNS: tuple[Column, ...] = (
    *columns_of(OperationFeatures, "operations"),
    *columns_of(LoopFeatures, "loops"),
    *columns_of(RegisterFeatures, "registers"),
    *columns_of(CacheFeatures, "caches"),
    *columns_of(EstimateFeatures, "estimate"),
    *(c for place in range(BUFFERS) for c in columns_of(BufferFeatures, f"buffer{place}")),
)


def extract(sketch: Sketch, genes: Genes, target: Target) -> Features:
    """Return the features of the programs `genes` [rows, columns] of `sketch`.

    There is one statement for each stage that is not inlined, producers first.
    """
    return MACHINE_FEATURES.extract(sketch, genes, target)


def extract_state(
    state: State, target: Target, choices: Mapping[str, Extent] | None = None, rows: int = 1
) -> Features:
    """Return the features of the `rows` programs that `state` stands for.

    `choices` are the numbers that the state does not hold yet, as in `Nests`.
    """
    return MACHINE_FEATURES.extract_state(state, target, choices, rows)


def estimated_cycles(features: Features) -> npt.NDArray[np.float64]:
    """Return the estimated cycles, 1 at least, of each statement of `features` [..., features]."""
    return np.maximum(np.exp2(features[..., _CYCLES].astype(np.float64)) - 1, 1)


def _statement(nests: Nests, nest: Nest, target: Target) -> Iterator[FloatArray]:
    """The columns of one statement, in order."""
    counts = operation_counts(nest.stage.op)
    found = accesses_of(nests, nest, target.cache_line_bytes)
    accesses = [in_panels(nests, access) for access in found]
    places = places_of(nest, accesses)
    iterations = places.inside[0]
    operations = operation_features(counts, iterations)
    loops = loop_features(nest, nests.rows, target.cores)
    vectors = vectors_of(nest, accesses, target)
    tile = tile_of(nest, accesses, vectors, target)
    registers = register_features(
        tile, vectors, accesses, places, counts.vector_instructions, target
    )
    levels = levels_of(accesses, places, loops, target)
    caches = cache_features(levels, places, operations.total)
    estimate = estimate_features(counts, loops, registers, caches, target)
    for group in (operations, loops, registers, caches, estimate):
        yield from values_of(group)
    numbers = largest_first(accesses)
    for number in numbers:
        buffer = buffer_features(number, accesses[number], places, tile, vectors, levels)
        yield from values_of(buffer)
    missing = (BUFFERS - len(numbers)) * len(columns_of(BufferFeatures, ""))
    yield from [np.zeros(nests.rows, dtype=np.float32)] * missing


MACHINE_FEATURES = FeatureSet("machine", 7, COLUMNS, _statement)
FEATURE_VERSION = MACHINE_FEATURES.version
FEATURE_NAMES = MACHINE_FEATURES.names
_CYCLES = FEATURE_NAMES.index("estimate.total_cycles")
