"""Sums whose terms read the quotient and the remainder of a reduce axis, with a term for each
remainder.

    y[j] = Σ over k of nibble(w[j, k // 2], k % 2) * x[k]
->  y[j] = Σ over k of (w[j, k] % 16) * x[k * 2] + (w[j, k] // 16) * x[k * 2 + 1]

Indices are sums of axes again, so layouts, vectors and dot products are found for them, and what
holds several numbers is loaded once.
"""

from __future__ import annotations

from dataclasses import replace

from ansorc.ir.arith.affine import integer
from ansorc.ir.arith.simplify import simplify
from ansorc.ir.expr import Binary, BinaryOp, Const, Expr, Var
from ansorc.ir.node import walk
from ansorc.ir.operator import DIVISIONS
from ansorc.ir.substitute import substitute
from ansorc.lang.compute_op import Combiner, ComputeOp
from ansorc.lang.definitions.redefinition import Redefinition

_MOST_TERMS, _MOST_NODES = 8, 256
"""The most remainders, and the longest body."""


def terms_of_digits(op: ComputeOp) -> Redefinition | None:
    """Return a sum with a term for each remainder of a reduce axis; None for other computations."""
    if op.combiner is not Combiner.SUM or op.more or op.places or op.temporaries:
        return None
    for position, axis in enumerate(op.reduce_axes):
        count = _divisor(op.body, axis.name)
        if count is None or axis.extent % count or axis.extent == count:
            continue
        reduced = replace(axis, extent=axis.extent // count)
        ranges = {other.name: (0, other.extent - 1) for other in (*op.axes, *op.reduce_axes)}
        ranges[axis.name] = 0, reduced.extent - 1
        first = Binary(BinaryOp.MUL, Var(axis.name), integer(count))
        total: Expr | None = None
        for rest in range(count):
            place = Binary(BinaryOp.ADD, first, integer(rest)) if rest else first
            term = simplify(substitute(op.body, {axis.name: place}), ranges)
            total = term if total is None else Binary(BinaryOp.ADD, total, term)
        assert total is not None
        if sum(1 for _ in walk(total)) > _MOST_NODES:
            return None
        axes = (*op.reduce_axes[:position], reduced, *op.reduce_axes[position + 1 :])
        return Redefinition((replace(op, reduce_axes=axes, body=total),))
    return None


def _divisor(body: Expr, name: str) -> int | None:
    """Return the number by which an axis is divided wherever it is; None without such a number."""
    found = {
        int(node.right.value)
        for node in walk(body)
        if isinstance(node, Binary) and node.op in DIVISIONS and isinstance(node.right, Const)
        and node.left == Var(name)
    }  # fmt: skip
    count = found.pop() if len(found) == 1 else 0
    return count if 1 < count <= _MOST_TERMS else None
