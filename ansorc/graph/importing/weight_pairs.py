"""Weights of which no two neighbours, times bytes, leave int16 when they are added up.

x86 before VNNI adds each two products of uint8 and int8 in 16 bits, at whose ends it stays. Those
of 255 and weights that are up to 128 together never reach them.
"""

from __future__ import annotations

import numpy as np

from ansorc.ir.aligned import Array

LARGEST_PAIR = 128
"""The most that two neighbouring weights of one sign may be together: 255 * 128 is below 2^15."""


def largest_pairs(weight: Array, axis: int) -> Array:
    """Return the largest absolute sum of weights of one sign of each pair along `axis`.

    The result has half as many places there. A last weight without a neighbour is a pair with 0.
    """
    moved = np.moveaxis(weight, axis, -1)
    if moved.shape[-1] % 2:
        moved = np.concatenate([moved, np.zeros_like(moved[..., :1])], -1)
    wide = moved if moved.dtype.kind == "f" else moved.astype(np.int16)
    pairs = wide.reshape(*moved.shape[:-1], -1, 2)
    above, below = np.maximum(pairs, 0).sum(-1), np.minimum(pairs, 0).sum(-1)
    return np.moveaxis(np.maximum(above, -below), -1, axis)


def pairs_fit(weight: Array, axis: int) -> bool:
    """Return whether all pairs along `axis` of int8 weights fit; False for other dtypes."""
    is_byte = weight.dtype == np.int8 and weight.size > 0
    return bool(is_byte and largest_pairs(weight, axis).max() <= LARGEST_PAIR)
