"""The loops of stages that are not tiled, and the marks that every program of a sketch has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod

from ansorc.ir.arith.affine import step_along
from ansorc.ir.expr import Binary, BinaryOp, Call, Const, Var
from ansorc.ir.substitute import free_vars
from ansorc.lang.access import reads_of
from ansorc.lang.compute_op import Axis, Combiner, ComputeOp
from ansorc.lang.hints import hint_axes
from ansorc.schedule.extent import Hole
from ansorc.schedule.stage import AxisKind, Loop, Mark, Root, Stage
from ansorc.schedule.steps import Fuse, Reorder, Split, Unroll, Vectorize
from ansorc.search.sketch.predicates import CHUNKS_PER_CORE
from ansorc.search.sketch.rule import PartialSketch, vector_axis
from ansorc.search.sketch.scan_loops import mark_scan, reorder_scan
from ansorc.search.sketch.short_rows import find_short_tile, join_short_rows
from ansorc.search.sketch.sketch import RegisterTile
from ansorc.search.sketch.tiling import tile_variable, whole_level
from ansorc.search.tiles import divisors

UNROLLED_ROWS = 16
"""Reductions of rows that run interleaved, at most."""
SHORTEST_ROW = 4
"""Terms of a row that are added up in lanes, at least."""
SHORT_ROW_VECTORS = 4
"""Vectors of a row that is worked on together with others, at most."""
BLOCK_VECTORS = 4
"""Vectors along a side of a block of a transposed tensor, at most."""
NARROW_SIDE = 4
"""A side of a block of transposed narrow numbers, at least."""
MAX_UNROLLED = 64
"""Copies of a statement outside of register tiles that `always_unroll_inner` makes, at most."""


def reorder_loops(partial: PartialSketch, name: str) -> PartialSketch:
    """Return the sketch with the loops of an untouched stage made ready to be vectorised.

    A root stage with little to run in parallel gets its contiguous axis split, and the contiguous
    loop of a reduction goes inside the reduce loops, so that several sums run side by side:

        for i, k: S[i] += A[k, i]    ->    for i0: for k: for i1: S[i] += A[k, i]

    Where the terms of one sum adjoin in memory, their loop goes inside instead. A root stage that
    transposes what it reads is divided into blocks, whose rows and columns stay in the first cache:

        for i, j: B[i, j] = A[j, i]    ->    for i0, j0: for i1, j1: B[i, j] = A[j, i]
    """
    stage = partial.stage(name)
    contiguous = vector_axis(stage.op)
    if stage.is_inlined or stage.relations:
        return partial
    if stage.op.scan is not None:
        return reorder_scan(partial, stage)
    along = adjoining_terms(partial, stage.op)
    if along is not None:
        return _reorder(partial, name, _with_last(stage, along))
    if contiguous is None or follows_range(stage.op, stage.op.axes[contiguous].name):
        return partial
    across = find_transposed_axis(partial, stage.op)
    if across is not None and isinstance(stage.attach, Root):
        return _in_blocks(partial, stage, across, contiguous)
    for number, axis in enumerate(() if stage.op.places else stage.op.axes[:contiguous]):
        rows = _rows_together(partial, stage, number, contiguous)
        partial = partial.then(Split(name, axis.name, (rows,))) if rows > 1 else partial
    if partial.stage(name) is not stage:
        return partial
    axes = stage.op.axes
    inner = axes[contiguous].name
    outer = [axis.name for axis in stage.op.loop_axes if axis.name != inner]
    is_split = isinstance(stage.attach, Root) and _wants_split(partial, stage.op, contiguous)
    if is_split:
        partial = _split_contiguous(partial, stage, axes[contiguous])
        divided = partial.stage(name)
        outer, inner = [*outer, divided.loop(inner, 0)], divided.loop(inner, 1)
    reduce = [axis.name for axis in stage.op.reduce_axes]
    if reduce and not is_split and not reads_along(stage.op, inner):
        return partial
    return _reorder(partial, name, (*outer, *reduce, inner))


def follows_range(op: ComputeOp, axis: str) -> bool:
    """Return whether a range that is data follows `axis`, which therefore stays outside of it."""
    bounds = () if op.ragged_axis is None else op.ragged_axis.bounds
    return any(axis in free_vars(bound) for bound in bounds)


def annotate(
    partial: PartialSketch, mark_last: Callable[[PartialSketch, Stage], PartialSketch]
) -> PartialSketch:
    """Return the sketch with the vectorised and unrolled loops of every stage marked.

    `mark_last` marks the last loop of a stage that is not tiled.
    """
    tiles = {tile.stage: tile for tile in partial.register_tiles}
    for stage in partial.state.stages:
        if stage.is_inlined:
            continue
        tile = tiles.get(stage.name)
        if tile is None:
            partial = _hints_unrolled(partial, stage)
            partial = mark_last(partial, partial.stage(stage.name))
            continue
        partial = _mark_tile(partial, tile)
        partial = _hints_unrolled(partial, partial.stage(stage.name))
    return partial


def _mark_tile(partial: PartialSketch, tile: RegisterTile) -> PartialSketch:
    """Return the sketch with the loops of a register tile marked, short rows joined before."""
    joined = find_short_tile(partial, partial.stage(tile.stage))
    if joined:
        fuse = Fuse(tile.stage, joined)
        partial = partial.then(fuse, Vectorize(tile.stage, fuse.made))
    for number, iterator in enumerate(tile.iterators):
        if iterator not in joined:
            mark = Vectorize if number == tile.vector else Unroll
            partial = partial.then(mark(tile.stage, iterator))
    return partial


def annotate_last(partial: PartialSketch, stage: Stage) -> PartialSketch:
    """Return the sketch with the last loop of a stage vectorised, or else unrolled if it is short.

    A reduce loop is vectorised where the terms of one sum adjoin in memory.
    """
    if not stage.iterators:
        return partial
    partial = join_short_rows(partial, stage.name)
    stage = partial.stage(stage.name)
    last = stage.iterators[-1]
    is_held = bool(partial.state.stages_inside(stage.name, last.name))
    if not _is_free(last) or is_held:
        return partial
    if stage.op.scan is not None:
        return mark_scan(partial, stage)
    if last.kind is AxisKind.REDUCE:
        is_along = last.name == adjoining_terms(partial, stage.op)
        return partial.then(Vectorize(stage.name, last.name)) if is_along else partial
    if vector_axis(stage.op) is None:
        return partial
    if not stage.op.reduce_axes or reads_along(stage.op, last.axis):
        return partial.then(Vectorize(stage.name, last.name))
    return partial.then(Unroll(stage.name, last.name)) if stage.relations else partial


def parallel_loops(partial: PartialSketch, stage: Stage) -> tuple[str, ...]:
    """Return the outer loops of a root stage that may be fused and run in parallel.

    They end with the first loop in which another stage is computed, so that fusing is legal; before
    it if that stage keeps what iterations make.
    """
    fusible: list[str] = []
    for iterator in stage.iterators:
        if iterator.kind is not AxisKind.SPACE or not _is_free(iterator):
            break
        inside = partial.state.stages_inside(stage.name, iterator.name)
        if any(inner.ring is not None for inner in inside):
            break
        fusible.append(iterator.name)
        if inside:
            break
    return tuple(fusible)


def reads_along(op: ComputeOp, axis: str) -> bool:
    """Return whether vectors along `axis` suit the loads of the reduction `op`.

    They do not where steps of `axis` are far apart in memory and steps of a reduce axis adjoin,
    unless the body calls functions, which are far faster on vectors.
    """
    has_calls = any(isinstance(node, Call) for node in op.nodes())
    return has_calls or _adjoin(op, axis)


def adjoining_terms(partial: PartialSketch, op: ComputeOp) -> str | None:
    """Return the reduce axis that is best vectorised: along which the terms of one sum adjoin.

    None where vectors along a space axis suit all loads, where the terms do not fill half a vector,
    and where a reduction has several results.
    """
    contiguous = vector_axis(op)
    if (
        op.places
        or op.ragged_axis
        or (contiguous is not None and _adjoin(op, op.axes[contiguous].name))
    ):
        return None
    lanes = partial.lanes(op)
    is_masked = partial.target.masks_remainders(in_registers=True)
    return contiguous_terms(op, max(lanes // 2, SHORTEST_ROW) if is_masked else lanes)


def find_transposed_axis(partial: PartialSketch, op: ComputeOp) -> int | None:
    """Return the place of an axis along which a load adjoins, where the results do not.

    None for reductions, where no load is so, and where a side is shorter than half a vector, or 4
    narrow numbers: such a block would be no better than what its elements are gathered by.
    """
    contiguous, lanes = vector_axis(op), partial.lanes(op)
    least = NARROW_SIDE if partial.target.vector_bytes < 4 * lanes else lanes // 2
    if contiguous is None or op.reduce_axes or op.axes[contiguous].extent < max(least, 2):
        return None
    along = op.axes[contiguous].name
    for number, axis in enumerate(op.axes):
        if number != contiguous and axis.extent >= max(least, 2):
            for load in op.loads:
                strided = any(step_along(index, along) for index in load.indices[:-1])
                if strided and step_along(load.indices[-1], axis.name) == 1:
                    return number
    return None


def contiguous_terms(op: ComputeOp, least: int) -> str | None:
    """Return the last reduce axis of `least` terms that is contiguous in something `op` loads.

    None where there is no such axis, and where a reduction has several results.
    """
    fitting = [
        axis.name
        for axis in op.reduce_axes
        if axis.extent >= least
        and any(step_along(load.indices[-1], axis.name) == 1 for load in op.loads if load.indices)
    ]
    return fitting[-1] if fitting and isinstance(op.combiner, Combiner) else None


def terms_adjoin(op: ComputeOp, name: str) -> bool:
    """Return whether terms adjoin along a reduce axis in each load that moves with it.

    No load may adjoin along the last space axis, which is vectorised then.
    """
    contiguous = vector_axis(op)
    moving = [load for load in op.loads if any(step_along(x, name) for x in load.indices)]
    if not moving or op.places:
        return False
    if contiguous is not None and _adjoin(op, op.axes[contiguous].name):
        return False
    return all(step_along(load.indices[-1], name) == 1 for load in moving)


def gathers_once(op: ComputeOp, axis: str, terms: str) -> bool:
    """Return whether `op` loads each element once of what adjoins along `terms`, not `axis`.

    Constants do not count: they follow the loops of their reader.
    """
    long = {other.name for other in op.axes if other.extent > 1}
    return any(
        not load.buffer.constant
        and any(step_along(index, axis) for index in load.indices[:-1])
        and step_along(load.indices[-1], terms) == 1
        and all(any(step_along(index, name) for index in load.indices) for name in long)
        for load in op.loads
        if load.indices
    )


def _in_blocks(partial: PartialSketch, stage: Stage, across: int, contiguous: int) -> PartialSketch:
    """Return the sketch with two axes of `stage` divided, and their inner loops inside."""
    op, lanes = stage.op, partial.lanes(stage.op)
    for number in (across, contiguous):
        axis = op.axes[number]
        ragged = (lanes,) if axis.extent > lanes and axis.extent % lanes else ()
        variable = tile_variable(stage, axis, 2, BLOCK_VECTORS * lanes, lanes)
        variable = replace(variable, ragged=ragged, whole=whole_level(op, axis, 2))
        partial = replace(partial, variables=(*partial.variables, variable))
        partial = partial.then(Split(op.name, axis.name, (Hole(variable.name, (1,)),)))
    divided = partial.stage(op.name)
    inner = [divided.loop(op.axes[number].name, 1) for number in (across, contiguous)]
    outer = [it.name for it in divided.iterators if it.name not in inner]
    return _reorder(partial, op.name, (*outer, *inner))


def _rows_together(partial: PartialSketch, stage: Stage, dimension: int, contiguous: int) -> int:
    """Return how many rows along an axis of a root stage belong together; 1 for none.

    What is reduced for groups of rows is read by a quotient: the group is a loop of its own. Short
    rows, each of which would wait for what is reduced for it, are as many as a vector has lanes.
    """
    op, lanes, state = stage.op, partial.lanes(stage.op), partial.state
    sums = [each for each in state.stages if each.op.reduce_axes and each.is_untouched]
    if op.reduce_axes or not isinstance(stage.attach, Root) or not sums:
        return 1
    axis, rows = op.axes[dimension], 1
    for reader in state.stages:
        accesses = reads_of(op, reader.op)
        for index in (i for each in sums for read in reads_of(reader.op, each.op) for i in read):
            match index:
                case Binary(BinaryOp.FLOORDIV, Var(name), Const(size)):
                    number = [each.name for each in reader.op.axes].index(name)
                    is_own = reader is stage and name == axis.name
                    if is_own or any(access[number] == Var(axis.name) for access in accesses):
                        rows = int(size)
                case _:
                    pass
    if rows > 1:
        return 1 if axis.extent % rows else rows
    is_short = op.axes[contiguous].extent <= SHORT_ROW_VECTORS * lanes
    is_fed = any(stage in state.readers(each.name) for each in sums)
    is_near = dimension == contiguous - 1 and is_short and is_fed
    return max(n for n in divisors(axis.extent) if n <= lanes) if is_near else 1


def _wants_split(partial: PartialSketch, op: ComputeOp, contiguous: int) -> bool:
    """Return whether the contiguous axis of a root stage is to be split."""
    extent = op.axes[contiguous].extent
    if extent <= partial.lanes(op) or whole_level(op, op.axes[contiguous], 2) is not None:
        return False
    outer = prod(axis.extent for axis in op.loop_axes) // extent
    return bool(op.reduce_axes) or outer < CHUNKS_PER_CORE * partial.target.cores


def _split_contiguous(partial: PartialSketch, stage: Stage, axis: Axis) -> PartialSketch:
    """Return the sketch with the contiguous axis of `stage` split."""
    op, lanes = stage.op, partial.lanes(stage.op)
    limit = partial.target.vector_registers * lanes if op.reduce_axes else axis.extent
    if op.reduce_axes and not reads_along(op, axis.name):
        limit, lanes = UNROLLED_ROWS, 0
    variable = tile_variable(stage, axis, 2, limit, lanes)
    opened = replace(partial, variables=(*partial.variables, variable))
    return opened.then(Split(op.name, axis.name, (Hole(variable.name, (1,)),)))


def _adjoin(op: ComputeOp, name: str) -> bool:
    """Return whether no load moves far along the axis `name` and little along a reduce axis."""
    reduce = [other.name for other in op.reduce_axes]
    return all(
        step_along(load.indices[-1], name) == 1
        or not any(step_along(index, name) for index in load.indices)
        or not any(step_along(load.indices[-1], other) == 1 for other in reduce)
        for load in op.loads
        if load.indices
    )


def _with_last(stage: Stage, name: str) -> tuple[str, ...]:
    """Return the loops of `stage` with the loop `name` last."""
    return (*(it.name for it in stage.iterators if it.name != name), name)


def _reorder(partial: PartialSketch, name: str, order: tuple[str, ...]) -> PartialSketch:
    """Return the sketch with the loops of a stage in this order."""
    current = tuple(iterator.name for iterator in partial.stage(name).iterators)
    return partial if order == current else partial.then(Reorder(name, order))


def _is_free(iterator: Loop) -> bool:
    return iterator.mark.value == "for"


def _hints_unrolled(partial: PartialSketch, stage: Stage) -> PartialSketch:
    """Return the sketch with the innermost loops of the axes in `always_unroll_inner` unrolled.

    In a register tile they are anyway; there the innermost loops of reduce axes are added.
    """
    listed = hint_axes(stage.op.hints, "always_unroll_inner")
    tiled = {tile.stage for tile in partial.register_tiles}
    copies = 1
    for iterator, axis in _innermost(stage):
        if axis not in listed or iterator.mark is not Mark.NONE:
            continue
        if partial.state.stages_inside(stage.name, iterator.name):
            break
        if stage.name not in tiled:
            if not isinstance(iterator.extent, int) or copies * iterator.extent > MAX_UNROLLED:
                continue
            copies *= iterator.extent
        partial = partial.then(Unroll(stage.name, iterator.name))
    return partial


def _innermost(stage: Stage) -> Iterator[tuple[Loop, str]]:
    """Yield the loops of the innermost tile and their axes, from the inside out."""
    seen: set[str] = set()
    for iterator in reversed(stage.iterators):
        if iterator.axis in seen:
            return
        seen.add(iterator.axis)
        yield iterator, iterator.axis
