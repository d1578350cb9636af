"""Recognise steps of scans that are associative: sums, products, extremes, and `a * state + b`."""

from __future__ import annotations

from dataclasses import dataclass

from ansorc.ir.expr import Binary, BinaryOp, Const, Expr, Load, binary, const, dtype_of
from ansorc.ir.node import Node, walk_distinct
from ansorc.lang.compute_op import Combiner, ComputeOp, StateBuffer

_COMBINERS = {
    BinaryOp.ADD: Combiner.SUM,
    BinaryOp.MUL: Combiner.PROD,
    BinaryOp.MAX: Combiner.MAX,
    BinaryOp.MIN: Combiner.MIN,
    BinaryOp.OR: Combiner.ANY,
    BinaryOp.AND: Combiner.ALL,
}


@dataclass(frozen=True)
class Accumulation:
    """The step `combiner(state, term)`; the term does not depend on the state."""

    combiner: Combiner
    term: Expr

    @property
    def identity(self) -> Const:
        """The term that changes no state."""
        return self.combiner.identity(dtype_of(self.term))

    def combine(self, state: Expr, term: Expr) -> Expr:
        """Return the state after a step with `term`."""
        return self.combiner.combine(state, term)


@dataclass(frozen=True)
class Linear:
    """The step `factor * state + term`; neither depends on the state."""

    factor: Expr
    term: Expr


def find_accumulation(body: Expr, state: Expr) -> Accumulation | None:
    """Return the form of a step `body` from `state` if it combines the state with a term."""
    if not isinstance(body, Binary):
        return None
    left, right = body.left, body.right
    combiner = _COMBINERS.get(body.op)
    if body.op is BinaryOp.SUB and left == state and not depends(right, state):
        return Accumulation(Combiner.SUM, binary(BinaryOp.SUB, const(0, dtype_of(right)), right))
    if combiner is None:
        return None
    for mine, other in ((left, right), (right, left)):
        if mine == state and not depends(other, state):
            return Accumulation(combiner, other)
        if depends(mine, state) and not depends(other, state):
            inner = find_accumulation(mine, state)  # (state + a) + b
            if inner is not None and inner.combiner is combiner:
                return Accumulation(combiner, combiner.combine(inner.term, other))
    return None


def find_linear(body: Expr, state: Expr) -> Linear | None:
    """Return the form of a step `body` of floats if it is linear in `state`."""
    dtype = dtype_of(state)
    if not dtype.is_float:
        return None
    one, zero = const(1.0, dtype), const(0.0, dtype)
    if body == state:
        return Linear(one, zero)
    if not isinstance(body, Binary) or not depends(body, state):
        return None if depends(body, state) else Linear(zero, body)
    sides = find_linear(body.left, state), find_linear(body.right, state)
    left, right = sides
    if left is None or right is None:
        return None
    match body.op:
        case BinaryOp.ADD | BinaryOp.SUB:
            return Linear(
                _plus(body.op, left.factor, right.factor), _plus(body.op, left.term, right.term)
            )
        case BinaryOp.MUL if not depends(body.right, state):
            return Linear(_times(left.factor, body.right), _times(left.term, body.right))
        case BinaryOp.MUL if not depends(body.left, state):
            return Linear(_times(body.left, right.factor), _times(body.left, right.term))
        case BinaryOp.DIV if not depends(body.right, state):
            parts = (left.factor, left.term)
            factor, term = (p if p == zero else binary(BinaryOp.DIV, p, body.right) for p in parts)
            return Linear(factor, term)
        case _:
            return None


def depends(expr: Expr, state: Expr) -> bool:
    """Return whether `expr` contains `state`, or a state of another place."""
    return any(node == state or _is_of_a_place(node) for node in walk_distinct(expr))


def _is_of_a_place(node: Node) -> bool:
    return isinstance(node, Load) and isinstance(node.buffer, StateBuffer)


def accumulation_of(op: ComputeOp) -> Accumulation | None:
    """Return the form of a scan of one state that combines it with a term, or None."""
    if op.scan is None or op.more or op.scan.sums:
        return None
    return find_accumulation(op.body, op.state_loads[0])


def linear_of(op: ComputeOp) -> Linear | None:
    """Return the form of a scan of one state that is linear in it, or None."""
    if op.scan is None or op.more or op.scan.sums:
        return None
    return find_linear(op.body, op.state_loads[0])


def _plus(op: BinaryOp, left: Expr, right: Expr) -> Expr:
    if _is(right, 0.0):
        return left
    return right if op is BinaryOp.ADD and _is(left, 0.0) else binary(op, left, right)


def _times(left: Expr, right: Expr) -> Expr:
    if _is(left, 0.0) or _is(right, 1.0):
        return left
    return right if _is(left, 1.0) or _is(right, 0.0) else binary(BinaryOp.MUL, left, right)


def _is(node: Node, value: float) -> bool:
    return isinstance(node, Const) and node.value == value
