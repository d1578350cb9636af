"""Sums of products by matrix units: tiles of blocks, of warps, and of 16 x 8 sums.

    for i, j, k: C += cast(A) * cast(B)   ->   blockIdx.x j0@i0@j1, vthread i2@i3@j3@j4:
                                                 threadIdx.x i1@j2@i4@j5:
                                                   for k0, 2 or 3 at a time:
                                                     A.shared, B.shared = …     by all threads
                                                     unrolled k1, matrix k2: C.local += …
                                                   for j6: C = C.local

Beyond the paper. i1 and j2 are warps, i4 (8) and j5 (4) the threads of one; each has 2 rows (i3)
and 2 neighbours (j6) of every tile. Two tiles of columns (j4) are loaded together. j1 are groups
of blocks, see `block_order`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ansorc.errors import RuleError
from ansorc.ir.expr import Load
from ansorc.ir.operator import MATRIX_FUNCTIONS
from ansorc.ir.substitute import free_vars
from ansorc.lang.access import find_shifted_axis
from ansorc.lang.compute_op import ComputeOp
from ansorc.schedule.dot_body import factors, misfit
from ansorc.schedule.extent import Hole, HoleProduct
from ansorc.schedule.stage import Stage
from ansorc.schedule.steps import (
    BindThread,
    CacheRead,
    CacheWrite,
    ComputeAt,
    Fuse,
    Pragma,
    Reorder,
    Split,
    Tensorize,
    Unroll,
    Vectorize,
)
from ansorc.search.gpu.block_order import MAX_GROUP, count_walked_axes, in_groups
from ansorc.search.gpu.tiling import THREADS_OF_LEVEL, bind_loops
from ansorc.search.sketch.predicates import fusible_consumer
from ansorc.search.sketch.rule import PartialSketch, Verdict
from ansorc.search.sketch.sketch import TileVariable
from ansorc.target.gpu import VECTOR_BYTES

SIDE = 16
"""Rows, and columns, of what the loads of one instruction serve."""
CHOSEN = ("mma_f16", "mma_bf16", "mma_s8")
"""The instructions that compute exactly what is defined; `mma_tf32` does not."""
MAX_WARPS, MAX_ROWS, MAX_COLUMNS, MAX_STEPS = 4, 8, 8, 4
"""Along an axis; of a warp's tile in SIDE; tiles of terms that are copied at a time."""
GROUP, WARPS, TILE = 1, 2, 3
"""The levels of rows and columns, in SIDE, inside of those of blocks."""
_WARP = (8, 4)
"""Threads of a warp along rows and columns."""


@dataclass(frozen=True)
class TilingForMatrixUnits:
    """Tile a sum of products of narrow factors for the matrix units of the GPU."""

    stages: tuple[int, ...] = (2, 3)
    """Steps whose copies are under way at a time."""

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether matrix units make the sums of `stage`.

        Raise RuleError where only the number of terms keeps them from it.
        """
        candidate = partial.stage(stage)
        is_there = partial.target.gpu.architecture.has_matrix_tiles
        match = _match(candidate.op) if is_there and candidate.is_untouched else None
        if match is None:
            return Verdict.SKIP
        terms = MATRIX_FUNCTIONS[match.function]
        axis = next(axis for axis in candidate.op.reduce_axes if axis.name == match.term)
        if axis.extent % terms:
            raise RuleError(
                f"matrix units add up {terms} products at a time, and {axis.extent} terms of "
                f"'{stage}' along '{match.term}' are no multiple: pad them with zeros to use them"
            )
        return Verdict.APPLY

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketch for each number of stages, factors in shared memory."""
        match = _match(partial.stage(stage).op)
        assert match is not None
        tiled = _tile(partial, stage, match)
        for stages in self.stages:
            ahead = tiled[0].then(Pragma(tiled[1], "async_stages", stages))
            yield ahead.with_trace(f"{match.function} {stage}, copy {stages} steps at a time")


@dataclass(frozen=True)
class _MatrixAxes:
    """Axes of a stage, by name, that are rows, columns and terms of a product of matrices."""

    function: str
    row: str
    column: str
    term: str


