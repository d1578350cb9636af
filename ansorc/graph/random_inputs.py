"""Inputs of a network for checks and timings: always the same random ones."""

from __future__ import annotations

import numpy as np

from ansorc.graph.graph import Graph
from ansorc.ir.aligned import Array

_SEED, _LARGEST_INTEGER = 1, 100
"""Other inputs than those of the tuning; integers are mostly indices, and small ones exist."""


def random_inputs(graph: Graph) -> dict[str, Array]:
    """Return random inputs: normal floats, small integers, truth values."""
    rng, found = np.random.default_rng(_SEED), dict[str, Array]()
    for name, kind in graph.inputs.items():
        if kind.dtype.is_float:
            found[name] = rng.standard_normal(kind.shape).astype(kind.dtype.numpy)
        else:
            most = 2 if kind.dtype.is_bool else _LARGEST_INTEGER
            found[name] = rng.integers(0, most, kind.shape).astype(kind.dtype.numpy)
    return found
