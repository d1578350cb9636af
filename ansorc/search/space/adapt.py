"""Adapt: what a program for other extents would be for these ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ansorc.schedule.extent import IntArray
from ansorc.schedule.state import Step
from ansorc.search.options import DEFAULTS, SearchOptions
from ansorc.search.sketch.sketch import Sketch, TileVariable
from ansorc.search.space.genes import Genes, table_of
from ansorc.search.space.recall import choices_of, lengths_of
from ansorc.search.space.registers import within_registers

WEIGHT = 2.0
"""A level counts so many times as much as the one around it: the register tile counts most."""


def adapted(
    sketch: Sketch, steps: Sequence[Step], options: SearchOptions = DEFAULTS
) -> Genes | None:
    """Return the row [columns] of `sketch` that is nearest to a program for other extents.

    Every axis gets the legal lengths, ragged ones included, next to those of `steps`, the inner
    levels first; the outermost level takes what is left of the extent. None if `steps` are not of
    this structure, or if the register tile comes out too large.
    """
    count = len(sketch.steps)
    lengths = lengths_of(sketch, steps[:count])
    choices = choices_of(sketch, tuple(steps[count:]))
    if lengths is None or choices is None:
        return None
    row = [_nearest(variable, lengths.get(variable.name, {})) for variable in sketch.variables]
    genes = np.array([*row, *choices], dtype=np.int64)
    fits = within_registers(sketch, genes[None, :], options.max_register_ratio)[0]
    return genes if fits else None


def _nearest(variable: TileVariable, known: Mapping[tuple[int, ...], int]) -> int:
    """The row of the table with the lengths nearest to the `known` products of levels."""
    rows: IntArray = table_of(variable).rows
    distance = np.zeros(len(rows))
    for levels, length in known.items():
        found = np.prod(rows[:, list(levels)], axis=1)
        distance += WEIGHT ** min(levels) * np.abs(np.log2(found / length))
    return int(np.argmin(distance))
