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
    alike = [place for place in inner if all(array.shape[place] == 1 for array in factors)]
    scale = math.prod(shape[place] for place in alike)
    arrays: list[Array] = [
        _summed(array, [p for p in _held(array, inner) if p not in _held_by(factors, n, inner)])
        for n, array in enumerate(factors)
    ]
    while len(arrays) > 2:
        one, other = min(
            combinations(range(len(arrays)), 2), key=lambda pair: _left(arrays, pair, rank)
        )
        rest: list[Array] = [array for n, array in enumerate(arrays) if n not in (one, other)]
        waiting = {place for array in rest for place in _held(array, inner)}
        summed = [place for place in inner if place not in waiting]
        arrays = [*rest, _matmul(arrays[one], arrays[other], summed)]
    left, right = arrays if len(arrays) == 2 else (arrays[0], np.ones((1,) * len(shape)))
    product = _matmul(left, right.astype(left.dtype, copy=False), list(inner))
    product = product.reshape(product.shape[:rank])
    return product if scale == 1 else product * product.dtype.type(scale)


def _held(array: Array, places: Iterable[int]) -> list[int]:
    """Those of `places` along which an array varies."""
    return [place for place in places if array.shape[place] > 1]


def _held_by(arrays: Sequence[Array], apart: int, places: Sequence[int]) -> set[int]:
    """The places that arrays other than the one at `apart` hold."""
    return {p for n, array in enumerate(arrays) if n != apart for p in _held(array, places)}


def _left(arrays: Sequence[Array], pair: tuple[int, int], rank: int) -> int:
    """How many elements are left of two arrays that become one."""
    rest = [array for n, array in enumerate(arrays) if n not in pair]
    extents = np.maximum(*(arrays[n].shape for n in pair))
    is_summed = np.all([np.equal(array.shape, 1) for array in rest], axis=0)
    is_summed[:rank] = False
    return math.prod(map(int, np.where(is_summed, 1, extents)))


def _summed(array: Array, places: Sequence[int]) -> Array:
    if not places:
        return array
    return np.sum(array, axis=tuple(places), keepdims=True, dtype=array.dtype)


def _matmul(left: Array, right: Array, summed: Sequence[int]) -> Array:
    """Contract two arrays over the places `summed`: each is in both of them or in none.

    The other dimensions are those of both (batch), of the left (rows) and of the right (columns).
    The result has all dimensions, extent 1 where it was summed.
    """
    both: list[int] = []
    rows: list[int] = []
    columns: list[int] = []
    for place in range(left.ndim):
        if place in summed:
            continue
        in_left, in_right = left.shape[place] > 1, right.shape[place] > 1
        (both if in_left and in_right else rows if in_left else columns).append(place)
    inner = list(summed)
    batch, m, n = (_sizes(left, both), _sizes(left, rows), _sizes(right, columns))
    depth = math.prod(_sizes(left, inner))
    a = left.transpose([*both, *rows, *columns, *inner]).reshape(math.prod(batch), -1, depth)
    b = right.transpose([*both, *inner, *rows, *columns]).reshape(math.prod(batch), depth, -1)
    result = np.matmul(a, b).reshape([*batch, *m, *n, *(1 for _ in inner)])
    return result.transpose(np.argsort([*both, *rows, *columns, *inner]))


def _sizes(array: Array, places: Sequence[int]) -> list[int]:
    return [array.shape[place] for place in places]
