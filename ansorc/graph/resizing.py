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
        fraction = _fraction(table, size[axis], step)
        size[axis] = len(table)
        if fraction is None:
            places = builder.constant(table.astype(np.int64))
            data = builder.add("take", [data, places], axis=axis, mode="clip")
        numbers[axis] = fraction or _KEPT
    if all(number == _KEPT for number in numbers):
        return data
    factors, offsets, divisors = zip(*numbers, strict=True)
    return builder.add(
        "resize_nearest", [data], size=size, factors=factors, offsets=offsets, divisors=divisors
    )


def add_weighted_sums(
    builder: GraphBuilder,
    data: str,
    axis: int,
    taps: Array,
    weights: Array,
    more: Array | None = None,
) -> str:
    """Add sums of elements of `data` along `axis`: those at taps [n, k] times weights [n, k].

    Taps beyond the ends are moved to them. `more` [n], if given, is added.
    """
    kind = builder.type(data)
    inputs, used = kind.shape[axis], weights != 0
    places = np.clip(taps, 0, inputs - 1).astype(np.int64)
    low = np.where(used, places, inputs - 1).min(1)
    high = np.where(used, places, low[:, None]).max(1)
    width = int((high - low).max()) + 1
    first = np.minimum(low, inputs - width)
    sums: Array = np.zeros((len(taps), width))
    rows, columns = np.nonzero(used)
    np.add.at(sums, (rows, places[rows, columns] - first[rows]), weights[rows, columns])
    numbers = [first, sums.astype(kind.dtype.numpy)]
    if more is not None:
        numbers.append(more.astype(kind.dtype.numpy))
    return builder.add("resample", [data, *map(builder.constant, numbers)], axis=axis)


def _fraction(table: Array, inputs: int, step: float) -> tuple[int, int, int] | None:
    """Return f, o and d for which table[i] is (i f + o) // d within the ends; None if none fit."""
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
