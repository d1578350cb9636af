"""Access: what a statement reads or writes of one tensor, inside each of its loops.

A place p of a nest of n loops is what lies inside its first p loops: those are fixed, the others
run. Place 0 is the whole statement, place n one iteration. Arrays over places are [n + 1, rows].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ansorc.ir.buffer import Buffer
from ansorc.schedule.memory import memory_shape
from ansorc.schedule.stage import At
from ansorc.search.features.columns import FloatArray
from ansorc.search.features.index_form import IndexForm, index_form
from ansorc.search.features.nest import Loop, Nest, Nests, Step, combined


@dataclass(frozen=True, eq=False)
class Access:
    """The loads of one tensor with the same steps, or the store."""

    buffer: Buffer
    loops: tuple[Loop, ...]
    steps: tuple[tuple[Step, ...], ...]
    """[dimensions][loops]: how far one iteration moves the index."""
    shape: tuple[FloatArray, ...]
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
    rows: int
    line_bytes: int

    def is_moved_by(self, loop: int) -> bool:
        """Return whether loop number `loop` reaches other elements in each of its iterations."""
        return any(steps[loop] is not None for steps in self.steps)

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return self.buffer.dtype.bytes

    @cached_property
    def elements(self) -> FloatArray:
        """[places, rows]: different elements touched inside each place."""
        return np.stack([box.elements for box in self._places])

    @cached_property
    def lines(self) -> FloatArray:
        """[places, rows]: cache lines touched inside each place."""
        return np.stack([box.lines for box in self._places])

    def crowded_bytes(self, way_bytes: int) -> FloatArray:
        """Return [places, rows]: the size of the cache in which the touched lines find room.

        Lines whose addresses differ by a multiple of `way_bytes` share one set. Rows of a tensor
        whose pitch has a large divisor in common with that leave many sets unused.
        """
        return np.stack([self._crowded(box, way_bytes) for box in self._places])

    def stride(self, loop: int) -> FloatArray:
        """Return how many elements one iteration of a loop moves in memory, [rows]."""
        total = np.zeros(self.rows)
        size = np.ones(self.rows)
        for steps, extent in zip(reversed(self.steps), reversed(self.shape), strict=True):
            step = steps[loop]
            if step is not None:
                total = total + np.abs(step) * size
            size = size * extent
        return total

    @cached_property
    def _places(self) -> list[_Box]:
        spans = [np.full(self.rows, 1.0 + spread) for spread in self.spreads]
        values = [np.full(self.rows, float(count)) for count in self.counts]
        found = [self._box(spans, values)]
        for place in reversed(range(len(self.loops))):
            if not self.is_moved_by(place):
                found.append(found[-1])
                continue
            extent = self.loops[place].extent
            for dimension, steps in enumerate(self.steps):
                step = steps[place]
                if step is not None:
                    spans[dimension] = spans[dimension] + np.abs(step) * (extent - 1)
                    values[dimension] = values[dimension] * extent
            found.append(self._box(spans, values))
        return found[::-1]

    def _box(self, spans: list[FloatArray], values: list[FloatArray]) -> _Box:
        """A box of indices; its last dimensions that are whole are contiguous."""
        elements = np.ones(self.rows)
        run = np.ones(self.rows)
        segments = np.ones(self.rows)
        pitch = np.ones(self.rows)
        size = np.float64(self.element_bytes)
        is_full = np.ones(self.rows, dtype=np.bool_)
        for dimension in reversed(range(len(spans))):
            extent = self.shape[dimension]
            span = np.minimum(spans[dimension], extent)
            count = np.minimum(np.minimum(span, values[dimension]), self.limits[dimension])
            elements = elements * count
            size = size * extent
            run = np.where(is_full, run * span, run)
            pitch = np.where(is_full, size, pitch)
            segments = np.where(is_full, segments, segments * count)
            is_full = is_full & (span >= extent)
        lines = np.ceil(run * (self.element_bytes / self.line_bytes))
        return _Box(elements, np.minimum(segments * lines, elements), segments, pitch)

    def _crowded(self, box: _Box, way_bytes: int) -> FloatArray:
        shared = np.gcd(box.pitch.astype(np.int64), way_bytes).astype(np.float64)
        return np.maximum(box.lines * self.line_bytes, box.segments * shared)


@dataclass(frozen=True, eq=False)
class _Box:
    """What is touched inside one place; arrays are [rows]."""

    elements: FloatArray
    lines: FloatArray
    segments: FloatArray
    """Runs of neighbouring elements."""
    pitch: FloatArray
    """Bytes from one run to the next."""


def accesses_of(nests: Nests, nest: Nest, line_bytes: int, *, is_held: bool = True) -> list[Access]:
    """Return the accesses of the statement of `nest`: the stores first, then the loads.

    `is_held`: a tensor that is computed inside a loop is the part that is held there, at the same
    addresses in each iteration. Otherwise it is the whole tensor, as it is defined.
    """
    op = nest.stage.op
    is_update = op.combiner is not None
    own = tuple(nest.axes[axis.name] for axis in op.axes)
    if is_held:
        own = tuple(((None,) * nest.own + steps[nest.own :]) for steps in own)
    stores = [
        Access(
            buffer, nest.loops, own, _shape(nests, buffer, is_held=is_held), (0,) * len(own),
            (1,) * len(own), (np.inf,) * len(own), is_update, is_written=True,
            is_local=isinstance(nest.stage.attach, At), rows=nests.rows, line_bytes=line_bytes,
        )
        for buffer in op.buffers
    ]  # fmt: skip
    return [*stores, *_reads(nests, nest, line_bytes, is_held=is_held)]


def _reads(nests: Nests, nest: Nest, line_bytes: int, *, is_held: bool) -> Iterator[Access]:
    groups: dict[tuple[str, tuple[object, ...]], list[tuple[IndexForm, ...]]] = {}
    buffers: dict[str, Buffer] = {}
    for load in nest.stage.op.loads:
        forms = tuple(index_form(index) for index in load.indices)
        key = load.buffer.name, tuple(form.terms for form in forms)
        groups.setdefault(key, []).append(forms)
        buffers[load.buffer.name] = load.buffer
    for (name, _), group in groups.items():
        source = nests.state.source(name)
        is_local = source is not None and isinstance(source.attach, At)
        outside = nests.nest(source).own if source is not None and is_local and is_held else 0
        constants = [[form.constant for form in column] for column in zip(*group, strict=True)]
        if name in nests.state.rewritten:
            yield _laid_out(nests, nest, buffers[name], group[0], line_bytes)
            continue
        yield Access(
            buffers[name],
            nest.loops,
            tuple(_steps(nest, form, outside) for form in group[0]),
            _shape(nests, buffers[name], is_held=is_held),
            tuple(max(column) - min(column) for column in constants),
            tuple(len(set(column)) for column in constants),
            tuple(np.inf if form.limit is None else float(form.limit) for form in group[0]),
            is_read=True,
            is_written=False,
            is_local=is_local,
            rows=nests.rows,
            line_bytes=line_bytes,
        )


def _laid_out(
    nests: Nests, nest: Nest, buffer: Buffer, forms: tuple[IndexForm, ...], line_bytes: int
) -> Access:
    """A constant in the order of the loops, as `ansorc.schedule.layout` makes it: a dimension for
    each loop that moves it, the vectorised one last."""
    indices = [_steps(nest, form, 0) for form in forms]
    moving = [
        loop for loop in range(len(nest.loops)) if any(steps[loop] is not None for steps in indices)
    ]
    moving.sort(key=lambda loop: nest.loops[loop].is_vector)
    one, rank = np.ones(nests.rows), len(moving)
    steps = tuple(
        tuple(one if loop == own else None for loop in range(len(nest.loops))) for own in moving
    )
    shape = tuple(nest.loops[loop].extent for loop in moving)
    return Access(
        buffer, nest.loops, steps, shape, (0,) * rank, (1,) * rank, (np.inf,) * rank,
        is_read=True, is_written=False, is_local=False, rows=nests.rows, line_bytes=line_bytes,
    )  # fmt: skip


def _steps(nest: Nest, form: IndexForm, outside: int) -> tuple[Step, ...]:
    """How the loops move an index; not those outside the place where the tensor is computed."""
    steps: list[Step] = [None] * len(nest.loops)
    for axis, factor in form.terms:
        moved = nest.axes[axis]
        for loop in range(outside, len(steps)):
            steps[loop] = combined(steps[loop], moved[loop], factor)
    return tuple(steps)


def _shape(nests: Nests, buffer: Buffer, *, is_held: bool) -> tuple[FloatArray, ...]:
    source = nests.state.source(buffer.name)
    if source is not None and is_held:
        return tuple(nests.array(extent) for extent in memory_shape(source))
    return tuple(np.broadcast_to(np.float64(extent), (nests.rows,)) for extent in buffer.shape)
