"""Functions of each element, and of two broadcast elements, that graphs have by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ansorc.graph.operators.bits import BITS_OF_ONE, BITS_OF_TWO
from ansorc.ir.dtype import Kind
from ansorc.lang import scalar
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.elementwise import element_at
from ansorc.lang.operators.shapes import broadcast_shape
from ansorc.lang.scalar import const
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor
from ansorc.lang.trigonometry import TRIGONOMETRIC, atan2, copysign


def _abs(x: Scalar) -> Scalar:
    return x if x.dtype.kind is Kind.UINT else scalar.abs(x)


def _sign(x: Scalar) -> Scalar:
    below = x if x.dtype.kind is Kind.UINT else const(-1, x.dtype)
    return scalar.if_then_else(x > 0, const(1, x.dtype), scalar.if_then_else(x < 0, below, x))


def _remainder(a: Scalar, b: Scalar) -> Scalar:
    """Return the rest of a division of floats as PyTorch does: with the sign of `b`, zeros of `a`.

    Where it is zero `a` is finite, so a times 0 is the zero with its sign.
    """
    rest = a % b
    return scalar.if_then_else(rest == 0, a * 0, rest)


def _without_nan(choose: Callable[[Scalar, Scalar], Scalar]) -> Callable[[Scalar, Scalar], Scalar]:
    """The larger or smaller of two numbers; of one and no number the number."""

    def function(a: Scalar, b: Scalar) -> Scalar:
        chosen = scalar.if_then_else(scalar.not_equal(b, b), a, choose(a, b))
        return scalar.if_then_else(scalar.not_equal(a, a), b, chosen)

    return function


_UNARY: Mapping[str, Callable[[Scalar], Scalar]] = {
    "abs": _abs,
    "ceil": scalar.ceil,
    "copy": lambda x: x,
    "cos": scalar.cos,
    "erf": scalar.erf,
    "exp": scalar.exp,
    "exp2": scalar.exp2,
    "expm1": scalar.expm1,
    "floor": scalar.floor,
    "isnan": lambda x: scalar.not_equal(x, x),
    "log": scalar.log,
    "log1p": scalar.log1p,
    "log2": scalar.log2,
    "logical_not": scalar.logical_not,
    "negative": lambda x: -x,
    "reciprocal": lambda x: 1.0 / x,
    "round": scalar.round,
    "rsqrt": scalar.rsqrt,
    "sign": _sign,
    "sin": scalar.sin,
    "sqrt": scalar.sqrt,
    **TRIGONOMETRIC,
    **BITS_OF_ONE,
}
_BINARY: Mapping[str, Callable[[Scalar, Scalar], Scalar]] = {
    "atan2": atan2,
    "copysign": copysign,
    "equal": scalar.equal,
    "floor_divide": lambda a, b: a // b,
    "floor_mod": lambda a, b: a % b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "logical_and": scalar.all_of,
    "logical_or": scalar.any_of,
    "logical_xor": scalar.not_equal,
    "maximum_number": _without_nan(scalar.maximum),
    "minimum_number": _without_nan(scalar.minimum),
    "not_equal": scalar.not_equal,
    "remainder": _remainder,
    "truncated_divide": scalar.truncated_divide,
    "truncated_mod": scalar.fmod,
    **BITS_OF_TWO,
}


def _unary(name: str, function: Callable[[Scalar], Scalar]) -> Callable[[Tensor], Tensor]:
    def define(data: Tensor) -> Tensor:
        return compute(data.shape, lambda *i: function(data[i]), AutoName(name))

    return define


def _binary(
    name: str, function: Callable[[Scalar, Scalar], Scalar]
) -> Callable[[Tensor, Tensor], Tensor]:
    def define(a: Tensor, b: Tensor) -> Tensor:
        shape = broadcast_shape(name, a, b)
        return compute(
            shape, lambda *i: function(element_at(a, i), element_at(b, i)), AutoName(name)
        )

    return define


ELEMENTWISE: Mapping[str, Callable[..., Tensor]] = {
    **{name: _unary(name, function) for name, function in _UNARY.items()},
    **{name: _binary(name, function) for name, function in _BINARY.items()},
}
"""Definitions by the name of their operator."""
