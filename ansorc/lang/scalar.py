"""Functions on the elements of tensors, for use inside the body of a `compute`."""

from __future__ import annotations

from functools import reduce

from ansorc.errors import LanguageError
from ansorc.ir import expr as ir
from ansorc.ir.dtype import FLOAT32, DType, Kind, dtype
from ansorc.ir.expr import BinaryOp, CompareOp, Expr, ExprLike, Operand, Select, dtype_of
from ansorc.ir.math_call import call


def if_then_else(condition: ExprLike, then: ExprLike, otherwise: ExprLike) -> Expr:
    """Return `then` where `condition` holds, else `otherwise`; only that arm is read.

    Raise LanguageError unless `condition` is a bool and both arms have one dtype.
    """
    test = _bool("if_then_else", condition)
    found = [dtype_of(ir.as_expr(arm)) for arm in (then, otherwise) if isinstance(arm, Operand)]
    is_float = isinstance(then, float) or isinstance(otherwise, float)
    like = found[0] if found else FLOAT32 if is_float else None
    a, b = _number(then, like), _number(otherwise, like)
    if dtype_of(a) != dtype_of(b):
        raise LanguageError(
            f"if_then_else chooses between {dtype_of(a)} and {dtype_of(b)}; cast one arm"
        )
    return Select(test, a, b)


def all_of(*conditions: ExprLike) -> Expr:
    """Return whether all `conditions` hold; each is evaluated."""
    return _joined(BinaryOp.AND, "all_of", conditions)


def any_of(*conditions: ExprLike) -> Expr:
    """Return whether one of `conditions` holds; each is evaluated."""
    return _joined(BinaryOp.OR, "any_of", conditions)


def logical_not(condition: ExprLike) -> Expr:
    """Return whether `condition` does not hold."""
    return ir.Not(_bool("logical_not", condition))


def equal(left: ExprLike, right: ExprLike) -> Expr:
    """Return whether two numbers of one dtype are equal (`==` compares the expressions)."""
    return ir.compare(CompareOp.EQ, left, right)


def not_equal(left: ExprLike, right: ExprLike) -> Expr:
    """Return whether two numbers of one dtype differ."""
    return ir.compare(CompareOp.NE, left, right)


def const(value: float, type: str | DType = "float32") -> Expr:
    """Return `value` as a literal; raise LanguageError where the dtype cannot hold it."""
    return ir.const(value, type if isinstance(type, DType) else dtype(type))


def cast(value: ExprLike, type: str | DType) -> Expr:
    """Return `value` converted as NumPy's `astype` does; `x.astype(type)` is the same.

    Floats go towards zero in an integer; what it cannot hold becomes its nearest value, NaN 0.
    """
    return ir.as_expr(value).astype(type)


def maximum(left: ExprLike, right: ExprLike) -> Expr:
    """Return the larger of two numbers of one dtype; NaN if one is NaN."""
    return ir.binary(BinaryOp.MAX, left, right)


def minimum(left: ExprLike, right: ExprLike) -> Expr:
    """Return the smaller of two numbers of one dtype; NaN if one is NaN."""
    return ir.binary(BinaryOp.MIN, left, right)


def exp(x: ExprLike) -> Expr:
    """Return e to the power of the float `x`."""
    return call("exp", x)


def exp2(x: ExprLike) -> Expr:
    """Return 2 to the power of the float `x`."""
    return call("exp2", x)


def expm1(x: ExprLike) -> Expr:
    """Return exp(x) - 1 of the float `x`, exact near 0."""
    return call("expm1", x)


def log(x: ExprLike) -> Expr:
    """Return the natural logarithm of the float `x`."""
    return call("log", x)


def log2(x: ExprLike) -> Expr:
    """Return the logarithm to base 2 of the float `x`."""
    return call("log2", x)


def log1p(x: ExprLike) -> Expr:
    """Return log(1 + x) of the float `x`, exact near 0."""
    return call("log1p", x)


def tanh(x: ExprLike) -> Expr:
    """Return the hyperbolic tangent of the float `x`."""
    return call("tanh", x)


def erf(x: ExprLike) -> Expr:
    """Return the error function of the float `x`."""
    return call("erf", x)


def sigmoid(x: ExprLike) -> Expr:
    """Return 1 / (1 + exp(-x)) of the float `x`."""
    return call("sigmoid", x)


def sqrt(x: ExprLike) -> Expr:
    """Return the square root of the float `x`."""
    return call("sqrt", x)


def rsqrt(x: ExprLike) -> Expr:
    """Return 1 / sqrt(x) of the float `x`."""
    return call("rsqrt", x)


def sin(x: ExprLike) -> Expr:
    """Return the sine of the float `x`."""
    return call("sin", x)


def cos(x: ExprLike) -> Expr:
    """Return the cosine of the float `x`."""
    return call("cos", x)


def abs(x: ExprLike) -> Expr:
    """Return the absolute value of a number."""
    expr = ir.as_expr(x)
    return call("abs", expr) if dtype_of(expr).is_float else maximum(expr, 0 - expr)


def floor(x: ExprLike) -> Expr:
    """Return the float `x` rounded down."""
    return call("floor", x)


def ceil(x: ExprLike) -> Expr:
    """Return the float `x` rounded up."""
    return call("ceil", x)


def round(x: ExprLike) -> Expr:
    """Return the float `x` rounded to the nearest integer, halves to the even one."""
    return call("round", x)


def power(base: ExprLike, exponent: ExprLike) -> Expr:
    """Return `base` to the power `exponent`, both floats of one dtype."""
    return call("pow", base, exponent)


def fmod(left: ExprLike, right: ExprLike) -> Expr:
    """Return what `left / right`, cut to an integer, leaves, with the sign of `left`, as C has it.

    It is exact, of floats as of integers. `%` has the sign of `right`.
    """
    a, b = ir.operands("fmod", left, right)
    if dtype_of(a).is_float:
        return call("fmod", a, b)
    return a % b if dtype_of(a).kind is Kind.UINT else a - truncated_divide(a, b) * b


def truncated_divide(left: ExprLike, right: ExprLike) -> Expr:
    """Return the quotient of two integers of one dtype, rounded towards 0 (`//` rounds it down)."""
    a, b = ir.operands("truncated_divide", left, right)
    if not dtype_of(a).is_integer:
        raise LanguageError(f"truncated_divide needs integers, not {dtype_of(a)}; use / on floats")
    floor = a // b
    if dtype_of(a).kind is Kind.UINT:
        return floor
    is_rounded = all_of(not_equal(a < 0, b < 0), not_equal(floor * b, a))
    return if_then_else(is_rounded, floor + 1, floor)


def _number(value: ExprLike, like: DType | None) -> Expr:
    if isinstance(value, float) and like is not None and not like.is_float:
        raise LanguageError(f"if_then_else chooses between {like} and {value}; cast one arm")
    return ir.as_expr(value, like)


def _bool(name: str, condition: ExprLike) -> Expr:
    expr = ir.as_expr(condition)
    if not dtype_of(expr).is_bool:
        raise LanguageError(f"{name} needs a bool, not {dtype_of(expr)}; compare first")
    return expr


def _joined(op: BinaryOp, name: str, conditions: tuple[ExprLike, ...]) -> Expr:
    if not conditions:
        raise LanguageError(f"{name} needs one condition or more")
    tests = [_bool(name, condition) for condition in conditions]
    return reduce(lambda left, right: ir.binary(op, left, right), tests)
