"""FeatureSet: one way to describe statements by numbers; and what the learned model uses of them.

Nothing is lowered: one evaluation over arrays of extents serves a single program and thousands of
candidates alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ansorc.schedule.extent import Extent
from ansorc.schedule.state import State
from ansorc.search.features.columns import BoolArray, Column, FloatArray, stack
from ansorc.search.features.loop_nest import LoopNest, LoopNests
from ansorc.target import Target

Features: TypeAlias = npt.NDArray[np.float32]
"""[rows, statements, features]: the last axis is the names of the feature set."""

Describe: TypeAlias = Callable[[LoopNests, LoopNest, Target], Iterable[FloatArray]]
"""Gives the columns of one statement, in order, [rows] each."""

ESTIMATE_COLUMN = 69
"""Where the analytic estimate stands in the feature set of every search space."""


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
        for number, stage in enumerate(stages):
            values = self.describe(nests, nests.nest(stage), target)
            features[:, number] = stack(values, self._is_log, rows)
        return features

    @cached_property
    def _is_log(self) -> BoolArray:
        return np.array([column.is_log for column in self.columns])


def estimating_set(
    name: str, version: int, others: Sequence[Column], estimate: Column, describe: Describe
) -> FeatureSet:
    """Return the feature set of a search space: `others`, and `estimate` in its place among them.

    `describe` gives the columns of `others`, then the estimate: about how many cycles a statement
    takes, stored as log2(x + 1). Where there are few others, columns of zeros fill up.
    """
    blanks = [Column(f"blank.{n}", is_log=False) for n in range(ESTIMATE_COLUMN - len(others))]
    columns = [*others, *blanks]
    columns.insert(ESTIMATE_COLUMN, estimate)

    def describe_all(nests: LoopNests, nest: LoopNest, target: Target) -> Iterator[FloatArray]:
        *values, cycles = describe(nests, nest, target)
        values += [np.zeros(nests.rows, dtype=np.float32)] * len(blanks)
        values.insert(ESTIMATE_COLUMN, cycles)
        return iter(values)

    return FeatureSet(name, version, tuple(columns), describe_all)


def estimate_cycles(features: Features) -> npt.NDArray[np.float64]:
    """Return the estimated cycles, 1 at least, of each statement of `features` [..., features]."""
    return np.maximum(np.exp2(features[..., ESTIMATE_COLUMN].astype(np.float64)) - 1, 1)
