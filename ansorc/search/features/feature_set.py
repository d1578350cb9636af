"""FeatureSet: one way to describe statements by numbers; the learned model uses one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ansorc.schedule.extent import Extent
from ansorc.schedule.state import State
from ansorc.search.features.columns import BoolArray, Column, FloatArray, stacked
from ansorc.search.features.nest import Nest, Nests
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.genes import Genes, choice_values, population_state
from ansorc.target import Target

Features: TypeAlias = npt.NDArray[np.float32]
"""[rows, statements, features]: the last axis is the names of the feature set."""

Describe: TypeAlias = Callable[[Nests, Nest, Target], Iterable[FloatArray]]
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

        `choices` are the numbers that the state does not hold yet, as in `Nests`.
        """
        nests = Nests(state, rows, {} if choices is None else choices)
        stages = [stage for stage in state.stages if not stage.is_inlined]
        features = np.empty((rows, len(stages), len(self.columns)), dtype=np.float32)
        for place, stage in enumerate(stages):
            values = self.describe(nests, nests.nest(stage), target)
            features[:, place] = stacked(values, self._is_log, rows)
        return features

    @cached_property
    def _is_log(self) -> BoolArray:
        return np.array([column.is_log for column in self.columns])
