"""How the tensor of a stage lies in memory: the box that is held, its padding and its panels.

A row of a tile whose pitch is a power of two meets its neighbours in few sets of a cache. Padding
is a larger inner dimension whose last elements nobody uses, so no pass needs to know of it.

Panels of `length` along an axis are the tensor with that axis divided: what a tile of that length
reads, one row after another, is contiguous (the micro-panels of GotoBLAS).

    [k, j]    ->    [j // length, k, j % length]
"""

from __future__ import annotations

import numpy as np

from ansorc.ir.expr import BinaryOp, Expr, binary, const
from ansorc.schedule.extent import Extent, IntArray, add, divide_up, multiply
from ansorc.schedule.stage import Alignment, At, SplitRelation, Stage
from ansorc.schedule.values import known


def memory_shape(stage: Stage) -> tuple[Extent, ...]:
    """Return the extents in memory of the tensor that `stage` computes, padding included.

    An alignment that no padding reaches adds none; `unreachable` finds it.
    """
    shape = _padded(stage)[0]
    found = panel_of(stage)
    if found is None:
        return shape
    place, length = found
    return (divide_up(shape[place], length), *shape[:place], *shape[place + 1 :], length)


def memory_indices(stage: Stage, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Return where in memory the element at `indices` of the box that is held lies.

    Raise ValueError for a sketch or a population.
    """
    found = panel_of(stage)
    if found is None:
        return indices
    place, extent = found
    length = const(known(extent))
    panel = binary(BinaryOp.FLOORDIV, indices[place], length)
    column = binary(BinaryOp.MOD, indices[place], length)
    return (panel, *indices[:place], *indices[place + 1 :], column)


def panel_of(stage: Stage) -> tuple[int, Extent] | None:
    """Return the place of the axis that is divided into panels and their length, or None."""
    if not stage.panel:
        return None
    names = [axis.name for axis in stage.op.axes]
    for relation in stage.relations:
        if isinstance(relation, SplitRelation) and relation.children[-1].name == stage.panel:
            return names.index(relation.parent.name), relation.children[-1].extent
    raise KeyError(stage.panel)


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
