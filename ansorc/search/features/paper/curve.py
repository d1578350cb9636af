"""CurveFeatures: the arithmetic intensity of a statement, from its inner loops to all of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ansorc.search.features.columns import LOG, FloatArray
from ansorc.search.features.places import Places

SAMPLES = 10
_TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class CurveFeatures:
    """Float operations for each byte touched, at shares of all operations; 0 without operations.

    Each loop of more than one iteration is a point of the curve: what it and the loops inside it do
    and touch. Between the points the intensity goes linearly with the operations.
    """

    at_1: FloatArray = field(metadata=LOG)
    """The intensity at a tenth of the operations."""
    at_2: FloatArray = field(metadata=LOG)
    """At two tenths."""
    at_3: FloatArray = field(metadata=LOG)
    """At three tenths."""
    at_4: FloatArray = field(metadata=LOG)
    """At four tenths."""
    at_5: FloatArray = field(metadata=LOG)
    """At half of them."""
    at_6: FloatArray = field(metadata=LOG)
    """At six tenths."""
    at_7: FloatArray = field(metadata=LOG)
    """At seven tenths."""
    at_8: FloatArray = field(metadata=LOG)
    """At eight tenths."""
    at_9: FloatArray = field(metadata=LOG)
    """At nine tenths."""
    at_10: FloatArray = field(metadata=LOG)
    """At all of them."""


def curve_features(places: Places, operations: float) -> CurveFeatures:
    """Return the curve of a statement of so many float operations in one iteration."""
    rows = len(places.inside[0])
    shares = np.arange(1, SAMPLES + 1, dtype=np.float32)[:, None] / SAMPLES
    at = shares * (operations * places.inside[0])
    samples = np.zeros((SAMPLES, rows), dtype=np.float32)
    is_open = np.ones((SAMPLES, rows), dtype=np.bool_)
    before: FloatArray = np.zeros(rows, dtype=np.float32)
    low: FloatArray = np.zeros(rows, dtype=np.float32)
    for place in reversed(range(len(places.inside) - 1)):
        done = operations * places.inside[place]
        intensity = done / places.bytes[place]
        is_point = places.inside[place] > places.inside[place + 1]
        is_first = is_point & (before == 0)
        share = np.minimum((at - before) / np.maximum(done - before, _TOLERANCE), 1)
        between = np.where(is_first, intensity, _between(low, intensity, share))
        is_reached = is_open & is_point & (done >= at - _TOLERANCE)
        samples = np.where(is_reached, between, samples)
        is_open = is_open & ~is_reached
        before = np.where(is_point, done, before)
        low = np.where(is_point, intensity, low)
    return (
        CurveFeatures(*samples)
        if operations
        else CurveFeatures(*np.zeros((SAMPLES, rows), dtype=np.float32))
    )


def _between(low: FloatArray, high: FloatArray, share: FloatArray) -> FloatArray:
    return low + (high - low) * share
