"""ScanInBlocks: long scans of few rows in blocks, several of which advance together.

for t: y = scan x    ->    parallel b: total[b] = Σ x        for b: start[b] = scan total
                           parallel b0:
                               for j: unroll b1: blocks[b1, j] = scan x, from start
                               for b1: vectorize j: y = blocks[b1, j]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.definitions import DEFINITIONS
from ansorc.schedule.extent import Hole
from ansorc.schedule.stage import Making
from ansorc.schedule.steps import ComputeAt, ComputeInline, Redefine, Split
from ansorc.search.sketch.predicates import fusible_consumer
from ansorc.search.sketch.rule import PartialSketch, Verdict, vector_axis
from ansorc.search.sketch.scan_loops import ROWS, USUAL_ROWS
from ansorc.search.sketch.sketch import TileVariable

DEFINITION = "blocks"
TOTALS_AT_ONCE = 3
"""The new stages of a scan in blocks whose totals are reductions."""


@dataclass(frozen=True)
class ScanInBlocks:
    """Compute a scan along the contiguous axis in blocks, if its rows do not keep all cores busy.

    The scan's only consumer, if it is element-wise, computes its results from the blocks itself.
    """

    many_rows: int | None = None
    """Rows that keep the machine busy without blocks; None: USUAL_ROWS for each core."""
    is_placed: bool = True
    """Whether blocks are computed in the loops of the result; else each stage has its own."""

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` is a scan of few rows that has blocks."""
        scan = partial.stage(stage)
        is_made = scan.origin.making is Making.REDEFINITION
        is_free = scan.op.scan is not None and scan.is_untouched and not is_made
        if not is_free or not _is_along_rows(scan.op):
            return Verdict.SKIP
        many = self.many_rows or USUAL_ROWS * partial.target.cores
        is_few = _rows(scan.op) < many
        has_blocks = is_few and DEFINITIONS[DEFINITION](scan.op) is not None
        return Verdict.APPLY if has_blocks else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketch with the blocks in the loops of the result."""
        consumer = fusible_consumer(partial, stage)
        made = partial.then(Redefine(stage, DEFINITION))
        new = [each.name for each in made.state.beyond(partial.state)]
        if not self.is_placed:
            yield made.with_trace(f"{DEFINITION} {stage}")
            return
        name = stage
        if consumer is not None:
            made, name = made.then(ComputeInline(stage)), consumer.name
        if len(new) > TOTALS_AT_ONCE:  # what the blocks add up to is a scan of each as well
            part, carry = new[1:3]
            made = _in_rows(made, carry, part)
        made = _in_rows(made, name, new[-1])
        for each in (each for each in new if made.stage(each).op.reduce_axes):
            made = made.with_pending(each)
        yield made.with_trace(f"{DEFINITION} {stage}")


def _is_along_rows(op: ComputeOp) -> bool:
    contiguous = vector_axis(op)
    return contiguous is not None and op.axes[contiguous].name == op.scan_axis


def _rows(op: ComputeOp) -> int:
    return prod(axis.extent for axis in op.axes if axis.name != op.scan_axis)


def _in_rows(partial: PartialSketch, name: str, blocks: str) -> PartialSketch:
    """Return the sketch with the scans `blocks` computed in `name`, a few of them at a time.

    `name` reads either whole blocks, as parts of its last long axis, or an element of each.
    """
    stage, source = partial.stage(name), partial.stage(blocks)
    *_, block, step = source.op.axes
    variable = TileVariable(
        f"{blocks}.{block.name}", block.extent, 2, min(ROWS, block.extent),
        stage=name, ragged=_ragged(block.extent),
    )  # fmt: skip
    contiguous = vector_axis(stage.op)
    assert contiguous is not None
    axis = stage.op.axes[contiguous]
    hole = Hole(variable.name, (1,))
    lengths = (hole,) if axis.extent == block.extent else (hole, step.extent)
    split = Split(name, axis.name, lengths)
    partial = replace(partial, variables=(*partial.variables, variable))
    return partial.then(split, ComputeAt(blocks, name, split.made[0]))


def _ragged(blocks: int) -> tuple[int, ...]:
    return (USUAL_ROWS,) if blocks > USUAL_ROWS and blocks % USUAL_ROWS else ()
