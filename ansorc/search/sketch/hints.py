"""What the hints of a definition say about the loops of its stage (`ansorc.lang.hints`)."""

from __future__ import annotations

from collections.abc import Iterator as Sequence
from math import prod

from ansorc.errors import RuleError
from ansorc.lang.compute_op import Axis, ComputeOp
from ansorc.lang.hints import hint_axes
from ansorc.schedule.stage import Iterator, Mark, Stage
from ansorc.schedule.steps import Unroll
from ansorc.schedule.unrolling import MAX_COPIES, NOMINAL_LANES
from ansorc.search.sketch.rule import PartialSketch, vector_axis

MAX_UNROLLED = 64
"""Copies of a statement outside of register tiles that `always_unroll_inner` makes, at most."""
_REGISTER_RATIO = 2
"""A register tile may have so many times as many vectors as there are registers."""


def whole_level(op: ComputeOp, axis: Axis, levels: int) -> int | None:
    """Return the level of the tiling that holds all of `axis`; None where it may be divided."""
    if axis.name in hint_axes(op.hints, "no_split_at_outer"):
        return 0
    return levels - 1 if axis.name in hint_axes(op.hints, "no_split_at_inner") else None


def innermost_limit(op: ComputeOp, axis: Axis, limit: int) -> int:
    """Return the largest innermost length of `axis`: `limit`, or 1 if a hint says so."""
    return 1 if axis.name in hint_axes(op.hints, "last_split_is_one") else limit


def unrolled_terms(partial: PartialSketch, stage: Stage) -> dict[str, int]:
    """Return the reduce axes of a tiled stage whose innermost loop is always unrolled.

    And how long it may be, so that there are not too many copies of the register tile.
    """
    vectors = -(-partial.target.vector_bytes // (4 * NOMINAL_LANES))
    left = MAX_COPIES // (_REGISTER_RATIO * partial.target.vector_registers * vectors)
    found: dict[str, int] = {}
    listed = hint_axes(stage.op.hints, "always_unroll_inner")
    for axis in stage.op.reduce_axes:
        if axis.name in listed:
            found[axis.name] = min(axis.extent, left)
            left //= found[axis.name]
    return found


def require_registers(partial: PartialSketch, stage: Stage) -> None:
    """Raise RuleError if axes that are not to be divided fill more than the registers."""
    op, contiguous = stage.op, vector_axis(stage.op)
    listed = hint_axes(op.hints, "no_split_at_inner")
    lengths = [
        -(-axis.extent // partial.lanes(op)) if place == contiguous else axis.extent
        for place, axis in enumerate(op.axes)
        if axis.name in listed
    ]
    most = _REGISTER_RATIO * partial.target.vector_registers
    if prod(lengths) > most:
        raise RuleError(
            f"the hint no_split_at_inner of '{stage.name}' asks for {prod(lengths)} vectors in "
            f"registers, and there may be {most}; list shorter axes"
        )
    terms = unrolled_terms(partial, stage)
    for axis in op.reduce_axes:
        if axis.name in listed and axis.extent > terms.get(axis.name, axis.extent):
            raise RuleError(
                f"the hints of '{stage.name}' ask for all {axis.extent} iterations of "
                f"'{axis.name}' to be unrolled, and {terms[axis.name]} are the most; leave out "
                "always_unroll_inner or no_split_at_inner"
            )


def unrolled(partial: PartialSketch, stage: Stage) -> PartialSketch:
    """Return the sketch with the innermost loops of the axes in `always_unroll_inner` unrolled.

    In a register tile they are anyway; there the innermost loops of reduce axes are added.
    """
    listed = hint_axes(stage.op.hints, "always_unroll_inner")
    tiled = {tile.stage for tile in partial.register_tiles}
    copies = 1
    for iterator, axis in _innermost(stage):
        if axis not in listed or iterator.mark is not Mark.NONE:
            continue
        if partial.state.attached(stage.name, iterator.name):
            break
        if stage.name not in tiled:
            if not isinstance(iterator.extent, int) or copies * iterator.extent > MAX_UNROLLED:
                continue
            copies *= iterator.extent
        partial = partial.then(Unroll(stage.name, iterator.name))
    return partial


def _innermost(stage: Stage) -> Sequence[tuple[Iterator, str]]:
    """The loops of the innermost tile and their axes, from the inside out."""
    seen: set[str] = set()
    for iterator in reversed(stage.iterators):
        if iterator.axis in seen:
            return
        seen.add(iterator.axis)
        yield iterator, iterator.axis
