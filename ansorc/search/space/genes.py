"""Genes: what the columns of a population mean.

A population of one sketch is an int64 matrix [rows, columns]. The first columns are row numbers in
the tile tables of the sketch's variables, the others are positions in the values of its choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np

from ansorc.schedule.extent import BoolArray, IntArray
from ansorc.schedule.genes import fill_holes
from ansorc.schedule.schedule import Schedule
from ansorc.schedule.state import Step
from ansorc.search.memo import memoize
from ansorc.search.options import DEFAULTS, SearchOptions
from ansorc.search.sketch.sketch import Sketch, TileVariable
from ansorc.search.space.protocol import Genes
from ansorc.search.space.registry import search_space
from ansorc.search.space.skeleton import Skeleton, skeleton_of
from ansorc.search.tiles import TileTable

PROBES = 256
"""Random programs that answer what the steps ask when they are replayed the first time."""


def table_of(sketch: Sketch, variable: TileVariable) -> TileTable:
    """Return the table whose row numbers are the genes of `variable`, which is of `sketch`."""
    return search_space(sketch.target).table(variable)


@memoize
def gene_counts(sketch: Sketch) -> IntArray:
    """Return [columns]: how many values each gene may have."""
    counts = [len(table_of(sketch, variable)) for variable in sketch.variables]
    return np.array(counts + [len(choice.values) for choice in sketch.choices], dtype=np.int64)


def tiles(sketch: Sketch, genes: Genes) -> dict[str, IntArray]:
    """Return the levels chosen for each tile variable: [rows, levels], or [levels] for one row."""
    return {
        variable.name: table_of(sketch, variable).rows[genes[..., column]]
        for column, variable in enumerate(sketch.variables)
    }


def choice_values(sketch: Sketch, genes: Genes) -> dict[str, IntArray]:
    """Return the value made of each choice: [rows], or a single number for one row."""
    first = len(sketch.variables)
    return {
        choice.name: np.array(choice.values, dtype=np.int64)[genes[..., first + position]]
        for position, choice in enumerate(sketch.choices)
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
    lengths, skeleton = tiles(sketch, genes), skeleton_of_genes(sketch)
    numbers = partial(numbers_of, sketch, genes)
    state = None if skeleton is None else skeleton.fill(numbers, lengths)
    return sketch.replay(lengths) if state is None else state


def skeleton_of_genes(sketch: Sketch) -> Skeleton | None:
    """Return the skeleton of a sketch over the numbers that `numbers_of` gives, if it has one."""
    return skeleton_of(sketch, _probe)


def numbers_of(sketch: Sketch, genes: Genes, chosen: Sequence[int]) -> list[IntArray]:
    """Return the numbers [rows] in `chosen` places of all levels, then all choices."""
    meanings, columns = _meanings(sketch), np.ascontiguousarray(genes.T)
    return [meanings[number][1].take(columns[meanings[number][0]]) for number in chosen]


@memoize
def _meanings(sketch: Sketch) -> tuple[tuple[int, IntArray], ...]:
    """Return the gene of each level of each tile variable, then of each choice, and what its values
    stand for."""
    levels = [
        (column, np.ascontiguousarray(level))
        for column, variable in enumerate(sketch.variables)
        for level in table_of(sketch, variable).rows.T
    ]
    choices = [
        (len(sketch.variables) + position, np.array(choice.values, dtype=np.int64))
        for position, choice in enumerate(sketch.choices)
    ]
    return (*levels, *choices)


@lru_cache(maxsize=1)
def _keep_freed_memory() -> None:
    """Free a large array: glibc then keeps twice as much at the end of its heap, which else goes
    back after each population, to be had again page by page (`mallopt(3)`)."""
    np.empty(16 << 20, dtype=np.uint8)


def _probe(sketch: Sketch) -> list[IntArray]:
    rng = np.random.default_rng(0)
    genes = rng.integers(gene_counts(sketch), size=(PROBES, len(sketch.columns)))
    return numbers_of(sketch, genes, range(len(_meanings(sketch))))


def are_legal(sketch: Sketch, genes: Genes, options: SearchOptions = DEFAULTS) -> BoolArray:
    """Return [rows]: which of the programs `genes` [rows, columns] keep the machine's limits."""
    return search_space(sketch.target).legal(sketch, genes, options)
