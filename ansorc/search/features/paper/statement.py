"""PAPER_FEATURES: the 164 numbers of one statement, in the order of the paper's implementation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ansorc.search.features.access import accesses_of
from ansorc.search.features.columns import Column, FloatArray, columns_of, values_of
from ansorc.search.features.feature_set import FeatureSet
from ansorc.search.features.nest import Nest, Nests
from ansorc.search.features.operations import operation_counts
from ansorc.search.features.paper.annotations import MarkFeatures, mark_features
from ansorc.search.features.paper.buffers import BUFFERS, AccessFeatures, access_columns
from ansorc.search.features.paper.curve import CurveFeatures, curve_features
from ansorc.search.features.paper.neighbours import neighbours_of
from ansorc.search.features.paper.operations import PaperOperations, paper_operations
from ansorc.search.features.paper.storage import (
    NestFeatures,
    StorageFeatures,
    nest_features,
    storage_features,
)
from ansorc.search.features.paper.threads import ThreadFeatures, thread_features
from ansorc.search.features.places import places_of
from ansorc.target import Target

COLUMNS: tuple[Column, ...] = (
    *columns_of(PaperOperations, "operations"),
    *columns_of(MarkFeatures, "vectorised"),
    *columns_of(MarkFeatures, "unrolled"),
    *columns_of(MarkFeatures, "parallel"),
    *columns_of(ThreadFeatures, "threads"),
    *(c for place in range(BUFFERS) for c in columns_of(AccessFeatures, f"access{place}")),
    *columns_of(CurveFeatures, "curve"),
    *columns_of(StorageFeatures, "storage"),
    *columns_of(NestFeatures, "nest"),
)


def _describe(nests: Nests, nest: Nest, target: Target) -> Iterator[FloatArray]:
    rows, loops = nests.rows, nest.loops
    accesses = accesses_of(nests, nest, target.cache_line_bytes, is_held=False)
    neighbours = neighbours_of(nests, nest, target.cache_line_bytes)
    places = places_of(nest, accesses)
    vectorised = [np.full(rows, loop.is_vector) for loop in loops]
    unrolled = [np.full(rows, not loop.is_vector) & loop.is_unrolled for loop in loops]
    parallel = [loop.is_parallel for loop in loops]
    yield from values_of(paper_operations(nest, places.inside[0]))
    for marked in (vectorised, unrolled, parallel):
        yield from values_of(mark_features(nest, marked, rows))
    yield from values_of(thread_features(nest, target, rows))
    yield from access_columns(accesses, places, neighbours)
    operations = operation_counts(nest.stage.op).total
    yield from values_of(curve_features(places, operations))
    yield from values_of(storage_features(nests, nest))
    yield from values_of(nest_features(nests, nest, places.inside[0]))


PAPER_FEATURES = FeatureSet("paper", 1, COLUMNS, _describe)
