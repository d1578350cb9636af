"""How the tensor of a stage lies in memory: the box that is held, and its padding.

A row of a tile whose pitch is a power of two meets its neighbours in few sets of a cache. Padding
is a larger inner dimension whose last elements nobody uses, so no pass needs to know of it.
"""

from __future__ import annotations

import numpy as np

from ansorc.schedule.extent import Extent, IntArray, add, multiply
from ansorc.schedule.stage import Alignment, At, Stage


def memory_shape(stage: Stage) -> tuple[Extent, ...]:
    """Return the extents in memory of the tensor that `stage` computes, padding included.

    An alignment that no padding reaches adds none; `unreachable` finds it.
    """
    return _padded(stage)[0]


def unreachable(stage: Stage) -> Alignment | None:
    """Return the first alignment of `stage` that no padding reaches, or None."""
    return _padded(stage)[1]


def _padded(stage: Stage) -> tuple[tuple[Extent, ...], Alignment | None]:
    """Pad from the innermost dimension outwards: an outer pitch holds the inner padding."""
    axes = stage.op.axes
    whole = tuple(axis.extent for axis in axes)
    shape: list[Extent] = list(stage.region if isinstance(stage.attach, At) else whole)
    asked = {alignment.axis: alignment for alignment in stage.alignments}
    lost: Alignment | None = None
    for place in reversed(range(len(axes) - 1)):
        alignment = asked.get(axes[place].name)
        if alignment is None:
            continue
        padding, is_reached = _padding(shape[place + 1], multiply(shape[place + 2 :]), alignment)
        shape[place + 1] = add(shape[place + 1], padding)
        lost = lost if is_reached else alignment
    return tuple(shape), lost


def _padding(extent: Extent, inner: Extent, alignment: Alignment) -> tuple[Extent, bool]:
    """Return the least `p` with `(extent + p) * inner % factor == offset`, and if there is one."""
    if extent is None or inner is None:
        return None, True
    tried = np.arange(alignment.factor, dtype=np.int64)
    rows = np.asarray(extent, dtype=np.int64)[..., None] + tried
    pitch: IntArray = rows * np.asarray(inner, dtype=np.int64)[..., None]
    fits = pitch % alignment.factor == alignment.offset
    least = np.argmax(fits, axis=-1)
    found: Extent = int(least) if least.ndim == 0 else least.astype(np.int64)
    return found, bool(fits.any(axis=-1).all())
