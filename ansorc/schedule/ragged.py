"""Loops over ranges that are data: their ends are checked, and kept in the tensors."""

from __future__ import annotations

from ansorc.ir.arith.scalar import conjunction
from ansorc.ir.expr import BinaryOp, Checked, CompareOp, Expr, binary, compare, const
from ansorc.ir.fault import FaultKind
from ansorc.lang.compute_op import Axis
from ansorc.lang.ragged import range_of


def checked_end(axis: Axis, end: Expr) -> Expr:
    """Return an end of the range of `axis`; the call fails unless it is in 0 … its extent.

    On a GPU, which goes on, it is moved there.
    """
    low, high = const(0), const(axis.extent)
    inside = [compare(CompareOp.GE, end, low), compare(CompareOp.LE, end, high)]
    told = (end, low, high, const(0))
    checked = Checked(end, conjunction(inside), FaultKind.INDEX, range_of(axis), told)
    return binary(BinaryOp.MIN, binary(BinaryOp.MAX, checked, low), high)
