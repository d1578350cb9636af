"""Ranges of a network's tensors, found by running it on the user's data.

A range is what integers of 8 bits are spread over. Three methods choose it:

* "minmax": from the least to the largest number seen;
* "percentile": so that one number in 10,000 lies beyond it, half of them at each end;
* "entropy": so that the distribution of the numbers loses least when it is rounded to 255 steps, by
  the Kullback-Leibler divergence (S. Migacz, "8-bit inference with TensorRT", 2017).

Zeros are exact in any range, so the two last ones do not count them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ansorc.errors import GraphError
from ansorc.graph.api import build
from ansorc.graph.graph import Graph
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array

CalibrationMethod: TypeAlias = Literal["minmax", "percentile", "entropy"]
Range: TypeAlias = tuple[float, float]
Counts: TypeAlias = NDArray[np.float64]
_BINS, _LEVELS = 2048, 255
_BEYOND = 1e-4
"""The share of numbers that "percentile" leaves beyond the range."""
_NUMBERS_A_BIN = 8
"""Of fewer numbers "entropy" takes the whole range: their distribution is not known."""
_CUTS = np.linspace(0.1, 1.0, 91)
"""The shares of each end of the whole range that "entropy" tries."""


def samples_of(graph: Graph, data: Mapping[str, Any]) -> list[dict[str, Array]]:
    """Return the calls that `data` is for: inputs of the network by name.

    An array holds what one call takes, several of these along a new first axis, or a multiple of
    them along the first axis. Raise GraphError where an input is missing or does not fit, and where
    arrays are for different numbers of calls.
    """
    for name in [*graph.inputs, *data]:
        if name not in data or name not in graph.inputs:
            what = "has nothing for the input" if name in graph.inputs else "is for no input"
            raise GraphError(
                f"the data for the calibration of '{graph.name}' {what} '{name}'; "
                f"it takes {', '.join(map(repr, graph.inputs))}"
            )
    parts = {name: _split(name, kind, data[name]) for name, kind in graph.inputs.items()}
    counts = {name: len(arrays) for name, arrays in parts.items()}
    if len(set(counts.values())) > 1:
        words = ", ".join(f"{count} for '{name}'" for name, count in counts.items())
        raise GraphError(f"the data for the calibration is of different numbers of calls: {words}")
    return [dict(zip(parts, arrays, strict=True)) for arrays in zip(*parts.values(), strict=True)]


def _split(name: str, kind: TensorType, given: object) -> Sequence[Array]:
    """Return an array as the inputs of calls; raise GraphError where it does not fit."""
    array = np.asarray(given)
    wanted = kind.dtype.numpy
    shape, rest = kind.shape, kind.shape[1:]
    if array.dtype != wanted and not np.can_cast(array.dtype, wanted, "same_kind"):
        raise GraphError(
            f"the data for the input '{name}' is {array.dtype}, and the network takes {kind}"
        )
    array = array.astype(wanted)
    if array.shape == shape:
        return [array]
    if array.ndim == len(shape) + 1 and array.shape[1:] == shape and len(array):
        return [np.asarray(each) for each in array]
    is_multiple = bool(shape) and array.ndim == len(shape) and array.shape[1:] == rest
    if is_multiple and len(array) and len(array) % shape[0] == 0:
        return list(array.reshape(-1, *shape))
    raise GraphError(
        f"the data for the input '{name}' has the shape {list(array.shape)}; the network takes "
        f"{kind}: give one array of that shape, or several along the first axis"
    )


def find_ranges(
    graph: Graph, names: Sequence[str], samples: Sequence[Mapping[str, Array]],
    method: CalibrationMethod,
) -> dict[str, Range]:  # fmt: skip
    """Return the range of each of the float32 tensors `names` of `graph`, by a method.

    The network is built with its untuned programs, and runs on all `samples` of inputs. Raise
    GraphError where a tensor is not finite.
    """
    watched = replace(graph, outputs=tuple(dict.fromkeys(names)))
    module = build(watched)
    ends: dict[str, Range] = {}
    for values in map(module.run, samples):
        for name, array in values.items():
            low, high = float(array.min()), float(array.max())  # of NaN both are
            if not np.isfinite((low, high)).all():
                raise GraphError(
                    f"'{name}' is not finite with the data for the calibration: {low} to {high}; "
                    "leave out such inputs, or the node that computes it (keep)"
                )
            before = ends.get(name, (0.0, 0.0))
            ends[name] = min(before[0], low), max(before[1], high)
    if method == "minmax":
        return ends
    counts = {name: np.zeros(_BINS) for name in ends}
    for values in map(module.run, samples):
        for name, array in values.items():
            other = array[array != 0]  # a zero point is exact
            counts[name] += np.histogram(other, _BINS, _wide(ends[name]))[0]
    choose = _by_percentile if method == "percentile" else _by_entropy
    return {name: choose(_Histogram(counts[name], *_wide(ends[name]))) for name in ends}


def _wide(ends: Range) -> Range:
    """Return a range as it is, or one that is not empty around 0."""
    return ends if ends[0] < ends[1] else (0.0, 1.0)


@dataclass(frozen=True)
class _Histogram:
    """How many numbers lie in each of equally wide bins from `low` to `high`; 0 is among them."""

    counts: Counts
    low: float
    high: float

    def edges(self) -> Counts:
        """Return where the bins begin and end."""
        return np.linspace(self.low, self.high, len(self.counts) + 1)


def _by_percentile(histogram: _Histogram) -> Range:
    """Return the range that leaves half of `_BEYOND` of the numbers beyond each end."""
    total, edges = histogram.counts.sum(), histogram.edges()
    below = np.concatenate([[0.0], np.cumsum(histogram.counts)])
    allowed = total * _BEYOND / 2
    low = edges[np.searchsorted(below, allowed, "right") - 1]
    high = edges[np.searchsorted(below, total - allowed, "left")]
    return min(float(low), 0.0), max(float(high), 0.0)


def _by_entropy(histogram: _Histogram) -> Range:
    """Return the range in which rounding loses least of the distribution: first one end, then both.

    Where there are too few numbers, it is the whole one.
    """
    low, high = histogram.low, histogram.high
    if histogram.counts.sum() < _NUMBERS_A_BIN * len(histogram.counts):
        return low, high
    highs, lows = high * _CUTS, low * _CUTS
    high = float(highs[np.argmin([_divergence(histogram, low, end) for end in highs])])
    low = float(lows[np.argmin([_divergence(histogram, end, high) for end in lows])])
    return low, high


def _divergence(histogram: _Histogram, low: float, high: float) -> float:
    """Return how much of the distribution is lost in a range, in nats.

    What lies beyond is added to the outermost bins. Rounding spreads the numbers of a level evenly
    over those bins of it that hold any.
    """
    edges, counts = histogram.edges(), histogram.counts
    middles = (edges[:-1] + edges[1:]) / 2
    inside = (middles >= low) & (middles <= high)
    held = counts[inside]
    if held.size < _LEVELS:
        return float("inf")
    clipped = held.copy()
    clipped[0] += counts[middles < low].sum()
    clipped[-1] += counts[middles > high].sum()
    level = np.minimum(((middles[inside] - low) / (high - low) * _LEVELS).astype(np.int64), _LEVELS)
    is_held = held > 0
    sums = np.bincount(level, held, _LEVELS + 1)
    bins = np.bincount(level, is_held, _LEVELS + 1)
    rounded = np.where(is_held, (sums / np.maximum(bins, 1))[level], 0.0)
    p, q = clipped / clipped.sum(), rounded / max(rounded.sum(), 1.0)
    where = p > 0
    return float(np.sum(p[where] * np.log(p[where] / np.maximum(q[where], 1e-12))))
