"""FeatureSet: one way to describe statements by numbers; and what the learned model uses of them.

Nothing is lowered: one evaluation over arrays of extents serves a single program and thousands of
candidates alike (DESIGN.md §3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ansorc.schedule.extent import Extent
from ansorc.schedule.state import State
from ansorc.search.features.columns import (
    BoolArray,
    Column,
    FloatArray,
    columns_of,
    stacked,
    values_of,
)
from ansorc.search.features.estimate import EstimateFeatures
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
from ansorc.search.features.statement import Statement
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.genes import Genes, choice_values, population_state
from ansorc.target import Target

Features: TypeAlias = npt.NDArray[np.float32]
"""[rows, statements, features]: the last axis is the names of the feature set."""

Describe: TypeAlias = Callable[[LoopNests, LoopNest, Target], Iterable[FloatArray]]
"""Gives the columns of one statement, in order, [rows] each."""

_BLOCK = 2048
"""Rows that are worked on at once, so that the arrays stay in the caches."""


@dataclass(frozen=True, eq=False)
class FeatureSet:
    """The numbers that describe one statement of a program."""

    name: str
    version: int
    """Grows when a feature changes its meaning: models of another version do not fit."""
    columns: tuple[Column, ...]
    describe: Describe

    @cached_property
    def names(self) -> tuple[str, ...]:
        """One name for each number: `group.field`, documented at the field."""
        return tuple(column.name for column in self.columns)

    def extract(self, sketch: Sketch, genes: Genes, target: Target) -> Features:
        """Return the features of the programs `genes` [rows, columns] of `sketch`.

        There is one statement for each stage that is not inlined, producers first.
        """
        blocks = [genes[start : start + _BLOCK] for start in range(0, len(genes), _BLOCK)]
        parts = [
            self.extract_state(
                population_state(sketch, block), target, choice_values(sketch, block), len(block)
            )
            for block in blocks or [genes]
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def extract_state(
        self,
        state: State,
        target: Target,
        choices: Mapping[str, Extent] | None = None,
        rows: int = 1,
    ) -> Features:
        """Return the features of the `rows` programs that `state` stands for.

        `choices` are the numbers that the state does not hold yet, as in `LoopNests`.
        """
        nests = LoopNests(state, rows, {} if choices is None else choices)
        stages = [stage for stage in state.stages if not stage.is_inlined]
        features = np.empty((rows, len(stages), len(self.columns)), dtype=np.float32)
        for place, stage in enumerate(stages):
            values = self.describe(nests, nests.nest(stage), target)
            features[:, place] = stacked(values, self._is_log, rows)
        return features

    @cached_property
    def _is_log(self) -> BoolArray:
        return np.array([column.is_log for column in self.columns])


_OF_BUFFER = columns_of(BufferFeatures, "")
COLUMNS: tuple[Column, ...] = (
    *columns_of(OperationFeatures, "operations"),
    *columns_of(LoopFeatures, "loops"),
    *columns_of(RegisterFeatures, "registers"),
    *columns_of(CacheFeatures, "caches"),
    *columns_of(EstimateFeatures, "estimate"),
    *(c for place in range(BUFFERS) for c in columns_of(BufferFeatures, f"buffer{place}")),
)


def estimated_cycles(features: Features) -> npt.NDArray[np.float64]:
    """Return the estimated cycles, 1 at least, of each statement of `features` [..., features]."""
    return np.maximum(np.exp2(features[..., CYCLES_PLACE].astype(np.float64)) - 1, 1)


def _statement(nests: LoopNests, nest: LoopNest, target: Target) -> Iterator[FloatArray]:
    """The columns of one statement, in order."""
    found = Statement(nests, nest, target)
    operations = operation_features(found.counts, found.places.inside[0])
    for group in (operations, found.loops, found.registers, found.caches, found.estimate):
        yield from values_of(group)
    numbers = largest_first(found.accesses)
    for number in numbers:
        access, levels = found.accesses[number], found.levels
        yield from values_of(
            buffer_features(number, access, found.places, found.tile, found.vectors, levels)
        )
    missing = (BUFFERS - len(numbers)) * len(_OF_BUFFER)
    yield from [np.zeros(nests.rows, dtype=np.float32)] * missing


MACHINE_FEATURES = FeatureSet("machine", 14, COLUMNS, _statement)
FEATURE_VERSION = MACHINE_FEATURES.version
FEATURE_NAMES = MACHINE_FEATURES.names
CYCLES_PLACE = FEATURE_NAMES.index("estimate.total_cycles")
"""Where the estimate stands in all feature sets."""
