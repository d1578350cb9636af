"""Sums and products of expressions of derivatives, without zeros, ones and double negations.

Dead terms are left out even where a factor may be infinite: 0 times it is 0 here.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from ansorc.ir.arith.scalar import conjunction
from ansorc.ir.dtype import DType
from ansorc.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Load, Not, Select, const, dtype_of
from ansorc.ir.node import walk


def zero(dtype: DType) -> Const:
    """Return 0 of `dtype`."""
    return const(0, dtype)


def is_number(expr: Expr, value: float) -> bool:
    """Return whether `expr` is the literal `value`."""
    return isinstance(expr, Const) and expr.value == value


def add(left: Expr, right: Expr) -> Expr:
    """Return `left + right`; x + x is 2 x, and the two arms of one condition become one choice."""
    if is_number(left, 0):
        return right
    if is_number(right, 0):
        return left
    if left == right:
        return times(const(2, dtype_of(left)), left)
    if (choice := _choice(left, right)) is not None:
        return choice
    if (positive := _negate(right)) is not None:
        return Binary(BinaryOp.SUB, left, positive)
    return Binary(BinaryOp.ADD, left, right)


def times(left: Expr, right: Expr) -> Expr:
    """Return `left * right`; a literal comes first, and literals are multiplied."""
    if isinstance(right, Const):
        left, right = right, left
    if isinstance(left, Const):
        if is_number(left, 0):
            return left
        if is_number(left, 1):
            return right
        if isinstance(right, Const):
            return const(left.value * right.value, left.dtype)
        if is_number(left, -1):
            return negate(right)
        if isinstance(right, Binary) and right.op is BinaryOp.MUL and isinstance(right.left, Const):
            return times(const(left.value * right.left.value, left.dtype), right.right)
        if (positive := _negate(right)) is not None:
            return times(const(-left.value, left.dtype), positive)
    elif isinstance(left, Binary) and left.op is BinaryOp.MUL and isinstance(left.left, Const):
        return times(left.left, times(left.right, right))
    elif (positive := _negate(left)) is not None:
        return negate(times(positive, right))
    elif (positive := _negate(right)) is not None:
        return negate(times(left, positive))
    return Binary(BinaryOp.MUL, left, right)


def divide(left: Expr, right: Expr) -> Expr:
    """Return `left / right`."""
    if is_number(left, 0) or is_number(right, 1):
        return left
    if (positive := _negate(left)) is not None:
        return negate(divide(positive, right))
    return Binary(BinaryOp.DIV, left, right)


def negate(expr: Expr) -> Expr:
    """Return `-expr`."""
    if isinstance(expr, Const):
        return const(-expr.value, expr.dtype) if expr.value else expr
    if (positive := _negate(expr)) is not None:
        return positive
    if isinstance(expr, Binary) and expr.op is BinaryOp.MUL and isinstance(expr.left, Const):
        return times(negate(expr.left), expr.right)
    return Binary(BinaryOp.SUB, const(-0.0, dtype_of(expr)), expr)


def choose(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    """Return `then` where `condition` holds, else `otherwise`."""
    if isinstance(condition, Const):
        return then if condition.value else otherwise
    return then if then == otherwise else Select(condition, then, otherwise)


def under(guards: Iterable[Expr], value: Expr) -> Expr:
    """Return `value` where all `guards` hold, else 0.

    Guards that read tensors are tested only where those before them hold.
    """
    nothing = zero(dtype_of(value))
    of_data = [guard for guard in guards if _reads(guard)]
    of_axes = [guard for guard in guards if not _reads(guard)]
    for guard in reversed(of_data):
        value = choose(guard, value, nothing)
    return choose(conjunction(of_axes), value, nothing) if of_axes else value


def convert(expr: Expr, dtype: DType) -> Expr:
    """Return `expr` as `dtype`; a conversion from `dtype` is taken back, not rounded twice."""
    if dtype_of(expr) == dtype:
        return expr
    if isinstance(expr, Const):
        return const(expr.value, dtype)
    if isinstance(expr, Cast) and dtype_of(expr.operand) == dtype:
        return expr.operand
    return Cast(dtype, expr)


def factors_of(expr: Expr) -> list[tuple[Expr, bool]]:
    """Return the factors of a product, and whether the product is divided by each."""
    if isinstance(expr, Binary) and expr.op is BinaryOp.MUL:
        return factors_of(expr.left) + factors_of(expr.right)
    if isinstance(expr, Binary) and expr.op is BinaryOp.DIV:
        below = [(factor, not is_below) for factor, is_below in factors_of(expr.right)]
        return factors_of(expr.left) + below
    if (positive := _negate(expr)) is not None:
        return [(const(-1, dtype_of(expr)), False), *factors_of(positive)]
    return [(expr, False)]


def product_of(factors: Iterable[tuple[Expr, bool]], dtype: DType) -> Expr:
    """Return the product of factors, as `factors_of` lists them."""
    one: Expr = const(1, dtype)
    above = reduce(times, (factor for factor, is_below in factors if not is_below), one)
    below = reduce(times, (factor for factor, is_below in factors if is_below), one)
    return divide(above, below)


def _negate(expr: Expr) -> Expr | None:
    """Return x if `expr` is -x."""
    if isinstance(expr, Binary) and expr.op is BinaryOp.SUB and is_number(expr.left, 0):
        return expr.right
    return None


def _choice(left: Expr, right: Expr) -> Expr | None:
    """Return `a if c else b` for the sum of `a if c else 0` and `b if not c else 0`."""
    if not (isinstance(left, Select) and isinstance(right, Select)):
        return None
    if not (is_number(left.otherwise, 0) and is_number(right.otherwise, 0)):
        return None
    if right.condition == Not(left.condition):
        return Select(left.condition, left.then, right.then)
    if left.condition == Not(right.condition):
        return Select(right.condition, right.then, left.then)
    if left.condition == right.condition:
        return Select(left.condition, add(left.then, right.then), left.otherwise)
    return None


def _reads(guard: Expr) -> bool:
    return any(isinstance(node, Load) for node in walk(guard))
