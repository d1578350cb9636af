"""Random programs for a CPU, all rows at once: the register tiles are drawn until they fit."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ansorc.ir.passes.lane_groups import vector_pieces
from ansorc.schedule.extent import IntArray
from ansorc.search.cost_model import Float64Array
from ansorc.search.cpu.register_tiles import (
    columns_of,
    is_micro_kernel,
    register_vectors,
    table_on_cpu,
)
from ansorc.search.options import DEFAULTS, SearchOptions
from ansorc.search.sketch.sketch import ParallelLoops, RegisterTile, Sketch, TileVariable
from ansorc.search.space.genes import Genes, population_state
from ansorc.target import Target

ROUNDS = 8
"""Times that register tiles that are too large are drawn again before others are copied."""
KEPT_OUTSIDE = 0.2
"""Share that is kept of the register tiles that leave units waiting or spill registers."""
GOOD_PIECES = 4
"""Vectors along the contiguous axis that leave registers for the other axes."""


def sample_on_cpu(
    sketch: Sketch, rows: int, rng: np.random.Generator, options: SearchOptions = DEFAULTS
) -> Genes:
    """Return [rows, columns] random genes; every row is a legal program.

    Each tile variable is drawn from its table, then the innermost tiles that do not fit the
    registers are drawn again, then the loops to run in parallel are chosen for the tiles.
    """
    genes = np.zeros((rows, len(sketch.columns)), dtype=np.int64)
    in_registers = {name for tile in sketch.register_tiles for name in tile.variables}
    for column, variable in enumerate(sketch.variables):
        is_inner = variable.name in in_registers
        kind = _kind(options, sketch.target, is_inner=is_inner)
        genes[:, column] = _draw(variable, rows, rng, kind)
    for tile in sketch.register_tiles:
        _fit_registers(sketch, tile, genes, rng, options)
    _choose(sketch, genes, rng, options)
    return genes


def _kind(options: SearchOptions, target: Target, *, is_inner: bool) -> str:
    """Return by which weights the lengths of a variable are drawn."""
    if not options.is_simd_aware:
        return "uniform"
    if not is_inner:
        return "vector"
    return "masked register" if target.masks_remainders(in_registers=True) else "register"


def _draw(variable: TileVariable, rows: int, rng: np.random.Generator, kind: str) -> IntArray:
    """Return [rows]: random rows of the variable's table."""
    return np.searchsorted(_cumulative(variable, kind), rng.random(rows), side="right")


@lru_cache(maxsize=512)
def _cumulative(variable: TileVariable, kind: str) -> Float64Array:
    """Return the running sum of the probabilities of the table's rows."""
    table = table_on_cpu(variable)
    weights = np.ones(len(table))
    if kind != "uniform" and variable.lanes:
        innermost = table.rows[:, -1]
        is_masked = kind == "masked register"
        pieces = vector_pieces(innermost, variable.lanes, is_masked=is_masked)
        weights = (innermost / (variable.lanes * pieces)) ** 2
        if kind != "vector":
            weights = np.where(pieces > GOOD_PIECES, weights / 4, weights)
    running = np.cumsum(weights)
    return running / running[-1]


def _fit_registers(
    sketch: Sketch,
    tile: RegisterTile,
    genes: Genes,
    rng: np.random.Generator,
    options: SearchOptions,
) -> None:
    """Draw the tile variables of `tile` again in the rows where it is too large or wasteful."""
    columns = columns_of(sketch, tile)
    kind = _kind(options, sketch.target, is_inner=True)
    bad = np.arange(len(genes))
    for attempt in range(ROUNDS):
        good = _is_fit(sketch, tile, genes[bad], rng, options, is_strict=attempt < ROUNDS // 2)
        bad = bad[~good]
        if not len(bad):
            return
        for column in columns:
            genes[bad, column] = _draw(sketch.variables[column], len(bad), rng, kind)
    limit = options.max_register_ratio * sketch.target.vector_registers
    small = register_vectors(sketch, tile, genes) <= limit
    source = rng.choice(np.flatnonzero(small), int((~small).sum())) if small.any() else None
    for column in columns:
        smallest = int(np.argmin(table_on_cpu(sketch.variables[column]).rows[:, -1]))
        genes[~small, column] = smallest if source is None else genes[source, column]


def _is_fit(
    sketch: Sketch,
    tile: RegisterTile,
    genes: Genes,
    rng: np.random.Generator,
    options: SearchOptions,
    *,
    is_strict: bool,
) -> np.ndarray:
    vectors = register_vectors(sketch, tile, genes)
    fits = vectors <= options.max_register_ratio * sketch.target.vector_registers
    if not options.is_simd_aware or not is_strict:
        return fits
    is_good = is_micro_kernel(sketch, tile, genes)
    return fits & (is_good | (rng.random(len(genes)) < KEPT_OUTSIDE))


def _choose(sketch: Sketch, genes: Genes, rng: np.random.Generator, options: SearchOptions) -> None:
    state = None
    for column, choice in enumerate(sketch.choices, start=len(sketch.variables)):
        if not isinstance(choice, ParallelLoops):
            genes[:, column] = rng.integers(len(choice.values), size=len(genes))
            continue
        state = population_state(sketch, genes) if state is None else state
        stage = state.stage(choice.stage)
        extents = [it.extent for it in stage.iterators if it.name in choice.iterators]
        genes[:, column] = _choose_parallel(sketch, extents, len(genes), rng, options)


def _choose_parallel(
    sketch: Sketch,
    extents: list[int | IntArray | None],
    rows: int,
    rng: np.random.Generator,
    options: SearchOptions,
) -> IntArray:
    """Return how many loops to fuse and run in parallel.

    They give enough iterations for a random multiple of the cores, or all; seldom none are fused.
    """
    wanted = sketch.target.cores * rng.choice(options.parallel_ratios, rows)
    chunks = np.ones(rows, dtype=np.int64)
    count = np.zeros(rows, dtype=np.int64)
    for extent in extents:
        assert extent is not None
        count += chunks < wanted
        chunks = chunks * extent
    return np.where(rng.random(rows) < options.serial_share, 0, np.maximum(count, 1))