def _match(op: ComputeOp) -> _MatrixAxes | None:
    """Return the axes of a product that matrix units can compute, else None."""
    function = next((name for name in CHOSEN if not misfit(op, name)), None)
    pair = factors(op.body) if function else None
    if function is None or pair is None or len(op.axes) < 2 or not op.reduce_axes:
        return None
    moving = [_moving(factor) for factor in pair if isinstance(factor, Load)]
    column, term = op.axes[-1], op.reduce_axes[-1]
    if len(moving) != 2 or column.extent < SIDE:
        return None
    others = [names for names in moving if column.name not in names]
    if len(others) != 1 or not all(term.name in names for names in moving):
        return None
    factor_axes = [
        axis for axis in op.axes[:-1] if sum(axis.name in names for names in moving) == 1
    ]
    rows = [axis for axis in factor_axes if axis.extent >= SIDE and axis.name in others[0]]
    if not rows:
        return None
    return _MatrixAxes(function, rows[-1].name, column.name, term.name)


def _moving(load: Load) -> set[str]:
    """Return the axes that move the load."""
    return {name for index in load.indices for name in free_vars(index)}


def _tile(partial: PartialSketch, name: str, match: _MatrixAxes) -> tuple[PartialSketch, str]:
    """Return the tiled sketch, and the stage that makes the sums."""
    consumer = fusible_consumer(partial, name)
    outer = name
    if consumer is None:
        written = partial.then(CacheWrite(name, "local"))
        (computing,) = written.state.beyond(partial.state)
        partial, name = written, computing.name
    else:
        outer = consumer.name
    partial = _declare(partial, partial.stage(name), match)
    partial = _warps(partial, name, outer, match)
    partial = _sums(partial, name, outer, match)
    for tensor in dict.fromkeys(load.buffer.name for load in partial.stage(name).op.loads):
        partial = _copy(partial, name, tensor, match)
    return partial, name


