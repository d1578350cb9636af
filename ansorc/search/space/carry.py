"""Carry: take the genes of a program over to another sketch, by what they decide."""

from __future__ import annotations

import numpy as np

from ansorc.schedule.extent import IntArray
from ansorc.search.memo import memoized
from ansorc.search.sketch.sketch import Choice, ParallelLoops, Sketch, TileVariable
from ansorc.search.space.genes import Genes, table_of
from ansorc.search.space.nodes import nodes_of

MISSING = -1
"""A gene about which the other program says nothing, or something impossible."""


def carried(source: Sketch, target: Sketch, genes: Genes) -> Genes:
    """Return rows of `target` [rows, columns] that do as the rows `genes` of `source`, or MISSING.

    Tile variables and choices that have the same name carry over, else those of the same axis of
    the same node. As many loops are parallel as before, or as many as there are.
    """
    result = np.full((len(genes), len(target.columns)), MISSING, dtype=np.int64)
    for column, origin in enumerate(_origins(source, target)):
        if origin is not None:
            result[:, column] = _translation(source, target, origin, column)[genes[:, origin]]
    return result


def shared_columns(source: Sketch, target: Sketch) -> int:
    """Return how many tile variables of `target` programs of `source` decide."""
    return sum(origin is not None for origin in _origins(source, target)[: len(target.variables)])


@memoized
def _origins(source: Sketch, target: Sketch) -> tuple[int | None, ...]:
    """For each column of `target` the column of `source` that it follows."""
    names = {name: place for place, name in reversed(list(enumerate(source.columns)))}
    genes = nodes_of(source).genes
    kinds = {gene: place for place, gene in reversed(list(enumerate(genes)))}
    wanted = zip(target.columns, nodes_of(target).genes, strict=True)
    return tuple(names.get(name, kinds.get(gene)) for name, gene in wanted)


@memoized
def _translation(source: Sketch, target: Sketch, origin: int, column: int) -> IntArray:
    """[values of the origin]: the value of the target's column, or MISSING."""
    old, new = _column(source, origin), _column(target, column)
    if isinstance(old, TileVariable) and isinstance(new, TileVariable):
        return _rows(old, new)
    if isinstance(old, TileVariable) or isinstance(new, TileVariable):
        return np.full(len(table_of(old)) if isinstance(old, TileVariable) else len(old.values), -1)
    if isinstance(new, ParallelLoops):
        return np.minimum(old.values, len(new.values) - 1)
    places = [new.values.index(v) if v in new.values else MISSING for v in old.values]
    return np.array(places, dtype=np.int64)


def _rows(old: TileVariable, new: TileVariable) -> IntArray:
    ours, theirs = table_of(old), table_of(new)
    if ours is theirs:
        return np.arange(len(ours), dtype=np.int64)
    known: list[list[int]] = theirs.rows.tolist()
    places = {tuple(row): place for place, row in enumerate(known)}
    wanted: list[list[int]] = ours.rows.tolist()
    found = [places.get(tuple(row), MISSING) for row in wanted]
    return np.array(found, dtype=np.int64)


def _column(sketch: Sketch, column: int) -> TileVariable | Choice:
    return (*sketch.variables, *sketch.choices)[column]
