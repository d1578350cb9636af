"""Resizing along single axes, added to a graph in the making: what importers have in common."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from ansorc.graph.builder import GraphBuilder
from ansorc.ir.aligned import Array

_MOST_TRIALS = 1 << 24
_MOST_PARTS = 4096
_KEPT: tuple[int, int, int] = (1, 0, 1)


def nearest_elements(
    builder: GraphBuilder, data: str, tables: Mapping[int, tuple[Array, float]]
) -> str:
    """Add `data` with other elements along some axes: number i is that at table[i].

    `tables` has by axis a table of places, and about how far apart neighbours in it lie. A table
    that some numbers f, o and d make, as (i f + o) // d, costs no memory and is read as loops are;
    others are read from a tensor.
    """
    size = list(builder.type(data).shape)
    numbers = [_KEPT] * len(size)
    for axis, (table, step) in tables.items():
        found = _fraction(table, size[axis], step)
        size[axis] = len(table)
        if found is None:
            places = builder.constant(table.astype(np.int64))
            data = builder.add("take", [data, places], axis=axis, mode="clip")
        numbers[axis] = found or _KEPT
    if all(one == _KEPT for one in numbers):
        return data
    factors, offsets, divisors = zip(*numbers, strict=True)
    return builder.add(
        "resize_nearest", [data], size=size, factors=factors, offsets=offsets, divisors=divisors
    )


def weighted_sums(
    builder: GraphBuilder, data: str, axis: int, matrix: Array, more: Array | None = None
) -> str:
    """Add matrix [outputs, inputs] times `data` along `axis`, plus `more` [outputs] if given.

    In a row of the matrix the elements that count are neighbours; before and behind are zeros.
    """
    inputs, kind = matrix.shape[1], builder.type(data).dtype.numpy
    used = matrix != 0
    first = np.where(used.any(1), used.argmax(1), 0)
    behind = np.where(used.any(1), inputs - used[:, ::-1].argmax(1), 1)
    taps = int((behind - first).max())
    first = np.minimum(first, inputs - taps)
    weights = np.take_along_axis(matrix, first[:, None] + np.arange(taps), 1).astype(kind)
    tensors = [data, builder.constant(first.astype(np.int64)), builder.constant(weights)]
    if more is not None:
        tensors.append(builder.constant(more.astype(kind)))
    return builder.add("resample", tensors, axis=axis)


def _fraction(table: Array, inputs: int, step: float) -> tuple[int, int, int] | None:
    """Numbers f, o and d for which the table has (i f + o) // d, within the ends; None if none."""
    if len(table) == inputs and (table == np.arange(inputs)).all():
        return _KEPT
    i, ratio = np.arange(len(table)), Fraction(step).limit_denominator(_MOST_PARTS)
    for times in (1, 2):
        f, d = times * ratio.numerator, times * ratio.denominator
        if 2 * d * len(table) > _MOST_TRIALS:
            return None
        offsets = np.arange(-d, d)
        places = np.clip((i * f + offsets[:, None]) // d, 0, inputs - 1)
        fits = (places == table).all(1)
        if fits.any():
            return f, int(min(offsets[fits], key=abs)), d
    return None
