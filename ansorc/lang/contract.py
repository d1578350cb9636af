"""Sum a product of arrays over some of their dimensions by matrix multiplication."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from ansorc.ir.aligned import Array


def contract(factors: Sequence[Array], shape: Sequence[int], rank: int) -> Array:
    """Return the sum of the product of `factors` over the dimensions from `rank` on.

    Factors have the full rank of the box `shape`, with extent 1 where they do not vary. The result
    has `rank` dimensions, extent 1 where no factor varies.
    """
    inner = range(rank, len(shape))
    constant = [d for d in inner if all(array.shape[d] == 1 for array in factors)]
    scale = math.prod(shape[d] for d in constant)
    arrays: list[Array] = [
        _sum_over(
            array,
            [p for p in _varying(array, inner) if p not in _varying_elsewhere(factors, n, inner)],
        )
        for n, array in enumerate(factors)
    ]
    while len(arrays) > 2:
        first, second = min(
            combinations(range(len(arrays)), 2), key=lambda pair: _size_after(arrays, pair, rank)
        )
        rest: list[Array] = [array for n, array in enumerate(arrays) if n not in (first, second)]
        waiting = {d for array in rest for d in _varying(array, inner)}
        summed = [d for d in inner if d not in waiting]
        arrays = [*rest, _matmul(arrays[first], arrays[second], summed)]
    left, right = arrays if len(arrays) == 2 else (arrays[0], np.ones((1,) * len(shape)))
    product = _matmul(left, right.astype(left.dtype, copy=False), list(inner))
    product = product.reshape(product.shape[:rank])
    return product if scale == 1 else product * product.dtype.type(scale)


def _varying(array: Array, dimensions: Iterable[int]) -> list[int]:
    """Return those of `dimensions` along which `array` varies."""
    return [d for d in dimensions if array.shape[d] > 1]


def _varying_elsewhere(arrays: Sequence[Array], number: int, dimensions: Sequence[int]) -> set[int]:
    """Return those of `dimensions` along which arrays other than array `number` vary."""
    return {p for n, array in enumerate(arrays) if n != number for p in _varying(array, dimensions)}


def _size_after(arrays: Sequence[Array], pair: tuple[int, int], rank: int) -> int:
    """Return the number of elements of the product of a pair of arrays."""
    rest = [array for n, array in enumerate(arrays) if n not in pair]
    extents = np.maximum(*(arrays[n].shape for n in pair))
    is_summed = np.all([np.equal(array.shape, 1) for array in rest], axis=0)
    is_summed[:rank] = False
    return math.prod(map(int, np.where(is_summed, 1, extents)))


def _sum_over(array: Array, places: Sequence[int]) -> Array:
    if not places:
        return array
    return np.sum(array, axis=tuple(places), keepdims=True, dtype=array.dtype)


def _matmul(left: Array, right: Array, summed: Sequence[int]) -> Array:
    """Contract two arrays over the dimensions `summed`; each varies in both arrays or in neither.

    The other dimensions vary in both arrays (batch), in the left (rows) or in the right (columns).
    The result has all dimensions, with extent 1 where it was summed.
    """
    both: list[int] = []
    rows: list[int] = []
    columns: list[int] = []
    for d in range(left.ndim):
        if d in summed:
            continue
        in_left, in_right = left.shape[d] > 1, right.shape[d] > 1
        (both if in_left and in_right else rows if in_left else columns).append(d)
    inner = list(summed)
    batch, m, n = (_sizes(left, both), _sizes(left, rows), _sizes(right, columns))
    depth = math.prod(_sizes(left, inner))
    a = left.transpose([*both, *rows, *columns, *inner]).reshape(math.prod(batch), -1, depth)
    b = right.transpose([*both, *inner, *rows, *columns]).reshape(math.prod(batch), depth, -1)
    result = np.matmul(a, b).reshape([*batch, *m, *n, *(1 for _ in inner)])
    return result.transpose(np.argsort([*both, *rows, *columns, *inner]))


def _sizes(array: Array, dimensions: Sequence[int]) -> list[int]:
    return [array.shape[d] for d in dimensions]
