"""The derivative of sums over the rows of a compressed matrix: each term finds its row.

A row i of such a sum has the terms P[i] … P[i + 1] - 1. From the side of the terms the row is data:
the number of rows that have begun, a running sum of the beginnings. With it the terms are one plain
axis, and what flows back to a term is an element of its row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansorc.errors import LanguageError
from ansorc.ir.arith.affine import affine
from ansorc.ir.expr import Cast, Checked, Compare, CompareOp, Expr, Load, Var, const
from ansorc.ir.substitute import substitute
from ansorc.lang.compute_op import Axis, Combiner, ComputeOp
from ansorc.lang.define import compute
from ansorc.lang.gradient.stages import Stages
from ansorc.lang.reduction import reduce_axis
from ansorc.lang.scalar import const as number
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.scan import ScanSteps, scan
from ansorc.lang.scatter import scatter
from ansorc.lang.tensor import Tensor


@dataclass(frozen=True)
class Terms:
    """A sum over ranges, from the side of its terms."""

    op: ComputeOp
    """The computation, with the axis of rows replaced; it is of use for its terms alone."""
    axis: str
    """The axis of rows."""
    row: Expr
    """The row of a term."""
    guards: tuple[Expr, ...]
    """Whether a term is in a row at all."""


def find_terms(op: ComputeOp, stages: Stages) -> Terms | None:
    """Return the terms of a sum over neighbouring rows; None if `op` has no ranges.

    The loads of `op` have the buffers of `stages`. Raise LanguageError for other ranges.
    """
    axis = op.ragged_axis
    if axis is None:
        return None
    begin, end = (_start(bound) for bound in axis.bounds)
    rows = None if begin is None or end is None else _neighbours(op, begin, end)
    if begin is None or rows is None or op.combiner is not Combiner.SUM or op.more or op.places:
        raise LanguageError(
            f"ac.gradient: '{op.name}' reduces over ranges that are data, and has a derivative "
            "only if it is a sum over P[i] … P[i + 1] - 1 for each row i; mark it by "
            "ac.stop_gradient, or write it as an ac.scatter of all terms"
        )
    row = Load(stages.buffer(_rows(begin, rows, axis, stages)), (Var(axis.name),))
    past = substitute(axis.bounds[1], {rows.name: const(rows.extent - 1)})
    guards = (
        Compare(CompareOp.GE, row, const(0)),
        Compare(CompareOp.LT, Var(axis.name), past),
    )
    plain = tuple(Axis(each.name, each.extent) for each in op.reduce_axes)
    others = tuple(each for each in op.axes if each.name != rows.name)
    changed = replace(
        op, axes=others, reduce_axes=plain, body=substitute(op.body, {rows.name: row})
    )
    return Terms(changed, rows.name, row, guards)


def _start(bound: Expr) -> Load | None:
    """Return the load of a bound that is an element of a vector."""
    while isinstance(bound, Cast | Checked):
        bound = bound.operand if isinstance(bound, Cast) else bound.value
    return bound if isinstance(bound, Load) and len(bound.indices) == 1 else None


def _neighbours(op: ComputeOp, begin: Load, end: Load) -> Axis | None:
    """Return the axis i if the bounds are P[i] and P[i + 1]; None if they are not."""
    first, second = affine(begin.indices[0]), affine(end.indices[0])
    if first is None or second is None or begin.buffer.name != end.buffer.name:
        return None
    is_next = first.terms == second.terms and (first.constant, second.constant) == (0, 1)
    rows = [axis for axis in op.axes if first.terms == {axis.name: 1}]
    return rows[0] if rows and is_next else None


def _rows(begin: Load, rows: Axis, axis: Axis, stages: Stages) -> Tensor:
    """Return the row of each term, -1 in front of the first."""
    i = reduce_axis(rows.extent, rows.name)
    start = Scalar(stages.use_own_buffers(Load(begin.buffer, (i.expr,)))).astype("int64")
    stem = begin.buffer.name
    begun = stages.keep(
        scatter(axis.extent + 1, start, number(1, "int64"), axis=i, name=stages.name(stem, "begun"))
    )

    def body(*indices: Scalar) -> ScanSteps:
        (k,) = indices
        return scan(number(-1, "int64"), lambda row: row + begun[k], axis=k)

    name, axes = stages.name(stem, "row"), [axis.name]
    return stages.keep(compute(axis.extent, body, name, axes=axes))
