"""Place the stages of pipelines in strips of rows, each stage one row at a time.

    for y.0, x.0:                               (a strip)
        for y.1:                                (its rows, from the top)
            B[one more row] = f(A)
            C[a row] = g(B[the last three rows])

What a row of the result reads moves on by a row each time, so each source computes one new row
and keeps those before (`ansorc.schedule.sliding`). Only the first rows of a strip are computed
twice, by the strip above and by its own. The rows that are kept are a few, so they stay in a cache.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansorc.errors import ScheduleError
from ansorc.schedule.bounds import region
from ansorc.schedule.extent import multiply
from ansorc.schedule.memory import memory_shape
from ansorc.schedule.sliding import NoSlideError, NothingSharedError, find_slide
from ansorc.schedule.stage import At, Stage
from ansorc.schedule.steps import Reorder, Split, StoreAt, Unroll
from ansorc.search.sketch.loops import reads_along
from ansorc.search.sketch.rule import PartialSketch, vector_axis
from ansorc.search.sketch.windows import (
    VECTORS_TO_SPLIT,
    Grouping,
    divide,
    find_moved_axes,
    is_whole_root,
)

SLIDING_DEPTHS = (1, 1000)
"""Windows between the root stage of a strip and its other stages, at most: one, or all."""
SUMS_AT_ONCE = 2
"""Vectors of sums that stay in registers for each of a few results of one place."""
FEW = 4
"""The longest axis whose results are summed side by side."""


@dataclass
class SlidingWindows(Grouping):
    """Places stages, consumers first, in the rows of strips of a root stage.

    Strips have whole rows: memory is read in long runs. Rows are only divided, by `has_columns`,
    where what is kept of whole ones would leave the second cache.
    """

    has_columns: bool = False

    def tile(self, partial: PartialSketch, root: Stage) -> tuple[PartialSketch, str] | None:
        """Return the sketch with `root` in strips, and the loop over the rows of one."""
        contiguous = vector_axis(root.op)
        if not is_whole_root(root):
            return None
        moved = find_moved_axes(partial.state, root, {})
        rows = [
            axis for number, axis in enumerate(root.op.loop_axes)
            if axis.name in moved and number != contiguous and axis.extent > 1
        ]  # fmt: skip
        if contiguous is None or not rows:
            return None
        row, column = rows[0], root.op.axes[contiguous]
        is_long = column.extent >= VECTORS_TO_SPLIT * partial.lanes(root.op)
        divided = [row, column] if self.has_columns and is_long else [row]
        partial = divide(partial, root, divided)
        stage = partial.stage(root.name)
        strips = [stage.loop(axis.name, 0) for axis in divided]
        first = [*strips, stage.loop(row.name, 1)]
        rest = [loop.name for loop in stage.iterators if loop.name not in first]
        return partial.then(Reorder(root.name, (*first, *rest))), first[-1]

    def keep(
        self, partial: PartialSketch, name: str, loop: tuple[str, str]
    ) -> PartialSketch | None:
        """Return the sketch with `name` keeping its rows; None where it would repeat them."""
        root = partial.stage(loop[0])
        position = root.position(loop[1])
        assert position is not None
        stage = partial.stage(name)
        boxes = region(partial.state, name, root, position + 1)
        try:
            find_slide(stage, boxes, root.iterators[position], root)
            kept = partial.then(StoreAt(name, root.name, root.iterators[position - 1].name))
        except NothingSharedError:
            return partial.with_trace(f"{name} at {root.name}.{loop[1]}")
        except (NoSlideError, ScheduleError):
            return None
        return kept.with_trace(f"{name} slides at {root.name}.{loop[1]}")

    def finish(self, partial: PartialSketch) -> PartialSketch:
        """Return the sketch with the sums in strips shaped: a few of them stay in registers.

        for c, y: for k: for x: S[c, y, x] += …    ->
            for y, x.0: for k: unroll c: for x.1: S[c, y, x] += …
        """
        for root in self.tiles:
            for stage in partial.state.stages_inside(root):
                if stage.op.reduce_axes and stage.op.combiner is not None and not stage.relations:
                    partial = self._shape_sums(partial, stage)
        return partial

    def _shape_sums(self, partial: PartialSketch, stage: Stage) -> PartialSketch:
        contiguous, op = vector_axis(stage.op), stage.op
        is_plain = (
            not op.places
            and op.ragged_axis is None
            and len(stage.iterators) == len((*op.axes, *op.reduce_axes))
        )
        length = SUMS_AT_ONCE * partial.lanes(op)
        if contiguous is None or not is_plain or not reads_along(op, op.axes[contiguous].name):
            return partial
        column = op.axes[contiguous].name
        width = stage.region[contiguous]
        if not isinstance(width, int) or width < 2 * length:
            return partial
        partial = partial.then(Split(stage.name, column, (length,)))
        few = [
            axis.name for axis, extent in zip(op.axes, stage.region, strict=True)
            if axis.name != column and isinstance(extent, int) and 1 < extent <= FEW
        ][:1]  # fmt: skip
        others = [axis.name for axis in op.axes if axis.name not in (*few, column)]
        outer, inner = (partial.stage(stage.name).loop(column, level) for level in (0, 1))
        order = (*others, outer, *(axis.name for axis in op.reduce_axes), *few, inner)
        partial = partial.then(Reorder(stage.name, order))
        for name in few:
            partial = partial.then(Unroll(stage.name, name))
        return partial


def bytes_kept(partial: PartialSketch) -> int:
    """Return the bytes of all that is kept or computed in strips, where lengths are known."""
    total = 0
    for stage in partial.state.stages:
        if isinstance(stage.attach, At):
            elements = multiply(memory_shape(stage))
            total += elements * stage.op.buffer.dtype.bytes if isinstance(elements, int) else 0
    return total
