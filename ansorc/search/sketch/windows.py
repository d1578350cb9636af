"""Place the stages of pipelines: those whose elements other stages read in overlapping windows.

A stencil reads several neighbours of an element. If its source is inlined, each element of the
source is computed once for each read; in a chain of n such stages the work grows exponentially. If
the source is computed inside a loop over single rows, the rows of neighbouring iterations overlap,
and the work grows exponentially as well. Here a source is computed in one of two places:

    for i, j: B[i, j] = f(A)                      for i0, j0:                    (overlapped tiles)
    for i, j: C[i, j] = g(B[i - 1 … i + 1, j])        for i, j: B.tile[i, j] = f(A)
                                                      for i1, j1: C[…] = g(B.tile)

At root each element is computed once and goes through memory. In tiles of its reader only what
neighbouring tiles share is computed twice. Stages that are up to `depth` windows away from a root
stage are computed in its tiles, which divides the pipeline into groups (Halide, PLDI 2013).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import prod

from ansorc.errors import ScheduleError
from ansorc.ir.arith.cut_off import linear_form
from ansorc.ir.expr import Call, Const, Indices, Load, Var
from ansorc.ir.node import Node, children, walk
from ansorc.ir.substitute import free_vars
from ansorc.lang.access import reads_of
from ansorc.lang.compute_op import Axis, ComputeOp
from ansorc.schedule.bounds import region
from ansorc.schedule.extent import Hole
from ansorc.schedule.stage import Root, Stage
from ansorc.schedule.state import State
from ansorc.schedule.steps import ComputeAt, Reorder, Split
from ansorc.search.sketch.rule import PartialSketch, vector_axis
from ansorc.search.sketch.sketch import TileVariable
from ansorc.search.sketch.tiling import tile_variable
from ansorc.search.tiles import divisors, ragged_lengths

DEPTHS = (0, 1, 3, 7, 15)
"""Windows between the root stage of a group and its other stages, at most; each is tried."""
MOST_REPEATED = 2.0
"""How many times each element of a stage may be computed outside of register tiles."""
SHORT_WORK = 8
"""Operations and loads that inlining may repeat for each element of a reader."""
TILES = range(8, 257)
"""Lengths of which a tile should have one, a divisor of the axis or not."""
VECTORS_TO_SPLIT = 8
"""Vectors of a row that is divided although no window moves along it."""


def has_windows(reader: ComputeOp, source: ComputeOp) -> bool:
    """Return whether one element of `reader` reads several of `source` in a window."""
    return bool(_find_windows(reader, source)) or len(reads_of(reader, source)) > 1


def _find_windows(reader: ComputeOp, source: ComputeOp) -> dict[int, set[str]]:
    """Return the dimensions of `source` along which windows reach, and the axes that move them."""
    accesses, space = reads_of(reader, source), {axis.name for axis in reader.axes}
    windowed: dict[int, set[str]] = {}
    for dimension in range(len(source.axes)):
        forms = [linear_form(access[dimension])[0] for access in accesses]
        known = [form for form in forms if form is not None]
        names = {name for form in known for name in form.terms}
        is_window = len({form.constant for form in known}) > 1 or not names <= space
        if is_window and names & space:
            windowed[dimension] = names & space
    return windowed


def count_repeated_work(reader: ComputeOp, source: ComputeOp) -> int:
    """Return how many operations and loads of `source` each element of `reader` would repeat.

    A table that is read at places which are data repeats its elements as often as it is read, and
    one that is read along a sum alone is no invariant of its loops: its functions count. Terms that
    go to places are neither vectors nor parallel, so what they hold counts as repeated, too.
    """
    reads, work = reads_of(reader, source), _work(source)
    if reader.places:
        return work
    if (times := _space(reader) // _space(source)) > 1:
        if any(_is_data(access) for access in reads):
            return (work - sum(1 for _ in source.loads)) * times
        if _is_along_sum(reader, reads):
            return sum(isinstance(node, Call) for node in source.nodes()) * times
    again = len(reads) - 1
    is_plain = not reader.reduce_axes and reader.scan is None
    return again * work if is_plain and again > 0 else 0


def count_work_along_others(state: State, reader: ComputeOp, source: ComputeOp) -> int:
    """Return how much each element of `reader` would repeat of `source`, which lacks an axis of it.

    That is the work of what follows from windows of other stages, such as a ratio that all channels
    are multiplied by; 0 of any other source.
    """
    if _space(reader) <= _space(source) or reader.reduce_axes:
        return 0
    work, is_window = 0, False
    waiting, seen = [source], {source.name}
    while waiting:
        op = waiting.pop()
        work += _work(op)
        for buffer in op.reads:
            stage = state.source(buffer.name)
            if stage is None:
                continue
            windowed = has_windows(op, stage.op)
            is_window |= windowed
            is_plain = not stage.op.reduce_axes and stage.op.scan is None
            if not windowed and is_plain and stage.name not in seen:
                seen.add(stage.name)
                waiting.append(stage.op)
    again = _space(reader) - _space(source)
    return work * again // _space(reader) if is_window else 0


def _is_data(indices: Indices) -> bool:
    """Return whether a place is read from memory."""
    return any(isinstance(node, Load) for index in indices for node in walk(index))


def _is_along_sum(reader: ComputeOp, reads: Iterable[Indices]) -> bool:
    """Return whether all places that are read depend on reduce axes, and on nothing else."""
    reduced = {axis.name for axis in reader.reduce_axes}
    used = [{name for index in access for name in free_vars(index)} for access in reads]
    return bool(used) and all(names and names <= reduced for names in used)


def _space(op: ComputeOp) -> int:
    """Return how many times the bodies of `op` are evaluated."""
    return prod(axis.extent for axis in (*op.axes, *op.reduce_axes))


def _work(op: ComputeOp) -> int:
    """Return how many operations and loads compute one element of `op`."""
    return sum(not isinstance(node, Const | Var) for part in op.parts for node in _values(part))


def _values(value: Node) -> Iterator[Node]:
    """Yield the nodes of `value`, but not those of indices."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        yield part
        if not isinstance(part, Load):
            waiting += children(part)


