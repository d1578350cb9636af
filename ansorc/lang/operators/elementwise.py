"""Operators that compute each element from one element of each operand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ansorc.ir.expr import BinaryOp, Expr, Value, as_expr, binary, const
from ansorc.lang import scalar
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.shapes import axis_number, require
from ansorc.lang.tensor import Tensor

_RELU, _GELU, _SIGMOID, _TANH = (AutoName(n) for n in ("relu", "gelu", "sigmoid", "tanh"))
_ADD, _SUBTRACT, _MULTIPLY = (AutoName(n) for n in ("add", "subtract", "multiply"))
_DIVIDE, _BIAS_ADD, _BATCH_NORM = (AutoName(n) for n in ("divide", "bias_add", "batch_norm"))
_TRANSPOSE = AutoName("transpose")


def relu(data: Tensor, name: str = _RELU) -> Tensor:
    """Return max(data, 0), of the shape of `data`."""
    return _map(data, lambda x: scalar.maximum(x, 0), name)


def gelu(data: Tensor, name: str = _GELU) -> Tensor:
    """Return data * Phi(data), Phi the normal distribution (by erf), of the shape of `data`."""
    return _map(data, lambda x: x * 0.5 * (scalar.erf(x * 0.5**0.5) + 1.0), name)


def sigmoid(data: Tensor, name: str = _SIGMOID) -> Tensor:
    """Return 1 / (1 + exp(-data)), of the shape of `data`."""
    return _map(data, scalar.sigmoid, name)


def tanh(data: Tensor, name: str = _TANH) -> Tensor:
    """Return tanh(data), of the shape of `data`."""
    return _map(data, scalar.tanh, name)


def add(a: Tensor, b: Tensor, name: str = _ADD) -> Tensor:
    """Return a + b, broadcast as NumPy does; raise LanguageError on other shapes."""
    return _broadcast("add", a, b, BinaryOp.ADD, name)


def subtract(a: Tensor, b: Tensor, name: str = _SUBTRACT) -> Tensor:
    """Return a - b, broadcast as NumPy does; raise LanguageError on other shapes."""
    return _broadcast("subtract", a, b, BinaryOp.SUB, name)


def multiply(a: Tensor, b: Tensor, name: str = _MULTIPLY) -> Tensor:
    """Return a * b, broadcast as NumPy does; raise LanguageError on other shapes."""
    return _broadcast("multiply", a, b, BinaryOp.MUL, name)


def divide(a: Tensor, b: Tensor, name: str = _DIVIDE) -> Tensor:
    """Return a / b (floats), broadcast as NumPy does; raise LanguageError on other shapes."""
    return _broadcast("divide", a, b, BinaryOp.DIV, name)


def bias_add(data: Tensor, bias: Tensor, axis: int = -1, name: str = _BIAS_ADD) -> Tensor:
    """Return `data` plus bias [channels], the channels lying along `axis` of `data`.

    Raise LanguageError where the extents differ.
    """
    place = _channels("bias_add", data, axis, bias)
    return compute(data.shape, lambda *i: data[i] + bias[i[place]], name)


def batch_norm(
    data: Tensor, scale: Tensor, shift: Tensor, axis: int = -1, name: str = _BATCH_NORM
) -> Tensor:
    """Return data * scale + shift, both [channels], the channels lying along `axis` of `data`.

    That is batch normalisation in inference, with mean and variance folded in. Raise LanguageError
    where the extents differ.
    """
    place = _channels("batch_norm", data, axis, scale, shift)
    return compute(data.shape, lambda *i: data[i] * scale[i[place]] + shift[i[place]], name)


def transpose(data: Tensor, order: Sequence[int], name: str = _TRANSPOSE) -> Tensor:
    """Return `data` with its dimension order[d] as dimension d; raise LanguageError on others."""
    is_order = sorted(order) == list(range(len(data.shape)))
    require(is_order, "transpose", data, need=f"{tuple(order)} must list each dimension once")
    back = [list(order).index(place) for place in range(len(order))]
    shape = [data.shape[place] for place in order]
    return compute(shape, lambda *i: data[tuple(i[place] for place in back)], name)


def _map(data: Tensor, function: Callable[[Expr], Expr], name: str) -> Tensor:
    return compute(data.shape, lambda *i: function(data[i]), name)


def _channels(operator: str, data: Tensor, axis: int, *vectors: Tensor) -> int:
    place = axis_number(operator, data, axis)
    extent = data.shape[place]
    fits = all(vector.shape == (extent,) for vector in vectors)
    require(
        fits, operator, data, *vectors, need=f"axis {axis} has {extent} channels; use [{extent}]"
    )
    return place


def _broadcast(operator: str, a: Tensor, b: Tensor, op: BinaryOp, name: str) -> Tensor:
    rank = max(len(a.shape), len(b.shape))
    left, right = (1,) * (rank - len(a.shape)) + a.shape, (1,) * (rank - len(b.shape)) + b.shape
    pairs = list(zip(left, right, strict=True))
    fits = all(x == y or 1 in (x, y) for x, y in pairs)
    require(fits, operator, a, b, need="extents must be equal, or 1, from the last one on")
    shape = [max(pair) for pair in pairs]
    return compute(shape, lambda *i: binary(op, _at(a, i), _at(b, i)), name)


def _at(tensor: Tensor, indices: Sequence[Value]) -> Expr:
    own = indices[len(indices) - len(tensor.shape) :]
    pairs = zip(tensor.shape, own, strict=True)
    return tensor[tuple(const(0) if extent == 1 else as_expr(i) for extent, i in pairs)]
