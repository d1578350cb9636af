"""ONNX operators on single elements, and on pairs of broadcast ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ansorc.graph.onnx.model import numpy_name
from ansorc.graph.onnx.node_call import Converter, NodeCall
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import FLOAT32, FLOAT64, INT64, DType, Kind, dtype

_COMPUTED_IN_FLOAT32 = ("float16", "bfloat16")
_LONGEST_CHAIN = 16
"""Inputs that are joined one after another, in the order of the file."""


def _plain(operator: str) -> Converter:
    """A node with the inputs of an operator of graphs, and no attributes."""
    return lambda call: call.add(operator, _align_inputs(call))


def _align_inputs(call: NodeCall) -> list[str]:
    """The inputs; before opset 7 the second is broadcast from the dimension `axis` on."""
    axis = call.attribute("axis") if call.opset < 7 else None
    if axis is None or call.count < 2:
        return call.inputs()
    rank, shape = call.rank(0), call.type(1).shape
    ones = (1,) * (rank - call.axis(axis, rank) - len(shape))
    return [call.input(0), call.add("reshape", [call.input(1)], shape=[*shape, *ones])]


def _of_integers(floats: str, integers: str) -> Converter:
    """One operator for floats, another one for integers."""

    def convert(call: NodeCall) -> str:
        is_float = call.type(0).dtype.is_float
        return call.add(floats if is_float else integers, _align_inputs(call))

    return convert


def _rounding(operator: str) -> Converter:
    """An operator that integers stay as they are under."""

    def convert(call: NodeCall) -> str:
        is_float = call.type(0).dtype.is_float
        return call.add(operator, [call.input(0)]) if is_float else call.input(0)

    return convert


def _chain(operator: str) -> Converter:
    """One node for each input after the first, joined in halves where there are many."""

    def convert(call: NodeCall) -> str:
        def join(first: int, last: int) -> str:
            if last - first > _LONGEST_CHAIN:
                middle = (first + last) // 2
                return call.add(operator, [join(first, middle), join(middle, last)])
            result = call.input(first)
            for index in range(first + 1, last):
                result = call.add(operator, [result, call.input(index)])
            return result

        return join(0, call.count)

    return convert


def _mean(call: NodeCall) -> str:
    total = _chain("add")(call)
    assert isinstance(total, str)
    return call.add("multiply", [total, call.scalar(1.0 / call.count, total)])


def _mod(call: NodeCall) -> str:
    is_truncated = bool(call.attribute("fmod", 0))
    if not is_truncated and call.type(0).dtype.is_float:
        call.refuse("Mod of floats needs fmod=1")
    return call.add("truncated_mod" if is_truncated else "floor_mod", call.inputs())


def _pow(call: NodeCall) -> str:
    base, exponent = call.input(0), call.input(1)
    kind, known = call.type(0).dtype, call.value(1)
    if known is not None and known.size == 1 and known.ndim <= call.rank(0):
        short = _short_power(call, float(known.item()))
        if short:
            return short
    wide = _power_type(kind, call.type(1).dtype, known)
    return _as(
        call, call.add("power", [_as(call, factor, wide) for factor in (base, exponent)]), kind
    )


def _power_type(base: DType, exponent: DType, known: Array | None) -> DType:
    """Return the dtype that holds both exactly: a rounded exponent may be even instead of odd."""
    if base.is_float:
        fits = exponent.is_float or exponent.bits < 32
        fits = fits or (known is not None and bool((known.astype(base.numpy) == known).all()))
        return base if fits else FLOAT64
    is_whole = known is not None and bool(
        (np.mod(known, 1) == 0).all() and abs(known).max() < 2**53
    )
    return INT64 if exponent.is_integer or is_whole else FLOAT64


def _short_power(call: NodeCall, exponent: float) -> str:
    """The node for an exponent that needs no logarithm, "" for others."""
    base = call.input(0)
    if exponent == 1:
        return base
    if exponent == 2:
        return call.add("multiply", [base, base])
    if exponent == 3:
        return call.add("multiply", [call.add("multiply", [base, base]), base])
    roots = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}
    is_root = exponent in roots and call.type(0).dtype.is_float
    return call.add(roots[exponent], [base]) if is_root else ""


def _as(call: NodeCall, name: str, kind: DType) -> str:
    """`name`, converted to `kind` if it is not."""
    if call.builder.type(name).dtype == kind:
        return name
    return call.add("cast", [name], dtype=str(kind))


def _cast(call: NodeCall) -> str:
    return _convert_input(call, numpy_name(call.attribute("to")))


def _cast_like(call: NodeCall) -> str:
    return _convert_input(call, str(call.type(1).dtype))


def _convert_input(call: NodeCall, name: str) -> str:
    """Input 0 as `name`: floats of 16 bits, which are computed in float32, are rounded here."""
    if name not in _COMPUTED_IN_FLOAT32:
        return _as(call, call.input(0), dtype(name))
    return _as(call, _as(call, call.input(0), dtype(name)), FLOAT32)


def _clip(call: NodeCall) -> str:
    data = call.input(0)
    if call.opset < 11:
        low, high = call.attribute("min"), call.attribute("max")
        bounds = [None if limit is None else call.scalar(limit, data) for limit in (low, high)]
    else:
        bounds = [call.input(index) if call.has(index) else None for index in (1, 2)]
    for operator, bound in zip(("maximum", "minimum"), bounds, strict=True):
        if bound is not None:
            data = call.add(operator, [data, bound])
    return data


def _shift(call: NodeCall) -> str:
    if call.type(0).dtype.kind is not Kind.UINT:
        call.refuse("BitShift is for unsigned integers")
    return call.add(f"shift_{str(call.attribute('direction')).lower()}", call.inputs())


def _isinf(call: NodeCall) -> str:
    return call.add(
        "isinf",
        [call.input(0)],
        positive=bool(call.attribute("detect_positive", 1)),
        negative=bool(call.attribute("detect_negative", 1)),
    )


def _dropout(call: NodeCall) -> list[str | np.ndarray]:
    ratio = call.value(1) if call.has(1) else np.asarray(call.attribute("ratio", 0.5))
    training = call.require_known(2, "whether it trains") if call.has(2) else np.asarray(False)
    if training.item() and (ratio is None or ratio.item() != 0):
        call.refuse("it is in training mode; export the network for inference")
    return [call.input(0), np.ones(call.type(0).shape, np.bool_)]


_SAME = {
    "Acos": "acos", "Acosh": "acosh", "Add": "add", "And": "logical_and", "Asin": "asin",
    "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh", "BitwiseAnd": "bitwise_and",
    "BitwiseNot": "bitwise_not", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor",
    "Abs": "abs", "Cos": "cos", "Cosh": "cosh", "Equal": "equal", "Erf": "erf", "Exp": "exp",
    "Greater": "greater", "GreaterOrEqual": "greater_equal", "IsNaN": "isnan", "Less": "less",
    "LessOrEqual": "less_equal", "Log": "log", "Mul": "multiply", "Neg": "negative",
    "Not": "logical_not", "Or": "logical_or", "Reciprocal": "reciprocal", "Sign": "sign",
    "Sin": "sin", "Sinh": "sinh", "Sqrt": "sqrt", "Sub": "subtract", "Tan": "tan",
    "Where": "where", "Xor": "logical_xor",
}  # fmt: skip

ELEMENTWISE: Mapping[str, Converter] = {
    **{name: _plain(operator) for name, operator in _SAME.items()},
    "BitShift": _shift,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Ceil": _rounding("ceil"),
    "Clip": _clip,
    "Div": _of_integers("divide", "truncated_divide"),
    "Dropout": _dropout,
    "Floor": _rounding("floor"),
    "IsInf": _isinf,
    "Max": _chain("maximum"),
    "Mean": _mean,
    "Min": _chain("minimum"),
    "Mod": _mod,
    "Pow": _pow,
    "Round": _rounding("round"),
    "Sum": _chain("add"),
}
