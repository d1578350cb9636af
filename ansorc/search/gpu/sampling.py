"""Random programs for GPUs: tiles are drawn until the kernels keep within the limits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from math import prod

import numpy as np

from ansorc.schedule.extent import BoolArray, IntArray
from ansorc.search.gpu.kernels import kernels_of
from ansorc.search.gpu.limits import (
    MAX_TILE,
    MAX_VTHREADS,
    are_launchable,
    kernel_limits,
)
from ansorc.search.gpu.tiling import SPACE_LEVELS, THREAD, VTHREAD
from ansorc.search.memo import memoize
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.genes import Genes, gene_counts, table_of
from ansorc.search.tiles import TileTable
from ansorc.target.gpu import WARP_THREADS
from ansorc.target.gpu_occupancy import MAX_THREADS

ROUNDS = 48
"""Times that rows are drawn in place of those that are no legal programs."""
TILES, LEAST_TILES = 64, 8192
"""Tiles of all stages that are drawn for each program that is wanted, and of each stage at least.
About a tenth of them fits."""
CHECKED = 1024
"""Programs that are looked at in a round, at least."""
GOOD_THREADS = (64, 512)
KEPT_OUTSIDE = 0.25
"""Share that is kept of the programs whose blocks are smaller or larger than these."""


def sample_on_gpu(
    sketch: Sketch, rows: int, rng: np.random.Generator, rounds: int = ROUNDS
) -> Genes:
    """Return [rows, columns] random genes; every row is a legal program, where there is one.

    Blocks of `GOOD_THREADS` threads are drawn more often than others in the first half of `rounds`.
    If there are not enough programs after all of them, some are repeated. The tiles of each stage
    are drawn by themselves, and so is each kernel: of several few are legal at once.
    """
    counts = gene_counts(sketch)
    stages = _columns_of_tiles(sketch)
    tiles = max(LEAST_TILES, TILES * rows // max(1, len(stages)))
    pools = {columns: _fitting_tiles(sketch, columns, tiles, rng) for columns in stages}
    legal = np.zeros((0, len(counts)), dtype=np.int64)
    for attempt in range(ROUNDS):
        missing = rows - len(legal)
        if missing <= 0 or (attempt >= rounds and len(legal)):
            break
        drawn = rng.integers(counts, size=(max(CHECKED, 4 * missing), len(counts)))
        for columns, fitting in pools.items():
            drawn[:, columns] = fitting[rng.integers(len(fitting), size=len(drawn))]
        made = _legal_kernels(sketch, drawn, rng, prefers_good=attempt < rounds // 2)
        legal = np.concatenate([legal, made])
    if not len(legal):
        legal = rng.integers(counts, size=(rows, len(counts)))
    return legal[np.arange(rows) % len(legal)]


def _legal_kernels(
    sketch: Sketch, drawn: Genes, rng: np.random.Generator, *, prefers_good: bool
) -> Genes:
    """Return legal programs that combine kernels of the rows `drawn`."""
    if not len(drawn):
        return drawn
    low, high = GOOD_THREADS
    mixed = drawn.copy()
    legal, threads = kernel_limits(sketch, drawn)
    for kernel, (is_legal, count) in enumerate(zip(legal.T, threads.T, strict=True)):
        good = is_legal
        if prefers_good:
            is_good = (count >= low) & (count <= high)
            good = good & (is_good | (rng.random(len(drawn)) < KEPT_OUTSIDE))
        if not good.any():
            return drawn[:0]
        if len(legal.T) == 1:
            return drawn[good]
        stages = kernels_of(sketch.state)[kernel].stages
        columns = columns_of(sketch, {stage.name for stage in stages})
        rows = rng.choice(np.flatnonzero(good), size=len(drawn))
        mixed[:, columns] = drawn[rows[:, None], columns]
    return mixed[are_launchable(sketch, mixed)]


def columns_of(sketch: Sketch, stages: Collection[str]) -> list[int]:
    """Return the columns of the genes of some of the stages."""
    owners = [gene.stage for gene in (*sketch.variables, *sketch.choices)]
    return [column for column, stage in enumerate(owners) if stage in stages]


def _columns_of_tiles(sketch: Sketch) -> list[tuple[int, ...]]:
    """Return the columns of the tile lengths of each tiled stage."""
    tiled = [(n, v) for n, v in enumerate(sketch.variables) if len(v.limits) == SPACE_LEVELS - 1]
    stages = dict.fromkeys(variable.stage for _, variable in tiled)
    return [tuple(n for n, v in tiled if v.stage == stage) for stage in stages]


def _fitting_tiles(
    sketch: Sketch, columns: Sequence[int], tiles: int, rng: np.random.Generator
) -> Genes:
    """Return those of `tiles` random genes [tiles, columns] of a stage that fit into one block.

    Return all of them, if none fits.
    """
    counts = [len(table_of(sketch, sketch.variables[column])) for column in columns]
    drawn = (rng.random((tiles, len(counts))) * counts).astype(np.int64)  # faster than integers()
    good = _tiles_fit(sketch, columns, drawn)
    return drawn[good] if good.any() else drawn


def _tiles_fit(sketch: Sketch, places: Sequence[int], genes: Genes) -> BoolArray:
    """Return whether the tiles [rows, places] of a stage may be of one block, by their lengths."""
    variables = [sketch.variables[place] for place in places]
    lengths = [_tile_lengths(table_of(sketch, variable)) for variable in variables]
    columns: list[IntArray] = list(np.ascontiguousarray(genes.T))
    threads = reduce(np.multiply, [t.take(c) for (t, _), c in zip(lengths, columns, strict=True)])
    covered = prod(variable.extent for variable in variables)
    good = threads <= MAX_THREADS
    if covered >= 2 * WARP_THREADS:
        good &= threads >= WARP_THREADS
    left = np.flatnonzero(good)  # the rest is looked up for these alone
    parts = [t[:, c[left]] for (_, t), c in zip(lengths, columns, strict=True)]
    virtual, results = reduce(np.multiply, parts)
    good[left] = (virtual <= MAX_VTHREADS) & (virtual * results <= MAX_TILE)
    return good


@memoize
def _tile_lengths(table: TileTable) -> tuple[IntArray, IntArray]:
    """Return for each row the threads along an axis; and [2, rows] virtual threads, and results."""
    rows = table.rows
    others = np.stack([rows[:, VTHREAD], rows[:, THREAD + 1 :].prod(axis=1)])
    return np.ascontiguousarray(rows[:, THREAD]), others
