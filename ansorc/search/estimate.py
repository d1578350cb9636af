"""A rough time for every program of a population, from first principles and without any data.

For each stage it adds up the cycles of the register tile (arithmetic, loads, latency, spills), of
filling and emptying it, and of moving data into each cache. It serves the untuned default only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod

import numpy as np
import numpy.typing as npt

from ansorc.ir.arith.affine import Linear, affine, step_along
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Call
from ansorc.ir.passes.lane_groups import vector_pieces
from ansorc.ir.passes.vectorize_reductions import INDEPENDENT_SUMS
from ansorc.ir.substitute import free_vars
from ansorc.lang.flops import op_flops
from ansorc.schedule.bounds import axis_boxes, region
from ansorc.schedule.extent import Extent, IntArray, as_array
from ansorc.schedule.stage import At, IteratorKind, Mark, Stage
from ansorc.schedule.state import State
from ansorc.search.features.operations import CALL_INSTRUCTIONS
from ansorc.target import Target
from ansorc.target.costs import CORE
from ansorc.target.ways import way_bytes

Numbers = npt.NDArray[np.float64]

LINE_BYTES = 64
"""Bytes of a cache line."""


@dataclass(frozen=True, eq=False)
class Touched:
    """How a stage reads or writes a tensor."""

    element: int
    """Bytes of an element."""
    forms: tuple[Linear[str] | None, ...]
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


def _accesses(state: State, stage: Stage) -> list[Touched]:
    """What the stage writes and reads, without repetition."""
    indices = {(node.buffer.name, node.indices): node for node in stage.op.loads}
    found: dict[tuple[str, tuple[tuple[tuple[str, int], ...] | None, ...]], Touched] = {}
    for node in indices.values():
        forms = tuple(affine(index) for index in node.indices)
        key = node.buffer.name, tuple(form and tuple(form.terms.items()) for form in forms)
        if key in found:
            found[key] = replace(found[key], times=found[key].times + 1)
            continue
        is_laid_out = node.buffer.name in state.rewritten
        extents = _memory(state, node.buffer)
        found[key] = Touched(node.buffer.dtype.bytes, forms, extents, is_laid_out)
    own = tuple(Linear({axis.name: 1}) for axis in stage.op.axes)
    written = [Touched(b.dtype.bytes, own, _memory(state, b), False) for b in stage.op.buffers]
    return [*written, *found.values()]


def _memory(state: State, buffer: Buffer) -> tuple[Extent, ...]:
    """The extents of a tensor in memory: those of the region, if it is computed inside a loop."""
    stage = state.source(buffer.name)
    is_inside = stage is not None and isinstance(stage.attach, At)
    return stage.region if stage is not None and is_inside else buffer.shape


def _footprint(access: Touched, widths: Mapping[str, Extent], rows: int) -> Footprint:
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


def _reach(form: Linear[str] | None, extent: IntArray, widths: Mapping[str, Extent]) -> IntArray:
    """The elements from the first to the last one touched in a dimension."""
    if form is None:
        return extent
    last = sum(abs(factor) * (as_array(widths[name]) - 1) for name, factor in form.terms.items())
    return np.minimum(extent, 1 + last)


def is_tensorized(stage: Stage) -> bool:
    """Whether an instruction does the innermost loop of `stage`."""
    return bool(stage.iterators) and stage.iterators[-1].mark is Mark.TENSORIZE


def dot_cycles(state: State, stage: Stage, target: Target) -> np.ndarray:
    """Return [rows]: the cycles of all runs of the tensorized `stage` on one core."""
    lanes = target.vector_bytes // stage.op.buffer.dtype.bytes
    is_masked = target.masks_remainders(in_registers=True)
    rows = vectors = visits = repeats = np.asarray(1, dtype=np.int64)
    around = [iterator for _, iterator in state.around(stage)]
    for iterator in (*around, *stage.iterators[:-1]):
        extent = as_array(iterator.extent)
        if iterator.mark is Mark.UNROLL:
            rows = rows * extent
        elif iterator.mark is Mark.VECTORIZE:
            vectors = vectors * vector_pieces(extent, lanes, is_masked=is_masked)
        elif iterator.kind is IteratorKind.REDUCE:
            repeats = repeats * extent
        else:
            visits = visits * extent
    dots = rows * vectors
    busy = np.maximum(dots / CORE.dots, (rows + vectors) / CORE.loads)
    spilled = np.maximum(0, dots + vectors + 1 - target.vector_registers)
    busy = np.maximum(busy, CORE.dot_latency) + CORE.dot_spill * spilled + CORE.loop
    if not _reads_panel(state, stage):
        busy = busy + CORE.far_load * vectors
    return visits * (repeats * busy + 2.0 * dots + CORE.dot_visit)


def _reads_panel(state: State, stage: Stage) -> bool:
    """Whether an operand was copied to, or computed in, a place inside the loops."""
    inner = {s.name for s in state.stages if isinstance(s.attach, At) and s is not stage}
    return any(buffer.name in inner for buffer in stage.op.reads)


Cycles = npt.NDArray[np.float64]
Number = npt.NDArray[np.int64]
OTHER_CALL_INSTRUCTIONS = 10
"""What a root counts as; the rounding functions are cheaper, and rare."""


@dataclass(frozen=True, eq=False)
class Lanes:
    """What one iteration of the innermost, marked loops of a stage does, one number a row."""

    elements: Number
    """Elements computed."""
    vectors: Number
    """Vectors that hold them."""
    loads: Number
    """Vectors or scalars read for them."""
    operands: Number
    """Vectors read along the vectorised loop, which stay in registers beside the results."""
    sums: Number
    """Vectors of results or sums that are kept in registers."""


def stage_cycles(state: State, stage: Stage, target: Target, rows: int) -> Cycles:
    """Return [rows]: the cycles of all runs of `stage` on one core."""
    op = stage.op
    if is_tensorized(stage):
        return np.broadcast_to(dot_cycles(state, stage, target), rows)
    inner = _lanes(stage, target, rows, state.rewritten)
    around = [iterator for _, iterator in state.around(stage)]
    loops = [it.extent for it in (*around, *stage.iterators)]
    iterations = _product(loops, rows) / inner.elements
    flops = max(1.0, op_flops(op) / prod(a.extent for a in (*op.axes, *op.reduce_axes)))
    names = [node.name for node in op.nodes() if isinstance(node, Call)]
    calls = sum(CALL_INSTRUCTIONS.get(name, OTHER_CALL_INSTRUCTIONS) for name in names)
    calls = calls / CORE.call_instructions
    busy = inner.vectors * (flops / CORE.flops + calls)
    busy = np.maximum(busy, inner.loads / CORE.loads)
    if not target.is_x86:  # where arithmetic does not read memory, loads take the place of it
        instructions = inner.vectors * flops / 2 + inner.loads
        busy = np.maximum(busy, instructions / CORE.instructions)
    if op.reduce_axes:
        busy = np.maximum(busy, CORE.add_latency) + _spilled(inner, target)
    total = iterations * (busy + CORE.loop)
    if op.reduce_axes:
        total += iterations / _kept(stage, rows) * (2 * inner.sums + CORE.visit)
    return total + _moving(state, stage, target, rows)


def parallel_speed(extents: list[Extent], serial: Cycles, cores: int) -> tuple[Number, Cycles]:
    """Return how many outer loops to fuse and the cycles then, both [rows].

    An uneven last round of chunks and the start of the threads are counted.
    """
    best = serial.copy()
    count = np.zeros(len(serial), dtype=np.int64)
    chunks = np.ones(len(serial), dtype=np.int64)
    for place, extent in enumerate(extents, start=1):
        chunks = chunks * as_array(extent)
        rounds = -(-chunks // cores)
        cycles = serial * rounds / chunks + CORE.fork
        better = cycles < 0.98 * best
        best = np.where(better, cycles, best)
        count = np.where(better, place, count)
    return count, best


def _spilled(inner: Lanes, target: Target) -> Cycles:
    """Cycles of each step for the vectors that the registers cannot hold besides the sums.

    Arithmetic of x86 reads operands from memory; elsewhere they are in registers, and the scheduler
    of LLVM loads some for the step that follows.
    """
    if target.is_x86:
        return np.maximum(0, 1.25 * inner.sums + 1 - target.vector_registers)
    return CORE.spill * np.maximum(0, inner.sums + inner.operands + 4 - target.vector_registers)


def _lanes(stage: Stage, target: Target, rows: int, rewritten: tuple[str, ...]) -> Lanes:
    """Vectorised and unrolled loops, those at the end of the loop order."""
    widest = max(buffer.dtype.bytes for buffer in (*stage.op.buffers, *stage.op.reads))
    lanes = max(1, target.vector_bytes // widest)
    is_masked = target.masks_remainders(in_registers=bool(stage.op.reduce_axes))
    parts = stage.parts
    elements = vectors = sums = np.ones(rows, dtype=np.int64)
    marked: list[tuple[str, Number, bool]] = []
    for iterator in stage.iterators:
        if iterator.mark in (Mark.VECTORIZE, Mark.UNROLL):
            extent = as_array(iterator.extent)
            is_vector = iterator.mark is Mark.VECTORIZE
            marked.append((parts[iterator.name][0].axis, extent, is_vector))
            elements = elements * extent
            pieces = vector_pieces(extent, lanes, is_masked=is_masked) if is_vector else extent
            vectors = vectors * pieces
            in_lanes = is_vector and iterator.kind is IteratorKind.REDUCE
            kept = np.maximum(1, INDEPENDENT_SUMS // sums) if in_lanes else pieces
            sums = sums * np.minimum(kept, pieces)
    loads = operands = np.zeros(rows, dtype=np.int64)
    terms = {axis.name for axis in stage.op.reduce_axes}
    for node in stage.op.loads:
        count = np.ones(rows, dtype=np.int64)
        for axis, extent, is_vector in marked:
            if any(axis in free_vars(index) for index in node.indices):
                is_row = node.buffer.name in rewritten or step_along(node.indices[-1], axis) == 1
                is_along = is_vector and is_row
                scalars = extent * CORE.gather if is_vector else extent
                pieces = vector_pieces(extent, lanes, is_masked=is_masked) if is_along else scalars
                held = np.minimum(pieces, INDEPENDENT_SUMS) if axis in terms else pieces
                operands = operands + (held if is_along else 0)
                count = count * pieces
        loads = loads + count
    return Lanes(elements, vectors, loads, operands, sums)


def _kept(stage: Stage, rows: int) -> Number:
    """Iterations of the reduce loops across which the register tile stays in registers."""
    kept = np.ones(rows, dtype=np.int64)
    alive = np.ones(rows, dtype=bool)
    for iterator in reversed(stage.iterators):
        if iterator.mark in (Mark.VECTORIZE, Mark.UNROLL):
            continue
        extent = as_array(iterator.extent)
        if iterator.kind is IteratorKind.REDUCE:
            kept = np.where(alive, kept * extent, kept)
        else:
            alive &= extent == 1
    return kept


def _moving(state: State, stage: Stage, target: Target, rows: int) -> Cycles:
    """Cycles to move what the stage touches into each cache.

    A loop whose data fits a cache loads them once for each run of the loop.
    """
    fits: list[Cycles] = [np.full(rows, np.inf) for _ in target.cache_bytes]
    for runs, boxes in footprints(state, stage, rows):
        touched = np.sum([box.moved for box in boxes], axis=0)
        for level, size in enumerate(target.cache_bytes):
            needs = (box.held(size, is_first=level == 0) for box in boxes)
            held = np.max([touched, *needs], axis=0)
            fits[level] = np.where(
                held <= size, np.minimum(fits[level], runs * touched), fits[level]
            )
    total = np.zeros(rows)
    for moved, speed in zip(fits, CORE.fill_bytes, strict=True):
        total += np.where(np.isfinite(moved), moved, 0) / speed
    return total


def _product(extents: list[Extent] | list[Number], rows: int) -> Cycles:
    total = np.ones(rows)
    for extent in extents:
        total = total * as_array(extent)
    return total
