"""Combine tuples of arrays along dimensions: the reference of reductions by a Reducer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ansorc.ir.aligned import Array
from ansorc.lang.grid import FloatType, Grid
from ansorc.lang.reducer import Reducer


def fold(
    reducer: Reducer,
    terms: Sequence[Array],
    shape: Sequence[int],
    rank: int,
    floats: FloatType,
) -> list[Array]:
    """Return the tuples `terms` over the box `shape`, combined over its dimensions from `rank`.

    Halves are combined recursively, so rounding errors grow with the logarithm of the length.
    """
    length = math.prod(shape[rank:])
    current = [np.broadcast_to(term, shape).reshape(*shape[:rank], length) for term in terms]
    while length > 1:
        half = length // 2
        left = [array[..., :half] for array in current]
        right = [array[..., half : 2 * half] for array in current]
        rest = [array[..., 2 * half :] for array in current]
        pairs = zip(combine(reducer, left, right, floats), rest, strict=True)
        current = [np.concatenate(pair, axis=-1) for pair in pairs]
        length = half + length % 2
    return [array[..., 0] for array in current]


def fold_rows(
    reducer: Reducer,
    results: Sequence[Array],
    rows: Array,
    terms: Sequence[Array],
    floats: FloatType,
) -> None:
    """Combine each of `terms` [terms, …] with the row `rows[term]` of `results` [rows, …].

    Rows ascend. The first terms of all rows are combined at once, then the second ones, ….
    """
    is_first = np.concatenate([[True], rows[1:] != rows[:-1]]) if len(rows) else np.empty(0, bool)
    begins = np.flatnonzero(is_first)
    numbers = np.arange(len(rows)) - begins[np.cumsum(is_first) - 1]
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers))
    for chosen in np.split(order, ends[:-1]):
        old = [result[rows[chosen]] for result in results]
        new = combine(reducer, old, [term[chosen] for term in terms], floats)
        for result, values in zip(results, new, strict=True):
            result[rows[chosen]] = values


def combine(
    reducer: Reducer,
    left: Sequence[Array],
    right: Sequence[Array],
    floats: FloatType,
) -> list[Array]:
    """Return the tuples `left` combined with `right`; all arrays have one shape."""
    mine, theirs = reducer.operands
    values = {var.name: array for var, array in zip(mine, left, strict=True)}
    values |= {var.name: array for var, array in zip(theirs, right, strict=True)}
    grid = Grid(values, {}, floats, "reducer", left[0].ndim)
    shape = left[0].shape
    return [np.broadcast_to(grid.evaluate(result), shape) for result in reducer.results]
