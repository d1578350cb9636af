"""The derivative of each operator and math function, by its operands and its own value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, cast

from ansorc.errors import LanguageError
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Call,
    Cast,
    Checked,
    Compare,
    CompareOp,
    Const,
    Expr,
    OwnCall,
    const,
    dtype_of,
)
from ansorc.lang.gradient.terms import add, choose, convert, divide, negate, times, zero
from ansorc.lang.scalar_type import Scalar, ScalarLike, as_scalar

Flow = list[tuple[Expr, Expr]]
"""Operands, each with what flows back to it."""
Function = Callable[[tuple[Expr, ...], Expr, Expr], "tuple[Expr, ...]"]
"""From the operands, the value and what flows back to it, to what flows back to each operand."""


def flow_back(node: Expr, value: Expr, flow: Expr) -> Flow | None:
    """Return what flows back to each operand of `node` if `flow` does to it.

    `value` is an expression of the value of `node`. Return None if its derivative is not known.
    """
    match node:
        case Binary(op, left, right):
            rule = _BINARY.get(op)
            return None if rule is None else rule(left, right, flow)
        case OwnCall(_, args, function):
            return None if function.gradient is None else _own_flow(args, function.gradient, flow)
        case Call(name, args):
            function = FUNCTIONS.get(name)
            if function is None:
                return None
            return list(zip(args, function(args, value, flow), strict=True))
        case Cast(_, operand):
            return [(operand, convert(flow, dtype_of(operand)))]
        case Checked(operand):
            return [(operand, flow)]
        case _:
            return None


def _own_flow(args: tuple[Expr, ...], gradient: Callable[..., Any], flow: Expr) -> Flow:
    """Return what flows back through a function of the user's, whose derivatives are known."""
    given: object = gradient(*map(Scalar, args))
    shares = cast("tuple[ScalarLike, ...]", given if isinstance(given, tuple) else (given,))
    if len(shares) != len(args):
        raise LanguageError(
            f"the gradient of a function of {len(args)} operands returned {len(shares)} "
            "derivatives; return one for each"
        )
    slopes = [as_scalar(share, dtype_of(flow)).expr for share in shares]
    pairs = zip(args, slopes, strict=True)
    return [(arg, convert(times(flow, slope), dtype_of(arg))) for arg, slope in pairs]


def _product(left: Expr, right: Expr, flow: Expr) -> Flow:
    return [(left, times(flow, right)), (right, times(flow, left))]


def _quotient(left: Expr, right: Expr, flow: Expr) -> Flow:
    below = divide(times(flow, left), times(right, right))
    return [(left, divide(flow, right)), (right, negate(below))]


def _extreme(is_largest: bool) -> Callable[[Expr, Expr, Expr], Flow]:  # noqa: FBT001
    """Return the rule of max or min: of equal operands the one without a number is left out."""

    def rule(left: Expr, right: Expr, flow: Expr) -> Flow:
        beyond = CompareOp.GT if is_largest else CompareOp.LT
        strict = isinstance(right, Const)
        op = beyond if strict else CompareOp.GE if is_largest else CompareOp.LE
        is_left, nothing = Compare(op, left, right), zero(dtype_of(flow))
        return [(left, choose(is_left, flow, nothing)), (right, choose(is_left, nothing, flow))]

    return rule


_BINARY: Mapping[BinaryOp, Callable[[Expr, Expr, Expr], Flow]] = {
    BinaryOp.ADD: lambda a, b, g: [(a, g), (b, g)],
    BinaryOp.SUB: lambda a, b, g: [(a, g), (b, negate(g))],
    BinaryOp.MUL: _product,
    BinaryOp.DIV: _quotient,
    BinaryOp.MAX: _extreme(is_largest=True),
    BinaryOp.MIN: _extreme(is_largest=False),
}


def _number(value: float, like: Expr) -> Expr:
    return const(value, dtype_of(like))


def _square(x: Expr) -> Expr:
    return times(x, x)


def _one_minus(x: Expr) -> Expr:
    return add(_number(1, x), negate(x))


def _call(name: str, *args: Expr) -> Expr:
    return Call(name, args)


def _sign(x: Expr, flow: Expr) -> Expr:
    nothing = _number(0, x)
    below = choose(Compare(CompareOp.LT, x, nothing), negate(flow), zero(dtype_of(flow)))
    return choose(Compare(CompareOp.GT, x, nothing), flow, below)


def _pow(args: tuple[Expr, ...], y: Expr, g: Expr) -> tuple[Expr, ...]:
    base, exponent = args
    if isinstance(exponent, Const):
        lower = _call("pow", base, _number(exponent.value - 1, base))
    else:
        lower = _call("pow", base, add(exponent, _number(-1, exponent)))
    is_zero = Compare(CompareOp.EQ, base, _number(0, base))
    of_exponent = choose(is_zero, zero(dtype_of(g)), times(times(g, y), _call("log", base)))
    return times(times(g, exponent), lower), of_exponent


def _copysign(args: tuple[Expr, ...], y: Expr, g: Expr) -> tuple[Expr, ...]:
    size, nothing = args[0], zero(dtype_of(g))
    is_zero = Compare(CompareOp.EQ, size, _number(0, size))
    return choose(is_zero, nothing, times(g, divide(y, size))), nothing


def _remainder(args: tuple[Expr, ...], y: Expr, g: Expr) -> tuple[Expr, ...]:
    """y is a - n b with a whole n, so it falls by n, (a - y) / b, with b."""
    dividend, divisor = args
    return g, divide(times(g, add(y, negate(dividend))), divisor)


_LN2 = math.log(2)
FUNCTIONS: Mapping[str, Function] = {
    "exp": lambda x, y, g: (times(g, y),),
    "exp2": lambda x, y, g: (times(_number(_LN2, g), times(g, y)),),
    "expm1": lambda x, y, g: (times(g, add(y, _number(1, y))),),
    "log": lambda x, y, g: (divide(g, x[0]),),
    "log2": lambda x, y, g: (times(_number(1 / _LN2, g), divide(g, x[0])),),
    "log1p": lambda x, y, g: (divide(g, add(_number(1, x[0]), x[0])),),
    "tanh": lambda x, y, g: (times(g, _one_minus(_square(y))),),
    "erf": lambda x, y, g: (
        times(_number(2 / math.sqrt(math.pi), g), times(g, _call("exp", negate(_square(x[0]))))),
    ),
    "sigmoid": lambda x, y, g: (times(g, times(y, _one_minus(y))),),
    "sqrt": lambda x, y, g: (times(_number(0.5, g), divide(g, y)),),
    "rsqrt": lambda x, y, g: (times(_number(-0.5, g), divide(times(g, y), x[0])),),
    "sin": lambda x, y, g: (times(g, _call("cos", x[0])),),
    "cos": lambda x, y, g: (negate(times(g, _call("sin", x[0]))),),
    "abs": lambda x, y, g: (_sign(x[0], g),),
    "floor": lambda x, y, g: (zero(dtype_of(g)),),
    "ceil": lambda x, y, g: (zero(dtype_of(g)),),
    "round": lambda x, y, g: (zero(dtype_of(g)),),
    "trunc": lambda x, y, g: (zero(dtype_of(g)),),
    "copysign": _copysign,
    "floor_divide": lambda x, y, g: (zero(dtype_of(g)), zero(dtype_of(g))),
    "pow": _pow,
    "fmod": _remainder,
    "mod": _remainder,
    "fma": lambda x, y, g: (times(g, x[1]), times(g, x[0]), g),
}
"""The derivatives of math functions; of those that round to whole numbers it is 0."""
