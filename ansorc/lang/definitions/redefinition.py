"""A computation by other arithmetic: the stages that take its place."""

from __future__ import annotations

from dataclasses import dataclass

from ansorc.ir.buffer import Buffer
from ansorc.ir.transform import Transform
from ansorc.lang.compute_op import ComputeOp


@dataclass(frozen=True)
class Redefinition:
    """A computation by other arithmetic."""

    ops: tuple[ComputeOp, ...]
    """Producers first; the last fills the same tensor as before."""
    weight: Buffer | None = None
    """The transformed tensor, if there is one, as the ops read it: under the original's name."""
    transforms: tuple[Transform, ...] = ()
    """The transforms of the original tensor."""
