"""Find the register tile of a loop whose parts update different elements of it.

Where a border is skipped, some iterations update all of a row and others all but its first element:

for k in 0..1: unrolled i in 0..6: C[i + 1] += ...     ->   C.reg[i + 1] += ...
for k in 1..3: unrolled i in 0..7: C[i] += ...              C.reg[i] += ...

The smallest box with all of them is kept in registers through both loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ansorc.ir.arith.interval import Interval
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import Var
from ansorc.ir.node import walk
from ansorc.ir.passes.accesses import BufferAccess, Span, is_inside
from ansorc.ir.passes.queries import are_distinct, flat_offset, reads_memory
from ansorc.ir.passes.register_tile import (
    THREADED_KINDS,
    PromotedTile,
    shift_index,
    shifts,
    tile_loops,
)
from ansorc.ir.stmt import For, LoopKind
from ansorc.ir.substitute import substitute


def find_hull(name: str, span: Span, register: str) -> PromotedTile | None:
    """Return the tile of all elements of `name` that the loop of `span` may touch, or None.

    All of them are loaded and stored, even if the loop does not touch them. So the buffer must be
    private to a thread and contain the whole tile.
    """
    group = [access for access in span.accesses if access.buffer.name == name]
    if len({access.is_store for access in group}) < 2 or not _is_own(group[0], span.depth):
        return None
    base, depth = max(group, key=lambda access: len(_variables(access))), span.depth + 1
    loops = tile_loops(base, depth, _variables(base))
    if not loops or span.loop.var.name in _variables(base) or any(map(reads_memory, base.indices)):
        return None
    boxes = [_box(access, base, loops, depth) for access in group]
    boxes_ = [box for box in boxes if box is not None]
    return _hull(base, loops, boxes_, register, depth) if len(boxes_) == len(boxes) else None


def _hull(
    base: BufferAccess, loops: Sequence[For], boxes: list[list[Interval]], name: str, depth: int
) -> PromotedTile | None:
    starts = [min(low for low, _ in along) for along in zip(*boxes, strict=True)]
    ends = [max(high for _, high in along) for along in zip(*boxes, strict=True)]
    held = [
        replace(loop, extent=end - start + 1)
        for loop, start, end in zip(loops, starts, ends, strict=True)
    ]
    values = {
        loop.var.name: shift_index(loop.var, at) for loop, at in zip(loops, starts, strict=True)
    }
    indices = tuple(substitute(index, values) for index in base.indices)
    offset = flat_offset(base.buffer, indices)
    ranges = {loop.var.name: loop.span for loop in (*base.loops[:depth], *held)}
    if offset is None or not are_distinct(offset, held):
        return None
    if not is_inside(base.buffer, indices, ranges):
        return None
    held.sort(key=lambda loop: loop.kind is LoopKind.VECTORIZED)
    shape = tuple(loop.extent for loop in held)
    register = Buffer(name, shape, base.buffer.dtype, Scope.REGISTER)
    return PromotedTile(base.buffer, indices, tuple(held), register)


def _is_own(access: BufferAccess, depth: int) -> bool:
    """Return whether one thread runs the loop at `depth` and all others inside the allocation."""
    home = access.place.homes.get(access.buffer.name)
    return home is not None and not any(
        loop.kind in THREADED_KINDS for loop in access.loops[home : depth + 1]
    )


def _variables(access: BufferAccess) -> set[str]:
    return {part.name for i in access.indices for part in walk(i) if isinstance(part, Var)}


def _box(
    access: BufferAccess, base: BufferAccess, loops: Sequence[For], depth: int
) -> list[Interval] | None:
    """Return the elements of an access along each of `loops`, relative to `base`, or None.

    A vector counts as a whole.
    """
    inner = {loop.var.name: loop for loop in access.loops[depth:]}
    distances = shifts(base.indices, access.indices, loops)
    if distances is None or any(loop.kind in THREADED_KINDS for loop in inner.values()):
        return None
    box: list[Interval] = []
    for loop, (is_run, shift) in zip(loops, distances, strict=True):
        loop_ = inner.get(loop.var.name)
        if is_run and (loop_ is None or loop_.kind is not loop.kind):
            return None
        extent = loop_.extent if is_run and loop_ is not None else 1
        if loop.kind is LoopKind.VECTORIZED and (shift, extent) != (0, loop.extent):
            return None
        box.append((shift, shift + extent - 1))
    return box
