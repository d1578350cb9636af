"""Register tiles: how many vectors of a CPU the innermost tile of a program takes."""

from __future__ import annotations

import numpy as np

from ansorc.ir.passes.lane_groups import vector_pieces
from ansorc.schedule.extent import BoolArray, IntArray
from ansorc.search.sketch.sketch import RegisterTile, Sketch, TileVariable
from ansorc.search.space.genes import Genes
from ansorc.search.tiles import TileTable, single_row, tile_table
from ansorc.target.code_facts import INDEPENDENT_SUMS


def table_on_cpu(variable: TileVariable) -> TileTable:
    """Return the lengths that `variable` may have: divisors, and ragged innermost ones."""
    if variable.whole is not None:
        return single_row(variable.extent, variable.levels, variable.whole)
    return tile_table(variable.extent, variable.levels, variable.innermost_limit, variable.ragged)


def columns_of(sketch: Sketch, tile: RegisterTile) -> list[int]:
    """Return the columns of the genes that make up a register tile."""
    columns = {variable.name: column for column, variable in enumerate(sketch.variables)}
    return [columns[name] for name in tile.variables]


def register_vectors(sketch: Sketch, tile: RegisterTile, genes: Genes) -> IntArray:
    """Return [rows]: the vectors in the register tile of a tiled stage."""
    is_masked = sketch.target.masks_remainders(in_registers=True)
    total = np.ones(genes.shape[:-1], dtype=np.int64)
    for axis, column in enumerate(columns_of(sketch, tile)):
        variable = sketch.variables[column]
        innermost = table_on_cpu(variable).rows[:, -1]
        if axis == tile.vector:
            innermost = vector_pieces(innermost, max(1, variable.lanes), is_masked=is_masked)
        total *= innermost[genes[..., column]]
    return total


def is_micro_kernel(sketch: Sketch, tile: RegisterTile, genes: Genes) -> BoolArray:
    """Return [rows] booleans: the tile keeps the multiply-add units busy and spills nothing.

    It has enough sums to hide the latency of the units, and leaves registers for the vectors that
    are multiplied and for one broadcast factor. ("Autotuning Convolutions Is Easier Than You
    Think", TACO 2022, chooses tiles by this first, and everything around them afterwards.)
    """
    registers = sketch.target.vector_registers
    column = columns_of(sketch, tile)[tile.vector]
    variable = sketch.variables[column]
    is_masked = sketch.target.masks_remainders(in_registers=True)
    innermost = table_on_cpu(variable).rows[:, -1]
    pieces = vector_pieces(innermost, max(1, variable.lanes), is_masked=is_masked)
    sums = register_vectors(sketch, tile, genes)
    return (sums >= INDEPENDENT_SUMS) & (sums + pieces[genes[..., column]] + 1 <= registers)


def within_registers(sketch: Sketch, genes: Genes, max_ratio: float) -> BoolArray:
    """Return [rows] booleans: no tile has more than `max_ratio` × the machine's registers."""
    limit = max_ratio * sketch.target.vector_registers
    good = np.ones(len(genes), dtype=bool)
    for tile in sketch.register_tiles:
        good &= register_vectors(sketch, tile, genes) <= limit
    return good