def repeats_work(state: State, stage: Stage) -> bool:
    """Return whether an attached stage computes its elements too often; no where not known yet."""
    runs, elements = 1, 1
    for extent, axis in zip(stage.region, stage.op.axes, strict=True):
        if not isinstance(extent, int):
            return False
        runs, elements = runs * extent, elements * axis.extent
    for target, count in state.chain(stage):
        for loop in target.iterators[:count]:
            if not isinstance(loop.extent, int):
                return False
            runs *= loop.extent
    return runs > MOST_REPEATED * elements


def is_pipeline(partial: PartialSketch) -> bool:
    """Return whether a stage that is not tiled reads windows of another such stage."""
    return any(
        has_windows(reader.op, source.op)
        for source in partial.state.stages
        if _is_plain(partial, source) and not source.is_output
        for reader in partial.state.readers(source.name)
        if _is_plain(partial, reader)
    )


def _is_plain(partial: PartialSketch, stage: Stage) -> bool:
    """Return whether no rule has shaped the loops of `stage` or inlined it."""
    tiled = {tile.stage for tile in partial.register_tiles}
    is_free = stage.is_untouched and not stage.is_inlined and stage.op.scan is None
    return stage.name not in tiled and is_free


@dataclass
class Grouping:
    """Places stages, consumers first, in the tiles of a root stage at most `depth` windows away."""

    depth: int
    groups: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    """For each stage that is placed the root stage of its group, and how far away that is."""
    tiles: dict[str, str] = field(default_factory=dict[str, str])
    """The innermost loop over tiles of each root stage that has some."""

    def place(self, partial: PartialSketch, name: str) -> PartialSketch:
        """Return the sketch with the untouched stage `name` placed."""
        stage, readers = partial.stage(name), partial.state.readers(name)
        places = [self.groups.get(reader.name) for reader in readers]
        known = [loop for loop in places if loop is not None]
        is_free = not stage.is_output and stage.op.scan is None
        if is_free and known and len(known) == len(readers):
            roots = {root for root, _ in known}
            away = max(
                distance + has_windows(reader.op, stage.op)
                for reader, (_, distance) in zip(readers, known, strict=True)
            )
            if len(roots) == 1 and away <= self.depth:
                (root,) = roots
                placed = self._attach(partial, name, root)
                if placed is not None:
                    self.groups[name] = root, away
                    return placed
        self.groups[name] = name, 0
        return partial.with_trace(f"{name} at root")

    def tile(self, partial: PartialSketch, root: Stage) -> tuple[PartialSketch, str] | None:
        """Return the sketch with `root` in tiles, and the innermost loop over them."""
        return _tile(partial, root)

    def _attach(self, partial: PartialSketch, name: str, root: str) -> PartialSketch | None:
        """Return the sketch with `name` in the tiles of `root`; None where that cannot be."""
        loop = self.tiles.get(root)
        if loop is None:
            tiled = self.tile(partial, partial.stage(root))
            if tiled is None:
                return None
            partial, loop = tiled
        try:
            placed = partial.then(ComputeAt(name, root, loop))
        except ScheduleError:
            return None
        if _is_whole(placed.state, name):
            return None
        kept = self.keep(placed, name, (root, loop))
        if kept is not None:
            self.tiles[root] = loop
        return kept

    def finish(self, partial: PartialSketch) -> PartialSketch:
        """Return the sketch with the stages of groups shaped, where that is to be."""
        return partial

    def keep(
        self, partial: PartialSketch, name: str, loop: tuple[str, str]
    ) -> PartialSketch | None:
        """Return the sketch with `name` in `loop` as it is to stay; None where it may not."""
        root, tile = loop
        return partial.with_trace(f"{name} at {root}.{tile}")


