"""Digits: the shares of axes that the iterators of a stage move.

Fusing puts the digits of axes side by side, splitting takes them apart again, as with the digits
of a number in a mixed radix. So a loop that was fused from two axes and then split still has
steps of its own along each axis; exact where the lengths divide each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ansorc.schedule.extent import Extent, divide_up, multiply, smaller
from ansorc.schedule.stage import FuseRelation, SplitRelation, Stage


@dataclass(frozen=True, eq=False)
class Digit:
    """`axis += stride` for each of `extent` steps."""

    axis: str
    stride: Extent
    extent: Extent


def digits_of(stage: Stage) -> dict[str, tuple[Digit, ...]]:
    """Return the digits of each iterator now in the loop order, the slowest first."""
    found: dict[str, tuple[Digit, ...]] = {
        axis.name: (Digit(axis.name, 1, extent),)
        for axis, extent in zip(stage.op.axes, stage.region, strict=True)
    }
    found |= {axis.name: (Digit(axis.name, 1, axis.extent),) for axis in stage.op.reduce_axes}
    for relation in stage.relations:
        if isinstance(relation, FuseRelation):
            joined = [digit for parent in relation.parents for digit in found.pop(parent.name)]
            found[relation.child.name] = tuple(joined)
        else:
            found |= _split(found.pop(relation.parent.name), relation)
    return found


def _split(digits: tuple[Digit, ...], relation: SplitRelation) -> dict[str, tuple[Digit, ...]]:
    children = relation.children
    if len(digits) == 1:
        parent = digits[0]
        inner = [multiply(c.extent for c in children[n + 1 :]) for n in range(len(children))]
        return {
            child.name: (Digit(parent.axis, multiply((parent.stride, below)), child.extent),)
            for child, below in zip(children, inner, strict=True)
        }
    rest = digits
    result: dict[str, tuple[Digit, ...]] = {}
    for child in reversed(children[1:]):
        result[child.name], rest = _taken(rest, child.extent)
    result[children[0].name] = rest
    return result


def _taken(
    digits: tuple[Digit, ...], extent: Extent
) -> tuple[tuple[Digit, ...], tuple[Digit, ...]]:
    """The fastest `extent` steps of `digits`, and what is left of them."""
    taken: list[Digit] = []
    left: list[Digit] = []
    for digit in reversed(digits):
        share = _common(digit.extent, extent)
        taken.insert(0, Digit(digit.axis, digit.stride, share))
        rest = divide_up(digit.extent, share)
        left.insert(0, Digit(digit.axis, multiply((digit.stride, share)), rest))
        extent = divide_up(extent, share)
    return tuple(taken), tuple(left)


def _common(left: Extent, right: Extent) -> Extent:
    found = smaller(left, right)
    return found if isinstance(found, int) or found is None else np.maximum(found, 1)
