"""Footprints: the memory that the loops of a stage touch, for all programs of a population."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from ansorc.ir.arith.affine import Affine, affine
from ansorc.ir.buffer import Buffer
from ansorc.schedule.bounds import axis_boxes, region
from ansorc.schedule.extent import Extent, IntArray, as_array
from ansorc.schedule.stage import At, Stage
from ansorc.schedule.state import State
from ansorc.target.ways import way_bytes

Numbers = npt.NDArray[np.float64]

LINE_BYTES = 64


@dataclass(frozen=True, eq=False)
class Access:
    """How a stage reads or writes a tensor."""

    element: int
    """Bytes of an element."""
    forms: tuple[Affine | None, ...]
    """For each dimension the index, if it is affine."""
    extents: tuple[Extent, ...]
    """Of the tensor in memory."""
    is_laid_out: bool
    """Whether what is touched lies in one piece because the layout follows the loops."""
    times: int = 1
    """So many accesses that differ by constants."""


@dataclass(frozen=True, eq=False)
class Footprint:
    """The box of a tensor that is touched, as pieces of rows in memory."""

    pieces: tuple[tuple[Numbers, IntArray], ...]
    """For each dimension that the pieces differ in: how many there are along it, and the bytes from
    one to the next."""
    width: Numbers
    """Bytes of each piece."""
    pitch: IntArray
    """Bytes from the beginning of such a row to that of the next in memory."""
    times: int
    """So many boxes of this form are touched."""

    @property
    def count(self) -> Numbers:
        """The pieces of one box."""
        return np.prod([np.ones_like(self.width), *(count for count, _ in self.pieces)], axis=0)

    @cached_property
    def bytes(self) -> Numbers:
        """What one box has: whole cache lines, unless the rows adjoin."""
        lines = np.ceil(self.width / LINE_BYTES) * LINE_BYTES
        return self.count * np.where(self.width < self.pitch, lines, self.width)

    @property
    def moved(self) -> Numbers:
        """The bytes of all boxes."""
        return self.times * self.bytes

    def held(self, cache_bytes: int, *, is_first: bool = False) -> Numbers:
        """The cache that one box needs for itself, which is more where its pieces collide.

        Pieces that are a multiple of a large power of two apart begin in few sets of the cache. In
        the first one what else passes through these needs a way.
        """
        if not self.pieces:
            return self.bytes
        reach = max(LINE_BYTES, way_bytes(cache_bytes))
        starts = most = np.ones_like(self.width)
        for count, stride in self.pieces:
            places = reach // np.gcd(stride, reach)  # of a way, where one of them may begin
            starts = starts * np.minimum(count, places)
            most = np.maximum(most, np.where(count > 1, places, 1))
        covered = np.minimum(starts, most) * np.maximum(self.width, LINE_BYTES)
        collided = self.bytes * (reach / covered)
        spare = reach if is_first else 0
        return np.where(collided > self.bytes, collided + spare, self.bytes)


def footprints(state: State, stage: Stage, rows: int) -> Iterator[tuple[Numbers, list[Footprint]]]:
    """Yield (how often it runs, what one run touches) of each loop around `stage` and its own.

    Outermost first; without those inside a loop that runs once, which touch the same.
    """
    runs, is_new = np.ones(rows), True
    accesses = _accesses(state, stage)
    for extent, widths in _loops(state, stage):
        if is_new:
            yield runs, [_footprint(access, widths(), rows) for access in accesses]
        runs = runs * extent
        is_new = bool(np.any(np.not_equal(extent, 1)))


def _loops(
    state: State, stage: Stage
) -> Iterator[tuple[IntArray, Callable[[], Mapping[str, Extent]]]]:
    """The extent of each loop, outermost first, and how far the axes of `stage` reach in it."""
    whole: dict[str, Extent] = {axis.name: axis.extent for axis in stage.op.reduce_axes}

    def around(outer: Stage, place: int) -> Mapping[str, Extent]:
        boxes = region(state, stage.name, outer, place)
        return whole | {a.name: b.width for a, b in zip(stage.op.axes, boxes, strict=True)}

    def own(place: int) -> Mapping[str, Extent]:
        return {name: box.width for name, box in axis_boxes(stage, place).items()}

    for outer, count in state.chain(stage):
        for place, iterator in enumerate(outer.iterators[:count]):
            yield as_array(iterator.extent), partial(around, outer, place)
    for place, iterator in enumerate(stage.iterators):
        yield as_array(iterator.extent), partial(own, place)


def _accesses(state: State, stage: Stage) -> list[Access]:
    """What the stage writes and reads, without repetition."""
    indices = {(node.buffer.name, node.indices): node for node in stage.op.loads}
    found: dict[tuple[str, tuple[tuple[tuple[str, int], ...] | None, ...]], Access] = {}
    for node in indices.values():
        forms = tuple(affine(index) for index in node.indices)
        key = node.buffer.name, tuple(form and form.terms for form in forms)
        if key in found:
            found[key] = replace(found[key], times=found[key].times + 1)
            continue
        is_laid_out = node.buffer.name in state.rewritten
        extents = _memory(state, node.buffer)
        found[key] = Access(node.buffer.dtype.bytes, forms, extents, is_laid_out)
    own = tuple(Affine(((axis.name, 1),), 0) for axis in stage.op.axes)
    written = [Access(b.dtype.bytes, own, _memory(state, b), False) for b in stage.op.buffers]
    return [*written, *found.values()]


def _memory(state: State, buffer: Buffer) -> tuple[Extent, ...]:
    """The extents of a tensor in memory: those of the region, if it is computed inside a loop."""
    stage = state.source(buffer.name)
    is_inside = stage is not None and isinstance(stage.attach, At)
    return stage.region if stage is not None and is_inside else buffer.shape


def _footprint(access: Access, widths: Mapping[str, Extent], rows: int) -> Footprint:
    """What one access touches while the axes of its stage reach as far as `widths`."""
    width = np.ones(rows)
    stride = pitch = np.array(access.element)
    pieces: list[tuple[Numbers, IntArray]] = []
    is_whole = np.ones(rows, dtype=bool)  # all of the inner dimensions, so that this one adjoins
    for form, size in zip(reversed(access.forms), reversed(access.extents), strict=True):
        extent = as_array(size)
        reach = _reach(form, extent, widths)
        width = np.where(is_whole, width * reach, width)
        count = np.where(is_whole, 1, reach)
        if np.any(count > 1):
            pieces.append((count, stride))
        stride = stride * extent
        pitch = np.where(is_whole, stride, pitch)
        is_whole = is_whole & (reach == extent)
    found = Footprint(tuple(pieces), width * access.element, pitch, access.times)
    if access.is_laid_out:
        return replace(found, pieces=(), width=found.count * found.width, pitch=0 * pitch)
    return found


def _reach(form: Affine | None, extent: IntArray, widths: Mapping[str, Extent]) -> IntArray:
    """The elements from the first to the last one touched in a dimension."""
    if form is None:
        return extent
    last = sum(abs(factor) * (as_array(widths[name]) - 1) for name, factor in form.terms)
    return np.minimum(extent, 1 + last)
