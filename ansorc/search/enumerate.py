"""Enumerate: all programs of a sketch that has few, so that nothing is left to chance."""

from __future__ import annotations

from math import prod

import numpy as np

from ansorc.search.options import SearchOptions
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.genes import Genes, gene_counts
from ansorc.search.space.registers import within_registers


def all_programs(sketch: Sketch, limit: int, options: SearchOptions) -> Genes | None:
    """Return every legal row [rows, columns] of `sketch`; None if there are more than `limit`."""
    counts = [int(count) for count in gene_counts(sketch)]
    if prod(counts) > limit:
        return None
    grid = np.indices(counts, dtype=np.int64).reshape(len(counts), prod(counts))
    genes = np.ascontiguousarray(grid.T)
    return genes[within_registers(sketch, genes, options.max_register_ratio)]
