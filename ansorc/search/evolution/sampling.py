"""Random programs of a sketch, all rows at once; or all programs, of a sketch that has few."""

from __future__ import annotations

from math import prod

import numpy as np

from ansorc.search.options import DEFAULTS, SearchOptions
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.genes import Genes, are_legal, gene_counts
from ansorc.search.space.registry import search_space


def sample(
    sketch: Sketch, rows: int, rng: np.random.Generator, options: SearchOptions = DEFAULTS
) -> Genes:
    """Return [rows, columns] random genes; every row is a legal program, where there is one."""
    return search_space(sketch.target).sample(sketch, rows, rng, options)


def all_programs(sketch: Sketch, limit: int, options: SearchOptions) -> Genes | None:
    """Return every legal row [rows, columns] of `sketch`; None if there are more than `limit`."""
    counts = [int(count) for count in gene_counts(sketch)]
    if prod(counts) > limit:
        return None
    grid = np.indices(counts, dtype=np.int64).reshape(len(counts), prod(counts))
    genes = np.ascontiguousarray(grid.T)
    return genes[are_legal(sketch, genes, options)]
