"""Access: what a statement reads or writes of one tensor, inside each of its loops; and Places.

A place p of a nest of n loops is what lies inside its first p loops: those are fixed, the others
run. Place 0 is the whole statement, place n one iteration. Arrays over places are [n + 1, rows].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ansorc.ir.buffer import Buffer
from ansorc.schedule.memory import memory_shape, panel_of
from ansorc.schedule.stage import At, Stage
from ansorc.search.features.columns import FloatArray
from ansorc.search.features.index_form import IndexForm, group_loads, result_forms
from ansorc.search.features.loop_nest import LoopNest, LoopNests, Movement, Shift, last_true
from ansorc.target import Target

Length: TypeAlias = FloatArray | float
"""One number for each program, [rows], or the same number for all."""


@dataclass(frozen=True, eq=False)
class Access:
    """The loads of one tensor with the same steps, or the store."""

    buffer: Buffer
    nest: LoopNest
    movements: tuple[Movement, ...]
    """How the loops move each index."""
    shape: tuple[Length, ...]
    """The extents in memory: those of the region, where the tensor is computed inside a loop, and
    the padding."""
    spreads: tuple[int, ...]
    """For each dimension how far apart the indices of the loads are in one iteration."""
    counts: tuple[int, ...]
    """For each dimension how many different indices there are in one iteration."""
    limits: tuple[float, ...]
    """For each dimension the most different values its index takes; inf without such a limit."""
    is_read: bool
    is_written: bool
    is_local: bool
    """Whether the tensor is computed inside a loop, so that only a part of it is held."""
    line_bytes: int
    page_bytes: float
    """Where asking ahead ends."""

    @property
    def rows(self) -> int:
        """The number of programs."""
        return self.nest.extents.shape[1]

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return self.buffer.dtype.bytes

    @cached_property
    def moving(self) -> tuple[bool, ...]:
        """For each loop, whether it reaches other elements in each of its iterations."""
        moved = zip(*(movement.is_moved for movement in self.movements), strict=True)
        return tuple(map(any, moved)) if self.movements else (False,) * len(self.nest.loops)

    def moves_together(self, first: int, second: int | None) -> bool:
        """Whether two loops move the same index."""
        return second is not None and any(
            movement.steps[first] is not None and movement.steps[second] is not None
            for movement in self.movements
        )

    @cached_property
    def elements(self) -> FloatArray:
        """[places, rows]: different elements touched inside each place."""
        return self._box.elements

    @cached_property
    def lines(self) -> FloatArray:
        """[places, rows]: cache lines touched inside each place."""
        box = self._box
        lines = np.ceil(box.run * (self.element_bytes / self.line_bytes))
        return np.minimum(box.segments * lines, box.elements)

    @cached_property
    def pieces(self) -> FloatArray:
        """[places, rows]: runs of neighbouring elements touched inside each place, or pages of them
        where they are longer."""
        box = self._box
        pages = np.ceil(box.run * (self.element_bytes / self.page_bytes))
        return np.minimum(box.segments * pages, self.lines)

    def find_cache_bytes(self, way_bytes: int, spare_bytes: int = 0) -> FloatArray:
        """Return [places, rows]: the size of the cache in which the touched lines find room.

        Lines whose addresses differ by a multiple of `way_bytes` share one set. Pieces whose
        distance has a large divisor in common with that begin in few sets; `spare_bytes` are for
        what else passes through these.
        """
        box, touched = self._box, self._line_bytes_touched
        if way_bytes == 1 or not box.pieces:
            return touched
        starts = most = np.ones_like(touched)
        for divisor, count in box.pieces:
            places = way_bytes / np.minimum(divisor, way_bytes)  # of a way, where one may begin
            starts = starts * np.minimum(count, places)
            most = np.maximum(most, np.where(count > 1, places, 1))
        room = np.minimum(starts, most) * self._piece_bytes
        is_crowded = (box.segments > 1) & (room < way_bytes)
        collided = touched * (way_bytes / room) + np.float32(spare_bytes)
        return np.where(is_crowded, collided, touched)

    @cached_property
    def _line_bytes_touched(self) -> FloatArray:
        return self.lines * self.line_bytes

    @cached_property
    def _piece_bytes(self) -> FloatArray:
        """[places, rows]: of the cache lines of one piece, about."""
        return np.maximum(self._box.run * self.element_bytes, self.line_bytes)

    @cached_property
    def strides(self) -> FloatArray:
        """[loops, rows]: how many elements one iteration of each loop moves in memory."""
        total = np.zeros_like(self.nest.extents)
        size: Length = 1.0
        for movement, extent in zip(reversed(self.movements), reversed(self.shape), strict=True):
            for loop, step in enumerate(movement.steps):
                if step is not None:
                    total[loop] += np.abs(step) * size
            size = size * extent
        return total

    @cached_property
    def _box(self) -> _Box:
        """The box of indices; its last dimensions that are whole are contiguous."""
        ones = np.ones_like(self.nest.inside)
        elements, run, segments = ones, ones, ones
        size: Length = float(self.element_bytes)
        whole = ones > 0
        pieces: list[tuple[FloatArray | np.float32, FloatArray]] = []
        for dimension in reversed(range(len(self.movements))):
            extent = self.shape[dimension]
            span, count = self._span(dimension)
            if elements is ones:
                elements, run, whole = count, span, span >= extent
            else:
                elements = elements * count
                run = np.where(whole, run * span, run)
                apart = np.where(whole, 1, count)
                segments = segments * apart
                if (apart > 1).any():
                    pieces.append((_power_of_two(_distance(size, span, count)), apart))
                whole = whole & (span >= extent) if dimension else whole
            size = size * extent if dimension else size
        return _Box(elements, run, segments, pieces)

    def _span(self, dimension: int) -> tuple[FloatArray, FloatArray]:
        """[places, rows]: from the first to the last index, and how many different ones."""
        movement, count = self.movements[dimension], self.counts[dimension]
        reach = movement.reach + (1.0 + self.spreads[dimension])
        span = np.minimum(reach, self.shape[dimension])
        values = movement.values if count == 1 else movement.values * count
        different = np.minimum(span, values)
        limit = self.limits[dimension]
        return span, np.minimum(different, limit) if limit < np.inf else different


@dataclass(frozen=True, eq=False)
class _Box:
    """The elements touched inside each place; arrays are [places, rows]."""

    elements: FloatArray
    run: FloatArray
    """Neighbouring elements in one piece."""
    segments: FloatArray
    """Such pieces."""
    pieces: list[tuple[FloatArray | np.float32, FloatArray]]
    """For each dimension with pieces the largest power of two that divides the bytes from one to
    the next, and how many there are."""


def _distance(size: Length, span: FloatArray, count: FloatArray) -> Length:
    """Bytes between the pieces along a dimension whose steps are `size` bytes."""
    if (span < 2 * count - 1).all():
        return size
    return size * np.maximum(np.floor((span - 1) / np.maximum(count - 1, 1)), 1)


def _power_of_two(size: Length) -> FloatArray | np.float32:
    """The largest power of two that divides whole numbers."""
    if isinstance(size, np.ndarray):
        whole = size.astype(np.int64)
        return (whole & -whole).astype(np.float32)
    return np.float32(int(size) & -int(size))


def accesses_of(
    nests: LoopNests, nest: LoopNest, target: Target, *, is_held: bool = True
) -> list[Access]:
    """Return the accesses of the statement of `nest`: the stores first, then the loads.

    `is_held`: a tensor that is computed inside a loop is the part that is held there, at the same
    addresses in each iteration. Otherwise it is the whole tensor, as it is defined.
    """
    op = nest.stage.op
    movements = tuple(
        nest.movement(form.terms, nest.around(axis.name) if is_held else ())
        for axis, form in zip(op.axes, result_forms(op), strict=True)
    )
    zeros, ones, no_limits = (0,) * len(op.axes), (1,) * len(op.axes), (np.inf,) * len(op.axes)
    stores = [
        Access(
            buffer, nest, movements, _shape(nests, buffer, is_held=is_held), zeros, ones, no_limits,
            is_read=op.combiner is not None, is_written=True,
            is_local=isinstance(nest.stage.attach, At),
            line_bytes=target.cache_line_bytes, page_bytes=target.costs.page_bytes,
        )
        for buffer in (op.part if op.overwrites else op).buffers
    ]  # fmt: skip
    return [*stores, *_reads(nests, nest, target, is_held=is_held)]


def _reads(nests: LoopNests, nest: LoopNest, target: Target, *, is_held: bool) -> Iterator[Access]:
    for buffer, group in group_loads(nest.stage.op):
        if buffer.name in nests.state.rewritten:
            yield _reorder(nest, buffer, group[0], target)
            continue
        source = _source(nests, buffer)
        is_local = source is not None and isinstance(source.attach, At)
        bases = _bases(nests, source) if source is not None and is_held else ((),) * len(group[0])
        constants = [[form.constant for form in column] for column in zip(*group, strict=True)]
        yield Access(
            buffer,
            nest,
            tuple(
                nest.movement(form.terms, base) for form, base in zip(group[0], bases, strict=True)
            ),
            _shape(nests, buffer, is_held=is_held),
            tuple(max(column) - min(column) for column in constants),
            tuple(len(set(column)) for column in constants),
            tuple(np.inf if form.limit is None else float(form.limit) for form in group[0]),
            is_read=True,
            is_written=False,
            is_local=is_local,
            line_bytes=target.cache_line_bytes,
            page_bytes=target.costs.page_bytes,
        )


def _bases(nests: LoopNests, source: Stage) -> list[tuple[int, ...]]:
    """For each dimension the loops that move where the part of `source` that is held begins: its
    readers stay there, and go along a dimension that is held as a whole."""
    nest = nests.nest(source)
    return [nest.around(axis.name) for axis in source.op.axes]


def _reorder(
    nest: LoopNest, buffer: Buffer, forms: tuple[IndexForm, ...], target: Target
) -> Access:
    """A constant in the order of the loops, as `ansorc.schedule.layout` makes it: a dimension for
    each loop that moves it, the vectorised one last."""
    indices = [nest.movement(form.terms).steps for form in forms]
    moving = [
        loop for loop in range(len(nest.loops)) if any(steps[loop] is not None for steps in indices)
    ]
    moving.sort(key=lambda loop: nest.loops[loop].is_vector)
    shape = tuple(nest.loops[loop].extent for loop in moving)
    rank = len(moving)
    return Access(
        buffer, nest, tuple(nest.alone(loop) for loop in moving), shape,
        (0,) * rank, (1,) * rank, (np.inf,) * rank,
        is_read=True, is_written=False, is_local=False,
        line_bytes=target.cache_line_bytes, page_bytes=target.costs.page_bytes,
    )  # fmt: skip


def _shape(nests: LoopNests, buffer: Buffer, *, is_held: bool) -> tuple[Length, ...]:
    source = _source(nests, buffer)
    extents = memory_shape(source) if source is not None and is_held else buffer.shape
    return tuple(
        float(extent) if isinstance(extent, int) else nests.array(extent) for extent in extents
    )


def _source(nests: LoopNests, buffer: Buffer) -> Stage | None:
    """Return the stage that computes all of `buffer`; None for an input, also an updated one."""
    source = nests.state.source(buffer.name)
    return None if source is None or source.op.overwrites else source


Item = TypeVar("Item")


def in_panels(nests: LoopNests, access: Access) -> Access:
    """Return `access` with the dimension that is divided into panels as two, outermost and last.

    A loop that moves the index by whole panels moves the first one, any other the last one.
    """
    stage = nests.state.find(access.buffer.name)
    panel = None if stage is None else panel_of(stage)
    if panel is None:
        return access
    dimension, extent = panel
    length = nests.array(extent)
    moved = access.movements[dimension]
    pairs = [_divide(step, length) for step in moved.steps]
    panels = Movement(tuple(pair[0] for pair in pairs), moved.extents)
    columns = Movement(tuple(pair[1] for pair in pairs), moved.extents)
    return replace(
        access,
        movements=(panels, *_without(access.movements, dimension), columns),
        spreads=(0, *_without(access.spreads, dimension), access.spreads[dimension]),
        counts=(1, *_without(access.counts, dimension), access.counts[dimension]),
        limits=(np.inf, *_without(access.limits, dimension), access.limits[dimension]),
    )


def _divide(step: Shift, length: Shift) -> tuple[Shift, Shift]:
    if step is None or length is None:
        return None, None
    is_whole = np.abs(step) >= length
    panels = np.where(is_whole, np.ceil(np.abs(step) / length), 0.0)
    columns = np.where(is_whole, 0.0, step)
    return panels if is_whole.any() else None, None if is_whole.all() else columns


def _without(items: tuple[Item, ...], dimension: int) -> tuple[Item, ...]:
    return (*items[:dimension], *items[dimension + 1 :])


@dataclass(frozen=True, eq=False)
class Places:
    """The bytes that all accesses of a statement touch inside each place."""

    bytes: FloatArray
    """Bytes of different elements."""
    line_bytes: FloatArray
    """Bytes of different cache lines."""
    inside: FloatArray
    """Iterations inside the place."""


@dataclass(frozen=True, eq=False)
class Reuse:
    """When a statement comes back to elements of a tensor; arrays are [rows].

    The loop of the reuse is the innermost one in whose iterations it touches the same elements.
    """

    iterations: FloatArray
    """Iterations of the statement between two uses; 0 without reuse."""
    bytes: FloatArray
    """Bytes that it touches between two uses."""
    count: FloatArray
    """Uses: the iterations of the loop; 0 without reuse."""


def places_of(nest: LoopNest, accesses: Sequence[Access]) -> Places:
    """Return the places of the statement of `nest`."""
    touched = [access.elements * access.element_bytes for access in accesses]
    lines = [access.lines * access.line_bytes for access in accesses]
    return Places(sum(touched[1:], touched[0]), sum(lines[1:], lines[0]), nest.inside)


def reuse_of(access: Access, places: Places) -> Reuse:
    """Return the innermost reuse of the tensor of `access`."""
    nest = access.nest
    still = np.flatnonzero(~np.array(access.moving, dtype=np.bool_))
    if not len(still):
        zeros = np.zeros(access.rows, dtype=np.float32)
        return Reuse(zeros, zeros, zeros)
    repeats = nest.is_loop[still]
    is_reused = repeats.any(axis=0)
    loop = still[last_true(repeats)]
    entries, inside = entries_at(loop), entries_at(loop + 1)
    return Reuse(
        places.inside.take(inside) * is_reused,
        places.bytes.take(inside) * is_reused,
        nest.extents.take(entries) * is_reused,
    )


def entries_at(positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return [rows]: for `take`, where arrays [places, rows] have one place for each row."""
    return positions * len(positions) + np.arange(len(positions))


def refills(access: Access) -> FloatArray:
    """Return [places, rows]: how often the loops outside a place replace what it touches.

    Directly around the place, loops that do not move the access find it in the cache again, and
    one that moves it by less than a cache line finds most of it.
    """
    nest = access.nest
    step_bytes = np.maximum(access.strides * access.element_bytes, 1)
    shared = np.clip(access.line_bytes / step_bytes, 1, nest.extents)
    kept = np.ones_like(nest.inside)
    for loop, is_moving in enumerate(access.moving):
        if is_moving:
            kept[loop + 1] = np.where(nest.is_loop[loop], shared[loop], kept[loop])
        else:
            np.multiply(kept[loop], nest.extents[loop], out=kept[loop + 1])
    return nest.outside / kept
