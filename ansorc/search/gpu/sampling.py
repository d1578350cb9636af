"""Random programs for GPUs: tiles are drawn until the kernels keep within the limits."""

from __future__ import annotations

import numpy as np

from ansorc.schedule.extent import BoolArray
from ansorc.search.gpu.kernels import kernels_of
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.genes import Genes, gene_counts, population_state, within_registers

ROUNDS = 64
"""Times that rows are drawn in place of those that are no legal programs."""
LEAST_DRAWN = 256
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
        drawn = rng.integers(counts, size=(max(LEAST_DRAWN, 4 * missing), len(counts)))
        good = within_registers(sketch, drawn, 1.0)
        if attempt < ROUNDS // 2:
            good &= _is_likely(sketch, drawn) | (rng.random(len(drawn)) < KEPT_OUTSIDE)
        found = np.concatenate([found, drawn[good]])
        if attempt == ROUNDS - 1 and not len(found):
            return drawn[:rows]
    return found[np.arange(rows) % len(found)]


def _is_likely(sketch: Sketch, genes: Genes) -> BoolArray:
    low, high = GOOD_THREADS
    good = np.ones(len(genes), dtype=bool)
    for kernel in kernels_of(population_state(sketch, genes)):
        good &= (kernel.threads >= low) & (kernel.threads <= high)
    return good
