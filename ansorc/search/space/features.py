"""The features of programs: the feature set of the space of their target.

In: a sketch and rows of genes, or a State. Out: a float32 array [rows, statements, features].
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ansorc.schedule.extent import Extent
from ansorc.schedule.state import State
from ansorc.search.features.feature_set import Features, FeatureSet
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.genes import Genes, choice_values, population_state
from ansorc.search.space.registry import search_space
from ansorc.target import Target

_BLOCK = 2048
"""Rows that are worked on at once, so that the arrays stay in the caches."""


def extract(
    sketch: Sketch, genes: Genes, target: Target, features: FeatureSet | None = None
) -> Features:
    """Return the features of the programs `genes` [rows, columns] of `sketch`.

    There is one statement for each stage that is not inlined, producers first. `features` are
    those of the space of `target` unless given.
    """
    described_by = search_space(target).features if features is None else features
    blocks = [genes[start : start + _BLOCK] for start in range(0, len(genes), _BLOCK)]
    parts = [
        described_by.extract_state(
            population_state(sketch, block), target, choice_values(sketch, block), len(block)
        )
        for block in blocks or [genes]
    ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def extract_state(
    state: State, target: Target, choices: Mapping[str, Extent] | None = None, rows: int = 1
) -> Features:
    """Return the features of the `rows` programs that `state` stands for.

    `choices` are the numbers that the state does not hold yet, as in `LoopNests`.
    """
    return search_space(target).features.extract_state(state, target, choices, rows)
