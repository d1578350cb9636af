"""Join short innermost loops, so that vectors are full: channels, levels, small matrices.

    for y: for x: for z in 0..12: vectorize c in 0..2: D[y, x, z, c] = f(G[y, x, z + 1, c])
                            ->
    for y: for x: vectorize z@c in 0..24: D[y, x, z@c // 2, z@c % 2] = …

Rows that adjoin in memory make one long row. This needs that whatever the loops move lies so, or
that they do not move it. What follows from their indices themselves are constants of each vector,
where there are few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ansorc.ir.arith.affine import affine
from ansorc.ir.expr import Load, Var
from ansorc.ir.node import Node, children
from ansorc.ir.substitute import free_vars
from ansorc.lang.compute_op import Axis, ComputeOp
from ansorc.schedule.extent import Extent, Hole
from ansorc.schedule.stage import At, AxisKind, Loop, Mark, Root, Stage
from ansorc.schedule.state import State
from ansorc.schedule.steps import Fuse, Split
from ansorc.search.sketch.predicates import CHUNKS_PER_CORE
from ansorc.search.sketch.rule import PartialSketch, vector_axis
from ansorc.target.code_facts import MAX_UNROLLED_CHUNKS

LONG_ROW_VECTORS = 8
"""A row of so many vectors is long: what its last one leaves empty does not matter."""


def join_short_rows(partial: PartialSketch, name: str) -> PartialSketch:
    """Return the sketch with the innermost loops of stage `name` joined where that fills vectors.

    The stage is no tile of registers. Its loops are in their final order.
    """
    loops = find_short_rows(partial, partial.stage(name))
    return partial.then(Fuse(name, loops)) if loops else partial


def find_short_rows(partial: PartialSketch, stage: Stage) -> tuple[str, ...]:
    """Return the innermost loops of a stage that is not tiled which are best joined, or none.

    As many as make full vectors, or a long row. A root stage keeps loops to run in parallel.
    """
    op, lanes = stage.op, partial.lanes(stage.op)
    if op.reduce_axes or not is_short(op, lanes):
        return ()
    rows = _adjoining_loops(partial, stage)
    is_root = isinstance(stage.attach, Root) and not stage.relations
    longest = _space(op) // (CHUNKS_PER_CORE * partial.target.cores) if is_root else None
    best = 0
    for count in range(2, len(rows) + 1):
        joined = rows[-count:]
        if not _may_join(partial.state, op, [_axis(op, loop) for loop in joined]):
            break
        length = _length(joined)
        if longest is not None and (length is None or length > longest):
            break
        if _uses_values(op, joined) and (length is None or length > MAX_UNROLLED_CHUNKS * lanes):
            break
        best = count
        if length is None or length % lanes == 0 or length >= LONG_ROW_VECTORS * lanes:
            break
    return tuple(loop.name for loop in rows[len(rows) - best :])


def find_short_tile(partial: PartialSketch, stage: Stage) -> tuple[str, ...]:
    """Return the two innermost loops of a register tile if they are joined, or none."""
    rows = _adjoining_loops(partial, stage)[-2:]
    axes = find_joined_axes(partial, stage)
    is_whole = [loop.axis for loop in rows] == [axis.name for axis in axes]
    return tuple(loop.name for loop in rows) if axes and is_whole else ()


def find_joined_axes(partial: PartialSketch, stage: Stage) -> tuple[Axis, ...]:
    """Return the last two axes of a stage to be tiled if they are joined in its tile, or none."""
    op, contiguous = stage.op, vector_axis(stage.op)
    if contiguous is None or not is_short(op, partial.lanes(op)):
        return ()
    long = [axis for axis in op.axes[: contiguous + 1] if axis.extent > 1][-2:]
    return tuple(long) if len(long) == 2 and _may_join(partial.state, op, long) else ()


def is_short(op: ComputeOp, lanes: int) -> bool:
    """Return whether the rows of `op` do not fill a vector, and may be joined."""
    contiguous = vector_axis(op)
    is_special = bool(op.places or op.hints or op.overwrites) or op.scan is not None
    if is_special or op.ragged_axis is not None or op.c_call is not None:
        return False
    return contiguous is not None and 1 < op.axes[contiguous].extent < lanes


def _adjoining_loops(partial: PartialSketch, stage: Stage) -> list[Loop]:
    """Return the innermost loops of `stage` whose rows follow each other, the last one innermost.

    Each but the first goes along all of its axis, and nothing is computed in them.
    """
    contiguous = vector_axis(stage.op)
    count = 0 if contiguous is None else contiguous + 1
    axes = [axis for axis in stage.op.axes[:count] if axis.extent > 1]
    rows: list[Loop] = []
    for loop in reversed(stage.iterators):
        is_next = bool(axes) and loop.axis == axes[-1].name and loop.kind is AxisKind.SPACE
        is_free = loop.mark is Mark.NONE and not partial.state.stages_inside(stage.name, loop.name)
        if not is_next or not is_free or _is_uneven(partial, stage, loop):
            break
        rows.insert(0, loop)
        if not _is_whole(partial, stage, loop):
            break
        axes.pop()
    return rows


def _space(op: ComputeOp) -> int:
    return prod(axis.extent for axis in op.axes)


def _axis(op: ComputeOp, loop: Loop) -> Axis:
    return next(axis for axis in op.axes if axis.name == loop.axis)


def _is_whole(partial: PartialSketch, stage: Stage, loop: Loop) -> bool:
    """Return whether a loop goes along all of its axis."""
    if isinstance(loop.extent, int):
        return loop.extent == _axis(stage.op, loop).extent
    holes = _holes(partial, stage, loop)
    return bool(holes) and all(
        variable.whole == variable.levels - 1
        for variable in partial.variables
        if variable.name in holes
    )


def _is_uneven(partial: PartialSketch, stage: Stage, loop: Loop) -> bool:
    """Return whether the lengths that a loop may get do not divide its axis."""
    holes = _holes(partial, stage, loop)
    return any(variable.ragged for variable in partial.variables if variable.name in holes)


def _holes(partial: PartialSketch, stage: Stage, loop: Loop) -> set[str]:
    """Return the names of the variables that the loops along the axis of `loop` have as lengths."""
    return {
        length.variable
        for step in partial.state.steps
        if isinstance(step, Split) and (step.stage, step.iterator) == (stage.name, loop.axis)
        for length in step.lengths
        if isinstance(length, Hole)
    }


def _length(loops: Sequence[Loop]) -> int | None:
    """Return the iterations of all loops; None where they are not known yet."""
    extents = [loop.extent for loop in loops]
    known = [extent for extent in extents if isinstance(extent, int)]
    return prod(known) if len(known) == len(extents) else None


def _may_join(state: State, op: ComputeOp, axes: Sequence[Axis]) -> bool:
    """Return whether vectors over the joined `axes` of `op` move along memory, or stay."""
    return all(_is_row(state, load, axes) for load in op.loads)


def _is_row(state: State, load: Load, axes: Sequence[Axis]) -> bool:
    """Return whether the joined axes move a load element by element, or not at all."""
    names = {axis.name for axis in axes}
    moved = [bool(names & free_vars(index)) for index in load.indices]
    if not any(moved):
        return True
    rest = len(moved) - len(axes)
    if rest < 0 or any(moved[:rest]) or not all(moved[rest:]):
        return False
    shape = _shape(state, load)
    for number, (axis, index) in enumerate(zip(axes, load.indices[rest:], strict=True)):
        form = affine(index)
        if form is None or {n for n in form.terms if n in names} != {axis.name}:
            return False
        if form.terms[axis.name] != 1 or (number and shape[rest + number] != axis.extent):
            return False
    return True


def _shape(state: State, load: Load) -> Sequence[Extent]:
    """Return the extents of the tensor that is loaded, as it is held; unknown ones as defined."""
    source = state.source(load.buffer.name)
    if source is None or not isinstance(source.attach, At):
        return load.buffer.shape
    pairs = zip(source.region, load.buffer.shape, strict=True)
    return [extent if held is None else held for held, extent in pairs]


def _uses_values(op: ComputeOp, loops: Sequence[Loop]) -> bool:
    """Return whether the body has indices of joined loops elsewhere than in indices of loads."""
    names = {loop.axis for loop in loops}
    return any(isinstance(node, Var) and node.name in names
               for part in op.parts for node in _values(part))  # fmt: skip


def _values(value: Node) -> Iterator[Node]:
    """Yield the nodes of `value`, but not those of indices."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        yield part
        if not isinstance(part, Load):
            waiting += children(part)
