"""The values that an index takes while some loops run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ansorc.ir.arith.affine import Linear
from ansorc.schedule.extent import Extent

Quotient: TypeAlias = tuple[str, int]
"""An axis of the enclosing stage, with the loops inside the position at 0 (its anchor), and the
number by which the anchor is divided."""


@dataclass(frozen=True, eq=False)
class IndexBounds:
    """The values one index takes: `low + start … low + start + width - 1`, or the whole dimension.

    `low` moves with the loops outside, and has no constant; None: the whole dimension.
    """

    low: Linear[Quotient] | None
    width: Extent
    step: Extent = 1
    """The first index is a multiple of this, if it is the anchor of an axis; 0: it is 0."""
    start: Extent = 0
