"""RowsInRanges: rows that share a range of data are computed beside each other inside of it.

    for i, b: for t in range of b: for l: S[i, b, l] += X[i, J[t]] * V[t, l]
->  for i0, b: for t in range of b: unroll i1: vectorize l: S[i, b, l] += X[i, J[t]] * V[t, l]

What a term of the range says, V and J here, is loaded once for all of them, and their sums do not
wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ansorc.lang.compute_op import Axis, ComputeOp
from ansorc.schedule.stage import Root, Stage
from ansorc.schedule.steps import Reorder, Split, Unroll
from ansorc.search.sketch.loops import follows_range
from ansorc.search.sketch.rule import PartialSketch, Verdict, vector_axis

LEAST_ROWS = 4
"""Fewer rows are left as they are."""
MOST_ROWS = 12
"""Rows that are computed together, at most: their sums stay in registers."""
USUAL_ROWS = 8
"""Rows that are computed together where no number from 6 to 12 divides the axis."""


@dataclass(frozen=True)
class RowsInRanges:
    """Compute several rows of a reduction over a range of data for each term."""

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` reduces over a range that some of its rows share."""
        return Verdict.SKIP if _rows(partial.stage(stage)) is None else Verdict.APPLY

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield a sketch for each number of rows, the one for untuned programs first."""
        found = partial.stage(stage)
        rows = _rows(found)
        assert rows is not None
        axis, inner = rows
        outer = [a.name for a in found.op.axes if a is not inner]
        terms = [a.name for a in found.op.reduce_axes]
        for length in _lengths(axis.extent):
            split = Split(stage, axis.name, (length,))
            around = (split.made[0] if name == axis.name else name for name in outer)
            order = Reorder(stage, (*around, *terms, split.made[1], inner.name))
            made = partial.then(split, order, Unroll(stage, split.made[1]))
            yield made.with_trace(f"{length} rows of {stage} in its ranges")


def _lengths(extent: int) -> tuple[int, ...]:
    """Return the numbers of rows that are computed together."""
    if extent <= MOST_ROWS:
        usual = extent
    else:
        near = [n for n in range(MOST_ROWS, USUAL_ROWS - 3, -1) if extent % n == 0]
        usual = USUAL_ROWS if not near or USUAL_ROWS in near else near[0]
    return tuple(dict.fromkeys((usual, min(LEAST_ROWS, extent), min(MOST_ROWS, extent))))


def _rows(stage: Stage) -> tuple[Axis, Axis] | None:
    """Return the axis of the rows and the contiguous one inside of them; None if there are none."""
    op, contiguous = stage.op, vector_axis(stage.op)
    if op.ragged_axis is None or contiguous is None or stage.scope or not stage.is_untouched:
        return None
    inner = op.axes[contiguous]
    if not isinstance(stage.attach, Root) or follows_range(op, inner.name):
        return None
    fitting = [axis for axis in op.axes if axis is not inner and _are_rows(op, axis)]
    return (fitting[-1], inner) if fitting else None


def _are_rows(op: ComputeOp, axis: Axis) -> bool:
    return axis.extent >= LEAST_ROWS and not follows_range(op, axis.name)
