"""Random programs for GPUs: tiles are drawn until the kernels keep within the limits."""

from __future__ import annotations

import numpy as np

from ansorc.schedule.extent import BoolArray
from ansorc.search.gpu.kernels import kernels_of
from ansorc.search.gpu.limits import MAX_TILE, MAX_VTHREADS, WARP_THREADS
from ansorc.search.gpu.tiling import SPACE_LEVELS, THREAD, VTHREAD
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.genes import (
    Genes,
    gene_counts,
    population_state,
    table_of,
    within_registers,
)
from ansorc.target.gpu_occupancy import MAX_THREADS

ROUNDS = 48
"""Times that rows are drawn in place of those that are no legal programs."""
DRAWN, CHECKED = 32_768, 1024
"""Rows that are drawn at a time, and the most of them, with fitting tiles, that are looked at."""
GOOD_THREADS = (64, 512)
KEPT_OUTSIDE = 0.25
"""Share that is kept of the programs whose blocks are smaller or larger than these."""


def sample_on_gpu(sketch: Sketch, rows: int, rng: np.random.Generator) -> Genes:
    """Return [rows, columns] random genes; every row is a legal program, where there is one.

    Blocks of `GOOD_THREADS` threads are drawn more often than others.
    """
    counts = gene_counts(sketch)
    found = np.zeros((0, len(counts)), dtype=np.int64)
    for attempt in range(ROUNDS):
        missing = rows - len(found)
        if missing <= 0:
            break
        drawn = rng.integers(counts, size=(DRAWN, len(counts)))
        drawn = drawn[_tiles_fit(sketch, drawn)][: max(CHECKED, 2 * missing)]
        if not len(drawn):
            continue
        good = within_registers(sketch, drawn, 1.0)
        if attempt < ROUNDS // 2:
            good &= _is_likely(sketch, drawn) | (rng.random(len(drawn)) < KEPT_OUTSIDE)
        found = np.concatenate([found, drawn[good]])
    if not len(found):
        found = rng.integers(counts, size=(rows, len(counts)))
    return found[np.arange(rows) % len(found)]


def _tiles_fit(sketch: Sketch, genes: Genes) -> BoolArray:
    """Whether the tiles of each tiled stage may be of one block, told from their lengths alone."""
    good = np.ones(len(genes), dtype=bool)
    tiled = [(n, v) for n, v in enumerate(sketch.variables) if len(v.limits) == SPACE_LEVELS - 1]
    for stage in {variable.stage for _, variable in tiled}:
        own = [table_of(v).rows[genes[:, n]] for n, v in tiled if v.stage == stage]
        lengths = np.prod(own, axis=0)
        covered = np.prod([v.extent for _, v in tiled if v.stage == stage])
        threads, virtual = lengths[:, THREAD], lengths[:, VTHREAD]
        good &= (threads <= MAX_THREADS) & (virtual <= MAX_VTHREADS)
        good &= virtual * lengths[:, THREAD + 1 :].prod(axis=1) <= MAX_TILE
        good &= (threads >= WARP_THREADS) | (covered < 2 * WARP_THREADS)
    return good


def _is_likely(sketch: Sketch, genes: Genes) -> BoolArray:
    low, high = GOOD_THREADS
    good = np.ones(len(genes), dtype=bool)
    for kernel in kernels_of(population_state(sketch, genes)):
        good &= (kernel.threads >= low) & (kernel.threads <= high)
    return good
