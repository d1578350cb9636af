"""Genes: what the columns of a population mean.

A population of one sketch is an int64 matrix [rows, columns]. The first columns are row numbers in
the tile tables of the sketch's variables, the others are positions in the values of its choices.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ansorc.ir.passes.lane_groups import vector_pieces
from ansorc.ir.passes.vectorize_reductions import INDEPENDENT_SUMS
from ansorc.schedule.extent import IntArray
from ansorc.schedule.genes import fill_holes
from ansorc.schedule.schedule import Schedule, replay
from ansorc.schedule.state import Step
from ansorc.search.gpu.limits import are_legal
from ansorc.search.gpu.thread_tiles import bounded_tiles
from ansorc.search.memo import memoized
from ansorc.search.sketch.sketch import RegisterTile, Sketch, TileVariable
from ansorc.search.space.skeleton import skeleton_of
from ansorc.search.tiles import TileTable, single_row, tile_table

PROBES = 256
"""Random programs that answer what the steps ask when they are replayed the first time."""

Genes = npt.NDArray[np.int64]


def table_of(variable: TileVariable) -> TileTable:
    """Return the table whose row numbers are the genes of `variable`."""
    if variable.whole is not None:
        return single_row(variable.extent, variable.levels, variable.whole)
    if variable.limits:
        return bounded_tiles(variable.extent, variable.limits, is_exact=variable.is_exact)
    return tile_table(variable.extent, variable.levels, variable.innermost_limit, variable.ragged)


@memoized
def gene_counts(sketch: Sketch) -> IntArray:
    """Return [columns]: how many values each gene may have."""
    counts = [len(table_of(variable)) for variable in sketch.variables]
    return np.array(counts + [len(choice.values) for choice in sketch.choices], dtype=np.int64)


def tiles(sketch: Sketch, genes: Genes) -> dict[str, IntArray]:
    """Return the levels chosen for each tile variable: [rows, levels], or [levels] for one row."""
    return {
        variable.name: table_of(variable).rows[genes[..., column]]
        for column, variable in enumerate(sketch.variables)
    }


def choice_values(sketch: Sketch, genes: Genes) -> dict[str, IntArray]:
    """Return the value made of each choice: [rows], or a single number for one row."""
    first = len(sketch.variables)
    return {
        choice.name: np.array(choice.values, dtype=np.int64)[genes[..., first + place]]
        for place, choice in enumerate(sketch.choices)
    }


def steps(sketch: Sketch, row: Genes) -> tuple[Step, ...]:
    """Return the program of one row [columns] as steps without holes."""
    values = {name: int(value) for name, value in choice_values(sketch, row).items()}
    return (*fill_holes(sketch.steps, tiles(sketch, row)), *sketch.annotate(values))


def population_state(sketch: Sketch, genes: Genes) -> Schedule:
    """Return the State of all rows [rows, columns] at once, before the steps of the choices.

    Extents that differ between programs are arrays [rows]. The steps are replayed the first time;
    after that only the extents are computed.
    """
    _keep_freed_memory()
    lengths = tiles(sketch, genes)
    skeleton = skeleton_of(sketch, _probe)
    state = None if skeleton is None else skeleton.filled(lengths)
    return replay(sketch.dag, sketch.steps, lengths) if state is None else state


@lru_cache(maxsize=1)
def _keep_freed_memory() -> None:
    """Free a large array: glibc then keeps twice as much at the end of its heap, which else goes
    back after each population, to be had again page by page (`mallopt(3)`)."""
    np.empty(16 << 20, dtype=np.uint8)


def _probe(sketch: Sketch) -> dict[str, IntArray]:
    rng = np.random.default_rng(0)
    return tiles(sketch, rng.integers(gene_counts(sketch), size=(PROBES, len(sketch.columns))))


def columns_of(sketch: Sketch, tile: RegisterTile) -> list[int]:
    """Return the columns of the genes that make up a register tile."""
    places = {variable.name: place for place, variable in enumerate(sketch.variables)}
    return [places[name] for name in tile.variables]


def register_vectors(sketch: Sketch, tile: RegisterTile, genes: Genes) -> IntArray:
    """Return [rows]: the vectors in the register tile of a tiled stage."""
    is_masked = sketch.target.masks_remainders(in_registers=True)
    total = np.ones(genes.shape[:-1], dtype=np.int64)
    for place, column in enumerate(columns_of(sketch, tile)):
        variable = sketch.variables[column]
        innermost = table_of(variable).rows[:, -1]
        if place == tile.vector:
            innermost = vector_pieces(innermost, max(1, variable.lanes), is_masked=is_masked)
        total *= innermost[genes[..., column]]
    return total


def is_micro_kernel(sketch: Sketch, tile: RegisterTile, genes: Genes) -> np.ndarray:
    """Return [rows] booleans: the tile keeps the multiply-add units busy and spills nothing.

    It has enough sums to hide the latency of the units, and leaves registers for the vectors that
    are multiplied and for one broadcast factor. ("Autotuning Convolutions Is Easier Than You
    Think", TACO 2022, chooses tiles by this first, and everything around them afterwards.)
    """
    registers = sketch.target.vector_registers
    column = columns_of(sketch, tile)[tile.vector]
    variable = sketch.variables[column]
    is_masked = sketch.target.masks_remainders(in_registers=True)
    innermost = table_of(variable).rows[:, -1]
    pieces = vector_pieces(innermost, max(1, variable.lanes), is_masked=is_masked)
    sums = register_vectors(sketch, tile, genes)
    return (sums >= INDEPENDENT_SUMS) & (sums + pieces[genes[..., column]] + 1 <= registers)


def within_registers(sketch: Sketch, genes: Genes, max_ratio: float) -> np.ndarray:
    """Return [rows] booleans: no tile has more than `max_ratio` × the machine's registers.

    On a GPU: the kernels keep the limits of the machine.
    """
    if sketch.target.kind == "cuda":
        return are_legal(population_state(sketch, genes), sketch.target, len(genes))
    limit = max_ratio * sketch.target.vector_registers
    good = np.ones(len(genes), dtype=bool)
    for tile in sketch.register_tiles:
        good &= register_vectors(sketch, tile, genes) <= limit
    return good
