"""Sum a product of arrays over some of their dimensions by matrix multiplication."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ansorc.ir.aligned import Array


def contract(factors: Sequence[Array], shape: Sequence[int], rank: int) -> Array:
    """Return the sum of the product of `factors` over the dimensions from `rank` on.

    Factors have the full rank of the box `shape`, with extent 1 where they do not vary. The result
    has `rank` dimensions, extent 1 where no factor varies.
    """
    arrays = list(factors)
    scale = 1
    for place in range(rank, len(shape)):
        holders = [i for i, array in enumerate(arrays) if array.shape[place] > 1]
        if not holders:
            scale *= shape[place]
        elif len(holders) == 1:
            arrays[holders[0]] = _summed(arrays[holders[0]], place)
    while len(arrays) > 2:
        arrays.sort(key=lambda array: array.size)
        arrays[:2] = [arrays[0] * arrays[1]]
    left, right = arrays if len(arrays) == 2 else (arrays[0], np.ones((1,) * len(shape)))
    product = _matmul(left, right.astype(left.dtype, copy=False), rank)
    return product if scale == 1 else product * product.dtype.type(scale)


def _summed(array: Array, place: int) -> Array:
    return np.sum(array, axis=place, keepdims=True, dtype=array.dtype)


def _matmul(left: Array, right: Array, rank: int) -> Array:
    """Contract two arrays over the dimensions from `rank` on: each is in both of them or in none.

    The other dimensions are those of both (batch), of the left (rows) and of the right (columns).
    """
    both: list[int] = []
    rows: list[int] = []
    columns: list[int] = []
    for place in range(rank):
        in_left, in_right = left.shape[place] > 1, right.shape[place] > 1
        (both if in_left and in_right else rows if in_left else columns).append(place)
    inner = list(range(rank, left.ndim))
    batch, m, n = (_sizes(left, both), _sizes(left, rows), _sizes(right, columns))
    depth = math.prod(left.shape[rank:])
    a = left.transpose([*both, *rows, *columns, *inner]).reshape(math.prod(batch), -1, depth)
    b = right.transpose([*both, *inner, *rows, *columns]).reshape(math.prod(batch), depth, -1)
    result = np.matmul(a, b).reshape([*batch, *m, *n])
    return result.transpose(np.argsort([*both, *rows, *columns]))


def _sizes(array: Array, places: Sequence[int]) -> list[int]:
    return [array.shape[place] for place in places]
