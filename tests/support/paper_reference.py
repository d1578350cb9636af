"""The paper's workloads in plain NumPy, in double precision, for chosen elements of the result.

Nothing of the compiler is used: an element is the sum over taps and channels that the operator's
definition in a textbook has.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Places = tuple[Array, ...]
"""For each dimension of the result the indices of the chosen elements."""


def chosen_places(shape: Sequence[int], count: int, rng: np.random.Generator) -> Places:
    """All corners of `shape` and random elements, `count` or more; all if there are no more."""
    size = int(np.prod(shape))
    if size <= 2 * count:
        return tuple(index.reshape(-1) for index in np.indices(shape))
    corners = np.array(list(itertools.product(*((0, extent - 1) for extent in shape)))).T
    flat = rng.choice(size, count, replace=False)
    return tuple(
        np.concatenate(pair) for pair in zip(corners, np.unravel_index(flat, shape), strict=True)
    )


def expected(operator: str, shape: Sequence[int], inputs: Sequence[Array], at: Places) -> Array:
    """The elements `at` of the result of a workload of the paper."""
    match operator:
        case "C1D" | "C2D" | "C3D":
            return convolution(inputs[0], inputs[1], at, *shape[-2:])
        case "GRP":
            return convolution(inputs[0], inputs[1], at, *shape[-3:-1], groups=shape[-1])
        case "DIL":
            return convolution(inputs[0], inputs[1], at, *shape[-3:-1], dilation=shape[-1])
        case "DEP":
            return depthwise(inputs[0], inputs[1], at, *shape[-2:])
        case "T2D":
            return transposed(inputs[0], inputs[1], at, *shape[-2:])
        case "CAP":
            return capsule(inputs[0], inputs[1], at, *shape[-3:-1])
        case "GMM":
            n, i, j = at
            return dot(inputs[0][n, i, :], inputs[1][n, :, j])
        case "NRM":
            return np.sqrt([np.square(inputs[0][n].astype(np.float64)).sum() for n in at[0]])
        case "ConvLayer":
            x, w, scale, shift = inputs
            conv = convolution(x, w, at, *shape[-2:])
            return np.maximum(conv * scale[at[-1]] + shift[at[-1]].astype(np.float64), 0)
        case "TBS":
            return scores(inputs[0], inputs[1], at)
        case _:
            raise AssertionError(operator)


def dot(left: Array, right: Array) -> Array:
    return np.einsum("sk,sk->s", left.astype(np.float64), right.astype(np.float64))


def elements(x: Array, n: Array, places: Sequence[Array]) -> Array:
    """Rows x[n, places, …] in double precision, zeros where a place is outside of x."""
    inside = np.ones(len(n), np.bool_)
    held: list[Array] = []
    for place, extent in zip(places, x.shape[1:], strict=False):
        inside &= (place >= 0) & (place < extent)
        held.append(np.clip(place, 0, extent - 1))
    rows = x[(n, *held)].astype(np.float64)
    rows[~inside] = 0
    return rows


def convolution(
    x: Array, w: Array, at: Places, stride: int, padding: int, dilation: int = 1, groups: int = 1
) -> Array:
    n, *spatial, channel = at
    depth = int(w.shape[-2])
    first: Array = channel // (w.shape[-1] // groups) * depth
    columns = np.add.outer(first, np.arange(depth))
    total = np.zeros(len(n))
    for tap in itertools.product(*map(range, w.shape[:-2])):
        places = [p * stride + k * dilation - padding for p, k in zip(spatial, tap, strict=True)]
        rows = np.take_along_axis(elements(x, n, places), columns, axis=1)
        total += dot(rows, w[tap][:, channel].T)
    return total


def depthwise(x: Array, w: Array, at: Places, stride: int, padding: int) -> Array:
    n, h, v, channel = at
    total = np.zeros(len(n))
    for i, j in itertools.product(*map(range, w.shape[:2])):
        row = elements(x, n, [h * stride + i - padding, v * stride + j - padding])
        total += row[np.arange(len(n)), channel] * w[i, j, channel]
    return total


def transposed(x: Array, w: Array, at: Places, stride: int, padding: int) -> Array:
    """Output o gets input h times tap k wherever o + padding = h * stride + k."""
    n, *spatial, channel = at
    total = np.zeros(len(n))
    for tap in itertools.product(*map(range, w.shape[:2])):
        shifted = [p + padding - k for p, k in zip(spatial, tap, strict=True)]
        meets = np.all([place % stride == 0 for place in shifted], axis=0)
        rows = elements(x, n, [place // stride for place in shifted])
        total += np.where(meets, dot(rows, w[tap][:, channel].T), 0)
    return total


def capsule(x: Array, w: Array, at: Places, stride: int, padding: int) -> Array:
    n, h, v, p, r, channel = at
    total = np.zeros(len(n))
    for i, j in itertools.product(*map(range, w.shape[:2])):
        matrices = elements(x, n, [h * stride + i - padding, v * stride + j - padding])
        rows = matrices[np.arange(len(n)), p]
        weights = w[i, j][:, r, :, channel]
        total += dot(rows.reshape(len(n), -1), weights.reshape(len(n), -1))
    return total


def scores(query: Array, key: Array, at: Places) -> Array:
    """softmax over all keys of query [n, i, head] . key [n, j, head]."""
    n, head, i, j = at
    rows, place = np.unique(np.stack([n, head, i]), axis=1, return_inverse=True)
    found = np.empty((rows.shape[1], key.shape[1]))
    for row, (b, h, position) in enumerate(rows.T):
        products = key[b, :, h].astype(np.float64) @ query[b, position, h].astype(np.float64)
        raised = np.exp(products - products.max())
        found[row] = raised / raised.sum()
    return found[place.reshape(-1), j]
