"""Evaluate an operand of a dot product for several values of a variable at once.

With `terms` elements for each lane of the sums, lane r of the wide operand belongs to the value
r // terms of the variable and to the term r % terms:

    B[k, j, ramp(0, 1, 4)]     ->     B[k, ramp(0, 1, 64) // 4, ramp(0, 1, 64) % 4]
"""

from __future__ import annotations

from ansorc.ir.arith.affine import integer
from ansorc.ir.expr import Binary, BinaryOp, Broadcast, Expr, Ramp, Var, dtype_of
from ansorc.ir.node import Node, rewrite, walk


def widen_operand(
    operand: Expr, terms: int, variable: str, base: Expr, count: int
) -> tuple[Expr, bool]:
    """Return `operand`, of `terms` lanes, for `count` values of `variable` from `base` on.

    An operand that does not use the variable keeps its lanes. The bool is whether it was widened.
    """
    is_varying = any(_is_variable(part, variable) for part in walk(operand))
    if count == 1 or not is_varying:
        return rewrite(operand, lambda old: base if _is_variable(old, variable) else None), False
    every = Ramp(integer(0), integer(1), terms * count)
    number = Binary(BinaryOp.ADD, base, Binary(BinaryOp.FLOORDIV, every, integer(terms)))
    term = Binary(BinaryOp.MOD, every, integer(terms))

    def rule(old: Node) -> Node | None:
        match old:
            case Ramp(start, stride, _):
                return Binary(BinaryOp.ADD, start, Binary(BinaryOp.MUL, stride, term))
            case Broadcast(inner, _):
                return inner if dtype_of(inner).lanes > 1 else Broadcast(inner, every.lanes)
            case _:
                return number if _is_variable(old, variable) else None

    return rewrite(operand, rule), True


def _is_variable(node: Node, name: str) -> bool:
    return isinstance(node, Var) and node.name == name