def _declare(partial: PartialSketch, stage: Stage, match: _MatrixAxes) -> PartialSketch:
    """Return the sketch with the variables of rows, columns and terms."""
    extents = {axis.name: axis.extent for axis in (*stage.op.axes, *stage.op.reduce_axes)}

    def sides(axis: str, most: int, group: int) -> TileVariable:
        limits = (group, MAX_WARPS, most)
        return TileVariable(
            f"{stage.name}.{axis}", -(-extents[axis] // SIDE), 4, most,
            stage=stage.name, axis=axis, limits=limits, is_exact=True,
        )  # fmt: skip

    steps = extents[match.term] // MATRIX_FUNCTIONS[match.function]
    name = f"{stage.name}.{match.term}"
    group = MAX_GROUP if count_walked_axes(stage.op, len(stage.op.axes) - 1) else 1
    made = (
        sides(match.row, MAX_ROWS, 1),
        sides(match.column, MAX_COLUMNS, group),
        TileVariable(name, steps, 2, MAX_STEPS, stage=stage.name, axis=match.term),
    )
    return replace(partial, variables=(*partial.variables, *made))


def _hole(stage: str, axis: str, level: int) -> Hole:
    return Hole(f"{stage}.{axis}", (level,))


def _warps(partial: PartialSketch, name: str, outer: str, match: _MatrixAxes) -> PartialSketch:
    """Return the sketch with the consumer's loops bound.

    From the outside in they are blocks, tiles of a warp, warps and their threads.
    """
    stage, consumer = partial.stage(name), partial.stage(outer)
    places = [axis.name for axis in stage.op.axes]
    blocks = [axis.name for axis in consumer.op.axes]
    row, column = places.index(match.row), places.index(match.column)
    walked = count_walked_axes(stage.op, column)
    group = [_hole(name, match.column, GROUP)] if walked else []
    tile_holes = [
        _hole(name, axis, level) for axis in (match.row, match.column) for level in (WARPS, TILE)
    ]
    rows = Split(outer, blocks[row], (*tile_holes[:2], 2, _WARP[0]))
    columns = Split(outer, blocks[column], (*group, *tile_holes[2:], 2, _WARP[1], 2))
    blocks[row], *r = rows.made
    blocks[column], *c = columns.made
    if walked:
        blocks = in_groups(blocks, column, c.pop(0), walked)
    levels = (blocks, [r[1], r[2], c[1], c[2]], [r[0], c[0], r[3], c[3]])
    order = tuple(loop for level in levels for loop in level)
    partial = partial.then(rows, columns, Reorder(outer, (*order, c[4])))
    for loops, thread in zip(levels, THREADS_OF_LEVEL, strict=True):
        partial = bind_loops(partial, outer, loops, thread)
    is_even = consumer.op.axes[column].extent % 2 == 0
    return partial.then(Vectorize(outer, c[4]) if is_even else Unroll(outer, c[4]))


def _sums(partial: PartialSketch, name: str, outer: str, match: _MatrixAxes) -> PartialSketch:
    """Return the sketch with the loops of the sums ordered.

    They are other terms, steps, tiles of terms, then the units' work.
    """
    thread = next(it for it in partial.stage(outer).iterators if it.thread == THREADS_OF_LEVEL[-1])
    partial = partial.then(ComputeAt(name, outer, thread.name))
    stage = partial.stage(name)
    terms = MATRIX_FUNCTIONS[match.function]
    split = Split(name, match.term, (_hole(name, match.term, 1), terms))
    first, steps, unit = split.made
    outside = [axis.name for axis in stage.op.reduce_axes if axis.name != match.term]
    space = [axis.name for axis in stage.op.axes]
    order = (*outside, first, steps, *space, unit)
    return partial.then(
        split, Reorder(name, order), Unroll(name, steps), Tensorize(name, unit, match.function)
    )


def _copy(partial: PartialSketch, name: str, tensor: str, match: _MatrixAxes) -> PartialSketch:
    """Copy what a block reads of `tensor`, all its threads together, in the widest vectors.

    Of 8 rows, 8 threads have one vector each: with the rows padded they meet in no bank, neither
    here nor where matrices are loaded, however short the rows are.
    """
    step = next(
        it.name for it in partial.stage(name).iterators if it.axis == match.term and it.level == 0
    )
    load = next(x for x in partial.stage(name).op.loads if x.buffer.name == tensor)
    read = partial.then(CacheRead(tensor, "shared", (name,)))
    (copy,) = read.state.beyond(partial.state)
    partial = read.then(ComputeAt(copy.name, name, step))
    *others, last = (iterator.name for iterator in partial.stage(copy.name).iterators)
    lanes = _lanes(copy.op)
    inner = ""
    if lanes > 1:
        vector = Split(copy.name, last, (lanes,))
        partial = partial.then(vector)
        last, inner = vector.made
    loops = [*others, last]
    if inner and others and find_shifted_axis(load.indices[-2]) is not None:
        rows = Split(copy.name, others[-1], (_WARP[0],))
        loops = [*others[:-1], rows.made[0], last, rows.made[1]]
        partial = partial.then(rows, Reorder(copy.name, (*loops, inner)))
    fused = loops[0]
    if len(loops) > 1:
        fuse = Fuse(copy.name, tuple(loops))
        partial, fused = partial.then(fuse), fuse.made
    warps = HoleProduct(tuple(_hole(name, axis, WARPS) for axis in (match.row, match.column)))
    share = Split(copy.name, fused, (warps, _WARP[0] * _WARP[1]))
    threads = Fuse(copy.name, share.made[1:])
    partial = partial.then(share, threads, BindThread(copy.name, threads.made, "threadIdx.x"))
    return partial.then(Vectorize(copy.name, inner)) if inner else partial


def _lanes(op: ComputeOp) -> int:
    """Return how many elements a thread copies at a time: they divide the tensor's rows."""
    lanes = VECTOR_BYTES // op.buffer.dtype.bytes
    while op.axes[-1].extent % lanes:
        lanes //= 2
    return lanes
