"""The memory layout of the tensor of a stage: the stored box, its padding and its panels.

Rows of a tile whose pitch is a power of two compete for few sets of a cache. Padding makes an inner
dimension larger; its last elements are never used, so no pass needs to know of it.

Panels of `length` along an axis are the tensor with that axis divided. The rows that a tile of that
length reads are then contiguous (the micro-panels of GotoBLAS).

    [k, j]    ->    [j // length, k, j % length]
"""

from __future__ import annotations

import numpy as np

from ansorc.ir import dim as sized
from ansorc.ir.dim import Size
from ansorc.ir.expr import BinaryOp, Expr, binary, const
from ansorc.schedule.extent import Extent, IntArray, add, divide_up, multiply
from ansorc.schedule.stage import Alignment, At, SplitRelation, Stage, size_within
from ansorc.schedule.values import as_int


def memory_shape(stage: Stage) -> tuple[Extent, ...]:
    """Return the extents in memory of the tensor that `stage` computes, padding included.

    An alignment that no padding reaches is ignored here; `unreachable` reports it.
    """
    shape = _pad(stage)[0]
    panel = panel_of(stage)
    if panel is None:
        return shape
    dimension, length = panel
    return (
        divide_up(shape[dimension], length),
        *shape[:dimension],
        *shape[dimension + 1 :],
        length,
    )


def memory_sizes(stage: Stage) -> tuple[Size | None, ...]:
    """Return the extents in memory that the caller gives, None for others; empty if all are known.

    Raise ValueError for a sketch or a population.
    """
    is_part = isinstance(stage.attach, At)
    extents = stage.region if is_part else tuple(axis.extent for axis in stage.op.axes)
    sizes = [size_within(axis, extent) for axis, extent in zip(stage.op.axes, extents, strict=True)]
    if all(size is None for size in sizes):
        return ()
    padded = _pad(stage)[0]
    for number, size in enumerate(sizes):
        if size is not None:
            sizes[number] = size + (as_int(padded[number]) - as_int(extents[number]))
    panel = panel_of(stage)
    if panel is None:
        return tuple(sizes)
    dimension, length = panel
    outer = sizes[dimension]
    panels = None if outer is None else sized.divide_up(outer, as_int(length))
    first = panels if isinstance(panels, Size) else None
    return (first, *sizes[:dimension], *sizes[dimension + 1 :], None)


def memory_indices(stage: Stage, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Return the indices in memory of the element at `indices` of the stored box.

    Along the axis of a ring they are those of the tensor.

    Raise ValueError for a sketch or a population.
    """
    if stage.ring is not None:
        turned, length = ring_of(stage)
        kept = binary(BinaryOp.MOD, indices[turned], const(as_int(length)))
        indices = (*indices[:turned], kept, *indices[turned + 1 :])
    divided = panel_of(stage)
    if divided is None:
        return indices
    dimension, extent = divided
    length = const(as_int(extent))
    panel = binary(BinaryOp.FLOORDIV, indices[dimension], length)
    column = binary(BinaryOp.MOD, indices[dimension], length)
    return (panel, *indices[:dimension], *indices[dimension + 1 :], column)


def ring_of(stage: Stage) -> tuple[int, Extent]:
    """Return the dimension whose indices are taken modulo a length, and that length."""
    assert stage.ring is not None
    names = [axis.name for axis in stage.op.axes]
    return names.index(stage.ring.axis), stage.ring.length


def panel_of(stage: Stage) -> tuple[int, Extent] | None:
    """Return the dimension that is divided into panels and their length, or None."""
    if not stage.panel:
        return None
    names = [axis.name for axis in stage.op.axes]
    for relation in stage.relations:
        if isinstance(relation, SplitRelation) and relation.children[-1].name == stage.panel:
            return names.index(relation.parent.name), relation.children[-1].extent
    raise KeyError(stage.panel)


def unreachable(stage: Stage) -> Alignment | None:
    """Return the first alignment of `stage` that no padding reaches, or None."""
    return _pad(stage)[1]


def _pad(stage: Stage) -> tuple[tuple[Extent, ...], Alignment | None]:
    """Return the padded shape, and an alignment that no padding reaches, or None.

    Pad from the innermost dimension outwards: an outer pitch includes the inner padding.
    """
    axes = stage.op.axes
    whole = tuple(axis.extent for axis in axes)
    shape: list[Extent] = list(stage.region if isinstance(stage.attach, At) else whole)
    if stage.ring is not None:
        turned, length = ring_of(stage)
        shape[turned] = length
    asked = {alignment.axis: alignment for alignment in stage.alignments}
    lost: Alignment | None = None
    for dimension in reversed(range(len(axes) - 1)):
        alignment = asked.get(axes[dimension].name)
        if alignment is None:
            continue
        padding, is_reached = _padding(
            shape[dimension + 1], multiply(shape[dimension + 2 :]), alignment
        )
        shape[dimension + 1] = add(shape[dimension + 1], padding)
        lost = lost if is_reached else alignment
    return tuple(shape), lost


def _padding(extent: Extent, inner: Extent, alignment: Alignment) -> tuple[Extent, bool]:
    """Return the least `p` with `(extent + p) * inner % factor == offset`, and if one exists."""
    if extent is None or inner is None:
        return None, True
    tried = np.arange(alignment.factor, dtype=np.int64)
    rows = np.asarray(extent, dtype=np.int64)[..., None] + tried
    pitch: IntArray = rows * np.asarray(inner, dtype=np.int64)[..., None]
    fits = pitch % alignment.factor == alignment.offset
    least = np.argmax(fits, axis=-1)
    padding: Extent = int(least) if least.ndim == 0 else least.astype(np.int64)
    return padding, bool(fits.any(axis=-1).all())
