"""Extract: the features of whole populations, in closed form.

Nothing is lowered: one evaluation over arrays of extents serves a single program and thousands of
candidates alike (DESIGN.md §3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

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
from ansorc.search.features.columns import Column, FloatArray, columns_of, stacked, values_of
from ansorc.search.features.estimate import EstimateFeatures, estimate_features
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
from ansorc.search.space.genes import Genes, choice_values, population_state
from ansorc.target import Target

FEATURE_VERSION = 2
"""Grows when a feature changes its meaning: models of another version do not fit."""

COLUMNS: tuple[Column, ...] = (
    *columns_of(OperationFeatures, "operations"),
    *columns_of(LoopFeatures, "loops"),
    *columns_of(RegisterFeatures, "registers"),
    *columns_of(CacheFeatures, "caches"),
    *columns_of(EstimateFeatures, "estimate"),
    *(c for place in range(BUFFERS) for c in columns_of(BufferFeatures, f"buffer{place}")),
)
FEATURE_NAMES = tuple(column.name for column in COLUMNS)
"""One name for each number of a statement: `group.field`, documented at the field."""

Features: TypeAlias = npt.NDArray[np.float32]
"""[rows, statements, features]: the last axis is FEATURE_NAMES."""

_CYCLES = FEATURE_NAMES.index("estimate.total_cycles")
_IS_LOG = np.array([column.is_log for column in COLUMNS])
_BLOCK = 2048
"""Rows that are worked on at once, so that the arrays stay in the caches."""


def extract(sketch: Sketch, genes: Genes, target: Target) -> Features:
    """Return the features of the programs `genes` [rows, columns] of `sketch`.

    There is one statement for each stage that is not inlined, producers first.
    """
    blocks = [genes[start : start + _BLOCK] for start in range(0, len(genes), _BLOCK)]
    parts = [
        extract_state(
            population_state(sketch, block), target, choice_values(sketch, block), len(block)
        )
        for block in blocks or [genes]
    ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def extract_state(
    state: State, target: Target, choices: Mapping[str, Extent] | None = None, rows: int = 1
) -> Features:
    """Return the features of the `rows` programs that `state` stands for.

    `choices` are the numbers that the state does not hold yet, as in `Nests`.
    """
    nests = Nests(state, rows, {} if choices is None else choices)
    stages = [stage for stage in state.stages if not stage.is_inlined]
    features = np.empty((rows, len(stages), len(COLUMNS)), dtype=np.float32)
    for place, stage in enumerate(stages):
        values = _statement(nests, nests.nest(stage), target)
        features[:, place] = stacked(values, _IS_LOG, rows)
    return features


def estimated_cycles(features: Features) -> FloatArray:
    """Return the estimated cycles, 1 at least, of each statement of `features` [..., features]."""
    return np.maximum(np.exp2(features[..., _CYCLES].astype(np.float64)) - 1, 1)


def _statement(nests: Nests, nest: Nest, target: Target) -> Iterator[FloatArray]:
    """The columns of one statement, in order."""
    counts = operation_counts(nest.stage.op)
    found = accesses_of(nests, nest, target.cache_line_bytes)
    accesses = [in_panels(nests, access) for access in found]
    places = places_of(nest.loops, accesses)
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
    yield from [np.zeros(nests.rows)] * missing
