"""ATen's operators on single elements, and on pairs of broadcast ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ansorc.graph.torch.model import TorchRef
from ansorc.graph.torch.torch_call import TorchCall, TorchConverter
from ansorc.ir.dtype import BOOL, FLOAT32, INT64, DType, Kind, dtype


def _plain(operator: str) -> TorchConverter:
    """An operator on one tensor, in the dtype of the result."""
    return lambda call: call.add(operator, [call.input("self", call.result.dtype)])


def _rounding(operator: str) -> TorchConverter:
    """An operator that integers stay as they are under."""

    def convert(call: TorchCall) -> str:
        data = call.input("self", call.result.dtype)
        return call.add(operator, [data]) if call.result.dtype.is_float else data

    return convert


def _pair(call: TorchCall, kind: DType) -> list[str]:
    """Both factors of a pair, the second times alpha, in the dtype `kind`."""
    left, right = call.input("self", kind), call.input("other", kind)
    alpha = call.get("alpha", 1)
    if alpha != 1:
        right = call.add("multiply", [right, call.scalar(alpha, right)])
    return [left, right]


def _binary(operator: str, of_bools: str = "") -> TorchConverter:
    """An operator on two tensors, or on one and a number, in the dtype of the result."""

    def convert(call: TorchCall) -> str:
        kind = call.result.dtype
        return call.add(of_bools if kind.is_bool and of_bools else operator, _pair(call, kind))

    return convert


def _reversed_subtract(call: TorchCall) -> str:
    left, right = _pair(call, call.result.dtype)
    kind, alpha = call.result.dtype, call.get("alpha", 1)
    if alpha != 1:
        left = call.add("multiply", [call.input("self", kind), call.scalar(alpha, left)])
        right = call.input("other", kind)
    return call.add("subtract", [right, left])


def _common(call: TorchCall) -> DType:
    """The dtype in which two tensors, or one and a number, are compared."""
    kinds = [call.type(name).dtype for name in ("self", "other")]
    ranks = [2 if kind.is_float else 0 if kind.is_bool else 1 for kind in kinds]
    weak = [
        not isinstance(call.get(name), TorchRef) or not call.type(name).shape
        for name in ("self", "other")
    ]
    if ranks[0] != ranks[1]:
        strongest = ranks.index(max(ranks))
        is_number = call.is_number(("self", "other")[strongest])
        return FLOAT32 if is_number and ranks[strongest] == 2 else kinds[strongest]
    if weak[0] != weak[1]:
        return kinds[weak.index(False)]
    return dtype(np.promote_types(kinds[0].numpy, kinds[1].numpy).name)


def _compare(operator: str) -> TorchConverter:
    return lambda call: call.add(operator, _pair(call, _common(call)))


def _logical(operator: str) -> TorchConverter:
    return lambda call: call.add(operator, _pair(call, BOOL))


def _bitwise(operator: str, of_bools: str) -> TorchConverter:
    def convert(call: TorchCall) -> str:
        kind = call.result.dtype
        return call.add(of_bools if kind.is_bool else operator, _pair(call, kind))

    return convert


def _not(call: TorchCall) -> str:
    return call.add("logical_not", [call.input("self", BOOL)])


def _bitwise_not(call: TorchCall) -> str:
    is_bool = call.result.dtype.is_bool
    return call.add("logical_not" if is_bool else "bitwise_not", [call.input("self")])


def _divide(call: TorchCall) -> str:
    mode, kind = call.get("rounding_mode"), call.result.dtype
    if mode not in (None, "floor", "trunc"):
        call.refuse(f"there is no rounding mode '{mode}'")
    left, right = _pair(call, kind)
    if mode is None:
        return call.add("divide", [left, right])
    return call.add("floor_divide", [left, right]) if mode == "floor" else _cut(call, left, right)


def _cut(call: TorchCall, left: str, right: str) -> str:
    """left / right, rounded towards 0."""
    if not call.builder.type(left).dtype.is_float:
        return call.add("truncated_divide", [left, right])
    return _towards_zero(call, call.add("divide", [left, right]))


def _towards_zero(call: TorchCall, data: str) -> str:
    size = call.add("floor", [call.add("abs", [data])])
    return call.add("multiply", [call.add("sign", [data]), size])


def _trunc(call: TorchCall) -> str:
    data = call.input("self", call.result.dtype)
    return _towards_zero(call, data) if call.result.dtype.is_float else data


def _remainder(call: TorchCall) -> str:
    operator = "remainder" if call.result.dtype.is_float else "floor_mod"
    return call.add(operator, _pair(call, call.result.dtype))


def _power(call: TorchCall) -> str:
    kind, known = call.result.dtype, call.value("exponent")
    number = call.get("exponent")
    if kind.is_integer and isinstance(number, int) and number < 0:
        call.refuse("PyTorch has no powers of integers with a negative number as their exponent")
    if known is not None and known.size == 1 and known.ndim == 0 and call.has("self"):
        short = _short_power(call, float(known.item()))
        if short:
            return short
    computed = kind if kind.is_float or kind.kind is Kind.UINT else INT64
    power = call.add("power", [call.input(name, computed) for name in ("self", "exponent")])
    return call.convert(power, kind)


def _short_power(call: TorchCall, exponent: float) -> str:
    """The node for an exponent that needs no logarithm, "" for others."""
    base, kind = call.input("self", call.result.dtype), call.result.dtype
    if exponent == 1:
        return base
    square = call.add("multiply", [base, base]) if exponent in (2, 3, 4) else ""
    if exponent == 2:
        return square
    if exponent in (3, 4):
        return call.add("multiply", [square, base if exponent == 3 else square])
    roots = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}
    return call.add(roots[exponent], [base]) if exponent in roots and kind.is_float else ""


def _clamp(call: TorchCall) -> str:
    kind, data = call.result.dtype, call.input("self", call.result.dtype)
    low, high = call.get("min"), call.get("max")
    numbers = isinstance(low, (int, float)) and isinstance(high, (int, float))
    if numbers and kind.is_float and low <= high:
        return call.add("clip", [data], low=float(low), high=float(high))
    for operator, bound in (("maximum", low), ("minimum", high)):
        if bound is not None:
            data = call.add(operator, [data, call.tensor(bound, kind)])
    return data


def _where(call: TorchCall) -> str:
    kind = call.result.dtype
    return call.add("where", [call.input("condition", BOOL), *_pair(call, kind)])


def _masked_fill(call: TorchCall) -> str:
    kind = call.result.dtype
    inputs = [call.input("mask", BOOL), call.input("value", kind), call.input("self", kind)]
    return call.add("where", inputs)


def _as_it_is(call: TorchCall) -> str:
    return call.input("self", call.result.dtype)


def _to_copy(call: TorchCall) -> str:
    """A conversion; one to floats of 16 bits rounds, though they are computed in float32."""
    data, narrow = _as_it_is(call), call.narrow_result
    if not narrow:
        return data
    return call.convert(call.convert(data, dtype(narrow)), call.result.dtype)


def _sign(call: TorchCall) -> str:
    """-1, 0 or 1; 0 for NaN and -0, as PyTorch has it."""
    data, kind = _as_it_is(call), call.result.dtype
    if not kind.is_float:
        return data if kind.is_bool else call.add("sign", [data])
    zero = call.scalar(0, data)
    signs = [
        call.convert(call.add(operator, [data, zero]), kind) for operator in ("greater", "less")
    ]
    return call.add("subtract", signs)


def _sign_bit(call: TorchCall) -> str:
    data, kind = call.input("self"), call.type("self").dtype
    if kind.is_bool:
        data, kind = call.convert(data, INT64), INT64
    if kind.is_float:
        data = call.add("copysign", [call.scalar(1, data), data])
    return call.add("less", [data, call.scalar(0, data)])


def _product_and_sum(call: TorchCall) -> str:
    left, right, term = (call.input(name, call.result.dtype) for name in ("a", "b", "c"))
    return call.add("add", [call.add("multiply", [left, right]), term])


def _shift(operator: str) -> TorchConverter:
    """A shift of bits; by a negative number it is one by all bits, as in PyTorch."""

    def convert(call: TorchCall) -> str:
        data, by = _pair(call, call.result.dtype)
        kind = call.result.dtype
        is_arithmetic = operator == "shift_right" and kind.kind is Kind.INT
        most = call.scalar(kind.bits - 1 if is_arithmetic else kind.bits, by)
        if kind.kind is Kind.INT:
            is_negative = call.add("less", [by, call.scalar(0, by)])
            by = call.add("where", [is_negative, most, by])
        return call.add(operator, [data, call.add("minimum", [by, most])])

    return convert


def _isinf(call: TorchCall) -> str:
    kind = call.type("self").dtype
    return call.add("isinf", [call.input("self", kind if kind.is_float else FLOAT32)])


def _isfinite(call: TorchCall) -> str:
    data = call.input("self")
    if not call.type("self").dtype.is_float:
        return call.add("equal", [data, data])
    infinite, nan = call.add("isinf", [data]), call.add("isnan", [data])
    return call.add("logical_not", [call.add("logical_or", [infinite, nan])])


def _addcmul(operator: str) -> TorchConverter:
    def convert(call: TorchCall) -> str:
        kind = call.result.dtype
        term = call.add(operator, [call.input("tensor1", kind), call.input("tensor2", kind)])
        if call.get("value", 1) != 1:
            term = call.add("multiply", [term, call.scalar(call.get("value"), term)])
        return call.add("add", [call.input("self", kind), term])

    return convert


def _log10(call: TorchCall) -> str:
    natural = call.add("log", [call.input("self", call.result.dtype)])
    return call.add("multiply", [natural, call.scalar(1 / math.log(10), natural)])


def _scale_by_power(call: TorchCall) -> str:
    data, exponent = _pair(call, call.result.dtype)
    return call.add("multiply", [data, call.add("exp2", [exponent])])


def _hypotenuse(call: TorchCall) -> str:
    """The root of the sum of two squares, none of which overflows."""
    sides = [call.add("abs", [side]) for side in _pair(call, call.result.dtype)]
    longer, shorter = (call.add(which, sides) for which in ("maximum", "minimum"))
    is_zero = call.add("equal", [longer, call.scalar(0, longer)])
    one = call.scalar(1, longer)
    share = call.add("divide", [shorter, call.add("where", [is_zero, one, longer])])
    root = call.add("sqrt", [call.add("add", [call.add("multiply", [share, share]), one])])
    infinite = call.add("logical_or", [call.add("isinf", [side]) for side in sides])
    size = call.add("multiply", [longer, root])
    return call.add("where", [infinite, call.scalar(math.inf, size), size])


def _round_decimals(call: TorchCall) -> str:
    data, decimals = call.input("self", call.result.dtype), int(call.get("decimals", 0))
    if not decimals or not call.result.dtype.is_float:
        return call.add("round", [data]) if call.result.dtype.is_float else data
    ten = call.scalar(10.0 ** abs(decimals), data)
    there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    return call.add(back, [call.add("round", [call.add(there, [data, ten])]), ten])


def _fake_quantize(call: TorchCall) -> Sequence[str]:
    """Return floats as they are after they were quantised, as PyTorch rounds."""
    if call.has("fake_quant_enabled"):
        enabled = call.value("fake_quant_enabled")
        if enabled is None:
            call.refuse(
                "whether it quantises is not known at import; make fake_quant_enabled a buffer"
            )
        if not enabled.any():
            return [call.input("self", call.result.dtype)]
    if 1 in call.node.used:
        call.refuse("its mask is not supported; call module.eval() before")
    data, *given = (call.input(name, call.result.dtype) for name in ("self", "scale", "zero_point"))
    scale, zero = (call.reshape(parameter, []) for parameter in given)
    low, high = float(call.get("quant_min")), float(call.get("quant_max"))
    whole = call.add("round", [call.add("multiply", [data, call.add("reciprocal", [scale])])])
    seen = call.add("clip", [call.add("add", [whole, zero])], low=low, high=high)
    return [call.add("multiply", [call.add("subtract", [seen, zero]), scale])]


def _overloads(
    converters: Mapping[str, TorchConverter], *overloads: str
) -> dict[str, TorchConverter]:
    return {
        f"{name}.{overload}": converter
        for name, converter in converters.items()
        for overload in overloads
    }


_UNARY = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "exp2",
    "expm1", "log", "log1p", "log2", "reciprocal", "rsqrt", "sigmoid", "sin", "sinh", "sqrt",
    "tan", "tanh",
)  # fmt: skip
_COMPARISONS = {
    "eq": "equal", "ge": "greater_equal", "gt": "greater", "le": "less_equal", "lt": "less",
    "ne": "not_equal",
}  # fmt: skip
_SHIFTS = ("Tensor", "Tensor_Scalar", "Scalar_Tensor")
_KEPT_AS_THEY_ARE = ("alias", "clone", "contiguous", "detach", "lift_fresh_copy", "positive")

TORCH_ELEMENTWISE: Mapping[str, TorchConverter] = {
    **_overloads({name: _plain(name) for name in _UNARY}, "default"),
    **_overloads({"neg": _plain("negative"), "sign": _sign}, "default"),
    **_overloads({"signbit": _sign_bit}, "default"),
    **_overloads({"__lshift__": _shift("shift_left")}, "Scalar", "Tensor"),
    **_overloads({"__rshift__": _shift("shift_right")}, "Scalar", "Tensor"),
    **_overloads({"bitwise_left_shift": _shift("shift_left")}, *_SHIFTS),
    **_overloads({"bitwise_right_shift": _shift("shift_right")}, *_SHIFTS),
    **_overloads({name: _rounding(name) for name in ("ceil", "floor", "round")}, "default"),
    **_overloads({k: _compare(v) for k, v in _COMPARISONS.items()}, "Scalar", "Tensor"),
    **_overloads(
        {
            "add": _binary("add", "logical_or"),
            "bitwise_and": _bitwise("bitwise_and", "logical_and"),
            "bitwise_or": _bitwise("bitwise_or", "logical_or"),
            "bitwise_xor": _bitwise("bitwise_xor", "logical_xor"),
            "div": _divide,
            "fmod": _binary("truncated_mod"),
            "mul": _binary("multiply", "logical_and"),
            "remainder": _remainder,
            "rsub": _reversed_subtract,
            "sub": _binary("subtract"),
        },
        "Scalar",
        "Tensor",
    ),
    **_overloads(dict.fromkeys(_KEPT_AS_THEY_ARE, _as_it_is), "default"),
    **_overloads({"logical_and": _logical("logical_and")}, "default"),
    **_overloads({"logical_or": _logical("logical_or")}, "default"),
    **_overloads({"logical_xor": _logical("logical_xor")}, "default"),
    "_to_copy.default": _to_copy,
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default": _fake_quantize,
    **_overloads({"copysign": _binary("copysign")}, "Scalar", "Tensor"),
    "addcdiv.default": _addcmul("divide"),
    "addcmul.default": _addcmul("multiply"),
    "atan2.default": _binary("atan2"),
    "bitwise_not.default": _bitwise_not,
    "clamp.Tensor": _clamp,
    "clamp.default": _clamp,
    "clamp_max.default": _clamp,
    "clamp_min.default": _clamp,
    "div.Scalar_mode": _divide,
    "div.Tensor_mode": _divide,
    "fake_quantize_per_tensor_affine_cachemask.default": _fake_quantize,
    "floor_divide.default": _binary("floor_divide"),
    "fmax.default": _binary("maximum_number"),
    "fmin.default": _binary("minimum_number"),
    "hypot.default": _hypotenuse,
    "isfinite.default": _isfinite,
    "isinf.default": _isinf,
    "isnan.default": lambda call: call.add("isnan", [call.input("self")]),
    "ldexp.Tensor": _scale_by_power,
    "log10.default": _log10,
    "logical_not.default": _not,
    "masked_fill.Scalar": _masked_fill,
    "masked_fill.Tensor": _masked_fill,
    "maximum.default": _binary("maximum", "logical_or"),
    "minimum.default": _binary("minimum", "logical_and"),
    "pow.Scalar": _power,
    "pow.Tensor_Scalar": _power,
    "pow.Tensor_Tensor": _power,
    "remainder.Scalar_Tensor": _remainder,
    "round.decimals": _round_decimals,
    "trunc.default": _trunc,
    "where.self": _where,
}

PRIMS_ELEMENTWISE: Mapping[str, TorchConverter] = {"fma.default": _product_and_sum}
"""Converters of the operators that PyTorch decomposes others into."""