def _is_whole(state: State, name: str) -> bool:
    """Return whether all of a stage is computed in each tile, as its index is not affine."""
    target, count = state.chain(state.stage(name))[-1]
    boxes = region(state, name, target, count)
    return not any(box.low is not None and box.low.terms for box in boxes)


def _tile(partial: PartialSketch, root: Stage) -> tuple[PartialSketch, str] | None:
    """Return the sketch with `root` in tiles, and the innermost loop over them."""
    if not is_whole_root(root):
        return None
    moved = find_moved_axes(partial.state, root, {})
    lanes, contiguous = partial.lanes(root.op), vector_axis(root.op)
    divided: list[Axis] = []
    for number, axis in enumerate(root.op.axes):
        is_row = number == contiguous and axis.extent >= VECTORS_TO_SPLIT * lanes
        if axis.extent > 1 and (axis.name in moved or is_row):
            divided.append(axis)
    if not divided:
        return None
    partial = divide(partial, root, divided)
    return _order_tiles(partial, root.name, [axis.name for axis in divided])


def is_whole_root(stage: Stage) -> bool:
    """Return whether a stage at root may be divided: it is no scan, and no step has shaped it."""
    return not stage.relations and isinstance(stage.attach, Root) and stage.op.scan is None


def divide(partial: PartialSketch, root: Stage, axes: Iterable[Axis]) -> PartialSketch:
    """Return the sketch with `axes` of a root stage divided, by lengths that are variables."""
    lanes, contiguous = partial.lanes(root.op), vector_axis(root.op)
    row = None if contiguous is None else root.op.axes[contiguous].name
    for axis in axes:
        variable = _length_variable(root, axis, lanes if axis.name == row else 0)
        partial = replace(partial, variables=(*partial.variables, variable))
        partial = partial.then(Split(root.name, axis.name, (Hole(variable.name, (1,)),)))
    return partial


def _length_variable(root: Stage, axis: Axis, lanes: int) -> TileVariable:
    """Return the lengths of the tiles along `axis`: divisors, or any where it has no good ones."""
    has_divisors = any(length in TILES for length in divisors(axis.extent))
    ragged = () if has_divisors else ragged_lengths(axis.extent, TILES.stop, lanes)
    return replace(tile_variable(root, axis, 2, axis.extent, lanes), ragged=ragged)


def _order_tiles(
    partial: PartialSketch, name: str, divided: list[str]
) -> tuple[PartialSketch, str]:
    """Return the sketch with the loops over tiles of a stage outside, and the last of them.

    An axis that is not divided goes outside if one after it is.
    """
    stage = partial.stage(name)
    axes = stage.op.axes
    last = max(number for number, axis in enumerate(axes) if axis.name in divided)
    outer = [stage.loop(axis.name, 0) for axis in axes[: last + 1]]
    inner = [stage.loop(axis.name, 1) for axis in axes if axis.name in divided]
    rest = [loop.name for loop in stage.iterators if loop.name not in {*outer, *inner}]
    names = (*outer, *inner, *rest)
    current = tuple(loop.name for loop in stage.iterators)
    opened = partial if names == current else partial.then(Reorder(name, names))
    return opened, outer[-1]


def find_moved_axes(state: State, stage: Stage, known: dict[str, set[str]]) -> set[str]:
    """Return the axes of `stage` along which windows reach, its own or those of its sources."""
    if stage.name in known:
        return known[stage.name]
    known[stage.name] = moved = set[str]()
    for source in state.stages:
        if not source.is_inlined and reads_of(stage.op, source.op):
            windows = _find_windows(stage.op, source.op)
            moved.update(*windows.values())
            deeper = find_moved_axes(state, source, known)
            space = {axis.name for axis in stage.op.axes}
            for dimension, axis in enumerate(source.op.axes):
                if axis.name in deeper:
                    for access in reads_of(stage.op, source.op):
                        form, _ = linear_form(access[dimension])
                        moved |= set() if form is None else form.terms.keys() & space
    return moved
