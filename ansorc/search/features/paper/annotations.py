"""MarkFeatures: the loops around a statement that are vectorised, unrolled or parallel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ansorc.search.features.columns import LOG, BoolArray, FloatArray
from ansorc.search.features.nest import Nest

POSITIONS = (
    "inner_space", "middle_space", "outer_space", "inner_reduce", "middle_reduce", "outer_reduce",
    "mixed",
)  # fmt: skip
"""Which axis a loop moves: the last, a middle or the first one of its kind; mixed if several."""


@dataclass(frozen=True, eq=False)
class MarkFeatures:
    """The loops with one mark; a loop of extent 1 has none, a fused one counts as its parts."""

    count: FloatArray = field(metadata=LOG)
    """Marked loops."""
    product: FloatArray = field(metadata=LOG)
    """Product of their extents; 0 without any."""
    innermost: FloatArray = field(metadata=LOG)
    """Extent of the innermost one; 0 without any."""
    nowhere: FloatArray
    """1 if no loop is marked, else 0, as in the following."""
    inner_space: FloatArray
    """1 if they move the last space axis alone (the only one where there is one)."""
    middle_space: FloatArray
    """1 if they move a space axis in the middle alone."""
    outer_space: FloatArray
    """1 if they move the first space axis alone."""
    inner_reduce: FloatArray
    """1 if they move the last reduce axis alone (the only one where there is one)."""
    middle_reduce: FloatArray
    """1 if they move a reduce axis in the middle alone."""
    outer_reduce: FloatArray
    """1 if they move the first reduce axis alone."""
    mixed: FloatArray
    """1 if they move several axes, or none of this statement."""


def mark_features(nest: Nest, marked: Sequence[BoolArray], rows: int) -> MarkFeatures:
    """Return the features of the loops of `nest` that are `marked`, [rows] for each loop."""
    count, total, innermost = (
        np.zeros(rows, dtype=np.float32),
        np.ones(rows, dtype=np.float32),
        np.zeros(rows, dtype=np.float32),
    )
    found = {position: np.zeros(rows, dtype=np.bool_) for position in POSITIONS}
    for place, (loop, mark) in enumerate(zip(nest.loops, marked, strict=True)):
        is_marked = mark & (loop.extent > 1)
        count = count + is_marked
        total = np.where(is_marked, total * loop.extent, total)
        innermost = np.where(is_marked, loop.extent, innermost)
        position = _position(nest, place)
        found[position] = found[position] | is_marked
    different = np.sum(list(found.values()), axis=0)
    is_mixed = found.pop("mixed") | (different > 1)
    alone = {name: (there & ~is_mixed).astype(np.float32) for name, there in found.items()}
    return MarkFeatures(
        count=count,
        product=np.where(count > 0, total, 0),
        innermost=innermost,
        nowhere=(count == 0).astype(np.float32),
        **alone,
        mixed=is_mixed.astype(np.float32),
    )


def _position(nest: Nest, loop: int) -> str:
    op = nest.stage.op
    found: list[str] = []
    for kind, axes in (("space", op.axes), ("reduce", op.reduce_axes)):
        for place, axis in enumerate(axes):
            if nest.axes[axis.name][loop] is not None:
                found.append(f"{_side(place, len(axes))}_{kind}")
    return found[0] if len(found) == 1 else "mixed"


def _side(place: int, count: int) -> str:
    if place == count - 1:
        return "inner"
    return "middle" if place else "outer"
