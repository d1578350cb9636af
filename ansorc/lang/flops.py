"""Count the arithmetic operations of a computation as the paper's figures do."""

from __future__ import annotations

import math

from ansorc.ir.dtype import DType
from ansorc.ir.expr import Binary, Call, Cast, Compare, Expr, Not, Select, dtype_of
from ansorc.lang.compute_op import Combiner, ComputeOp
from ansorc.lang.reducer import Reducer


def op_flops(op: ComputeOp) -> float:
    """Return the operations of `op`, or its hint `flop`.

    An arithmetic, comparing or logical node counts 1 if an operand has the kind of the result, so
    index arithmetic in a float computation is free. Calls, loads and casts count 0. A reduction
    adds one combining operation for each term; a Reducer adds the operations of its results. Of two
    arms of a condition the more expensive one counts.
    """
    hinted = dict(op.hints).get("flop")
    if hinted is not None:
        return float(hinted)
    terms = math.prod(op.count_terms(axis) for axis in (*op.loop_axes, *op.reduce_axes))
    pairs = list(zip(op.bodies, op.buffers, strict=True))
    pairs += [(each.value, each.buffer) for each in op.temporaries]
    if isinstance(op.combiner, Reducer):
        pairs += zip(op.combiner.results, op.buffers, strict=True)
    steps = float(terms) * sum(
        math.prod(axis.extent for axis in inner.axes) * (1 + _cost(inner.body, inner.buffer.dtype))
        for inner in op.step_sums
    )
    each = sum(_cost(body, buffer.dtype) for body, buffer in pairs)
    return float(terms * (each + isinstance(op.combiner, Combiner))) + steps


def _cost(expr: Expr, result: DType) -> int:
    match expr:
        case Binary(_, left, right) | Compare(_, left, right):
            counts = _alike(dtype_of(left), result) or _alike(dtype_of(right), result)
            return counts + _cost(left, result) + _cost(right, result)
        case Not(operand):
            return _alike(dtype_of(operand), result) + _cost(operand, result)
        case Select(condition, then, otherwise):
            arms = max(_cost(then, result), _cost(otherwise, result))
            return _cost(condition, result) + arms
        case Call(_, args):
            return sum(_cost(arg, result) for arg in args)
        case Cast(_, operand):
            return _cost(operand, result)
        case _:
            return 0


def _alike(left: DType, right: DType) -> bool:
    return left.kind is right.kind or (left.is_float and right.is_float)
