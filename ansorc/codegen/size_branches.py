"""One kernel of several programs, each for a range of sizes: the call's sizes choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansorc.ir.buffer import Buffer
from ansorc.ir.dim import Dim, SizeLike
from ansorc.ir.expr import CompareOp, compare, const
from ansorc.ir.passes.join_dimensions import join_dimensions
from ansorc.ir.size_expr import size_expr
from ansorc.ir.specialize import inside_dims, with_dims
from ansorc.ir.stmt import Function, If, Seq, Stmt


@dataclass(frozen=True)
class SizeBranches:
    """A kernel over `dims` that runs the first of `functions` whose limit `measure` is below."""

    params: tuple[Buffer, ...]
    """As the caller has them."""
    dims: tuple[Dim, ...]
    measure: SizeLike
    """The size that is compared with the limits: a dimension, or the product of several."""
    functions: tuple[Function, ...]
    """The programs, smallest sizes first. Their parameters have the names of `params`."""
    limits: tuple[int, ...]
    """Program number i runs if `measure` is below limit i, and the last one otherwise."""

    def join(self, prepared: Sequence[Function]) -> Function:
        """Return the programs, after the passes, as one function.

        Each keeps the shapes that it was made for: in a branch no other sizes occur.
        """
        bodies: list[Stmt] = [inside_dims(function) for function in prepared]
        whole = bodies[-1]
        pairs = list(zip(self.limits, bodies, strict=False))
        for limit, body in reversed(pairs):
            whole = If(compare(CompareOp.LT, size_expr(self.measure), const(limit)), body, whole)
        first = prepared[0]
        empty = Function(first.name, self.params, Seq(()), dims=self.dims)
        params = join_dimensions(with_dims(empty)).params
        return with_dims(replace(first, params=params, body=whole, dims=self.dims))
