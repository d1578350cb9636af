"""Functions of each element, and of two broadcast elements, that graphs have by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ansorc.ir.expr import Expr
from ansorc.lang import scalar
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.elementwise import element_at
from ansorc.lang.operators.shapes import broadcast_shape
from ansorc.lang.tensor import Tensor

_UNARY: Mapping[str, Callable[[Expr], Expr]] = {
    "abs": scalar.abs,
    "ceil": scalar.ceil,
    "copy": lambda x: x,
    "cos": scalar.cos,
    "erf": scalar.erf,
    "exp": scalar.exp,
    "exp2": scalar.exp2,
    "expm1": scalar.expm1,
    "floor": scalar.floor,
    "log": scalar.log,
    "log1p": scalar.log1p,
    "log2": scalar.log2,
    "logical_not": scalar.logical_not,
    "negative": lambda x: 0 - x,
    "reciprocal": lambda x: 1.0 / x,
    "round": scalar.round,
    "rsqrt": scalar.rsqrt,
    "sin": scalar.sin,
    "sqrt": scalar.sqrt,
}
_BINARY: Mapping[str, Callable[[Expr, Expr], Expr]] = {
    "equal": scalar.equal,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "logical_and": scalar.all_of,
    "logical_or": scalar.any_of,
    "not_equal": scalar.not_equal,
}


def _unary(name: str, function: Callable[[Expr], Expr]) -> Callable[[Tensor], Tensor]:
    def define(data: Tensor) -> Tensor:
        return compute(data.shape, lambda *i: function(data[i]), AutoName(name))

    return define


def _binary(
    name: str, function: Callable[[Expr, Expr], Expr]
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
