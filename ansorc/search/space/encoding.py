"""From steps to genes: of the program itself, or of the nearest one for other extents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ansorc.schedule.extent import Hole, HoleProduct, IntArray
from ansorc.schedule.genes import fill_holes
from ansorc.schedule.state import Step
from ansorc.schedule.steps import Split
from ansorc.search.options import DEFAULTS, SearchOptions
from ansorc.search.sketch.sketch import Sketch, TileVariable
from ansorc.search.space.genes import Genes, are_legal, table_of, tiles
from ansorc.search.tiles import TileTable

WEIGHT = 2.0
"""A level counts so many times as much as the one around it: the register tile counts most."""


def encode(sketch: Sketch, steps: Sequence[Step]) -> Genes | None:
    """Return the genes [columns] of `sketch` that make `steps`: the inverse of `steps`; or None."""
    count = len(sketch.steps)
    lengths = _lengths_of(sketch, steps[:count])
    if lengths is None:  # as of all sketches but one
        return None
    choices = _choices_of(sketch, tuple(steps[count:]))
    if choices is None:
        return None
    row: list[int] = []
    for variable in sketch.variables:
        levels = _levels(variable, lengths.get(variable.name, {}))
        if levels is None:
            return None
        try:
            row.append(table_of(sketch, variable).find(levels))
        except KeyError:
            return None
    genes = np.array([*row, *choices], dtype=np.int64)
    return genes if fill_holes(sketch.steps, tiles(sketch, genes)) == tuple(steps[:count]) else None


def adapt(sketch: Sketch, steps: Sequence[Step], options: SearchOptions = DEFAULTS) -> Genes | None:
    """Return the row [columns] of `sketch` that is nearest to a program for other extents.

    Every axis gets the legal lengths, ragged ones included, next to those of `steps`, the inner
    levels first; the outermost level takes what is left of the extent. None if `steps` are not of
    this structure, or if the register tile comes out too large.
    """
    count = len(sketch.steps)
    lengths = _lengths_of(sketch, steps[:count])
    choices = _choices_of(sketch, tuple(steps[count:]))
    if lengths is None or choices is None:
        return None
    row = [
        _nearest(table_of(sketch, variable), lengths.get(variable.name, {}))
        for variable in sketch.variables
    ]
    genes = np.array([*row, *choices], dtype=np.int64)
    return genes if are_legal(sketch, genes[None, :], options)[0] else None


def _nearest(table: TileTable, known: Mapping[tuple[int, ...], int]) -> int:
    """Return the row of the table with the lengths nearest to the `known` products of levels."""
    rows: IntArray = table.rows
    distance = np.zeros(len(rows))
    for levels, length in known.items():
        lengths = np.prod(rows[:, list(levels)], axis=1)
        distance += WEIGHT ** min(levels) * np.abs(np.log2(lengths / length))
    return int(np.argmin(distance))


def _lengths_of(
    sketch: Sketch, steps: Sequence[Step]
) -> dict[str, dict[tuple[int, ...], int]] | None:
    """Return for each variable the known products of levels, by the numbers of the levels.

    None if `steps` are of another sketch.
    """
    products: dict[str, dict[tuple[int, ...], int]] = {}
    if len(steps) != len(sketch.steps):
        return None
    for open_step, step in zip(sketch.steps, steps, strict=True):
        if not isinstance(open_step, Split):
            if open_step != step:
                return None
            continue
        if not isinstance(step, Split) or len(step.lengths) != len(open_step.lengths):
            return None
        if (step.stage, step.iterator) != (open_step.stage, open_step.iterator):
            return None
        for hole, length in zip(open_step.lengths, step.lengths, strict=True):
            if isinstance(hole, Hole) and isinstance(length, int):
                products.setdefault(hole.variable, {})[hole.levels] = length
            elif not isinstance(hole, HoleProduct) and hole != length:
                return None
    return products


def _levels(variable: TileVariable, known: dict[tuple[int, ...], int]) -> IntArray | None:
    """Solve the products for the single levels, the shortest first."""
    levels = np.zeros(variable.levels, dtype=np.int64)
    if variable.whole is not None:  # Nothing is open; a fused stage may not name all levels.
        levels[:] = 1
        levels[variable.whole] = variable.extent
    whole = tuple(range(variable.levels))
    for group, length in sorted((known | {whole: variable.extent}).items(), key=_group_size):
        unknown = [level for level in group if levels[level] == 0]
        solved = int(np.prod([levels[level] for level in group if levels[level]], initial=1))
        if 0 in unknown and group == whole:  # The outermost level is rounded up.
            levels[unknown] = 1  # What no step names makes no difference.
            levels[0] = -(-length // solved)
        elif len(unknown) == 1 and length % solved == 0:
            levels[unknown[0]] = length // solved
        elif unknown or length != solved:
            return None
    return levels


def _group_size(entry: tuple[tuple[int, ...], int]) -> int:
    return len(entry[0])


def _choices_of(sketch: Sketch, steps: tuple[Step, ...]) -> tuple[int, ...] | None:
    """Return the positions of the choices' values that add exactly `steps`, or None.

    Each choice is about a stage of its own, so it takes as many of the next steps as it can.
    """
    picked: list[int] = []
    for choice in sketch.choices:
        added = [choice.steps(value) for value in choice.values]
        fitting = [
            p
            for p, steps_of_value in enumerate(added)
            if steps_of_value == steps[: len(steps_of_value)]
        ]
        if not fitting:
            return None
        picked.append(max(fitting, key=lambda p: len(added[p])))
        steps = steps[len(added[picked[-1]]) :]
    return None if steps else tuple(picked)
