"""Random nodes of operators on single elements, on pairs of them, and reductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto

from ansorc.ir.aligned import Array
from tests.graph.onnx.node_case import INTEGERS, CaseMaker, Draw, NodeCase

FLOATS = ("float32", "float32", "float64")


def _unary(
    low: float = -3.0, high: float = 3.0, tolerance: float = 1e-5, **given: tuple[float, float]
) -> CaseMaker:
    """Floats between two numbers; attributes are drawn from pairs."""

    def make(draw: Draw) -> NodeCase:
        x = np.asarray(draw.rng.uniform(low, high, draw.shape()), "float32")
        attributes = {
            n: float(draw.rng.uniform(*pair)) for n, pair in given.items() if draw.chance()
        }
        return NodeCase([x], attributes, tolerance=tolerance)

    return make


def _strange(kinds: Sequence[str] = ("float32", "float64")) -> CaseMaker:
    """Operators that NaN and infinities are nothing strange to."""

    def make(draw: Draw) -> NodeCase:
        kind = draw.one_of(*kinds)
        shape = draw.shape()
        x = draw.any_ints(kind, *shape) if "int" in kind else draw.strange(*shape, kind=kind)
        return NodeCase([x])

    return make


def _signed_kinds(since: int) -> CaseMaker:
    """Floats, and from a version on integers with a sign."""

    def make(draw: Draw) -> NodeCase:
        kinds = (
            ("float32", "float64", "int8", "int32", "int64")
            if draw.opset >= since
            else ("float32",)
        )
        return _strange(kinds)(draw)

    return make


def _pair(draw: Draw, kinds: Sequence[str]) -> tuple[Array, Array]:
    shape = draw.shape()
    kind = draw.one_of(*kinds)
    pair = [draw.numbers(*one, kinds=(kind,)) for one in (shape, draw.part_of(shape))]
    a, b = pair if draw.chance() else pair[::-1]
    return a, b


def _binary(*, narrow_since: int = 14) -> CaseMaker:
    def make(draw: Draw) -> NodeCase:
        wide = ("float32", "float32", "float64", "int32", "int64", "uint32", "uint64")
        kinds = (*wide, "int8", "uint8", "int16", "uint16") if draw.opset >= narrow_since else wide
        return NodeCase(_pair(draw, kinds))

    return make


def _div(draw: Draw) -> NodeCase:
    kinds = (
        "float32",
        "float64",
        "int32",
        "int64",
        *(("int8", "uint8") if draw.opset >= 14 else ()),
    )
    a, b = _pair(draw, kinds)
    if b.dtype.kind == "f":
        return NodeCase([a, np.where(np.abs(b) < 0.1, 1, b).astype(b.dtype)])
    is_signed = b.dtype.kind == "i"
    b = np.where((b == 0) | (b == -1 if is_signed else b == 0), 3, b).astype(b.dtype)
    return NodeCase([a, b])


def _mod(draw: Draw) -> NodeCase:
    if draw.chance(0.4):
        a, b = _pair(draw, ("float32",))
        return NodeCase([a, np.where(np.abs(b) < 0.1, 1, b).astype(b.dtype)], {"fmod": 1})
    a, b = _pair(draw, INTEGERS)
    b = np.where((b == 0) | (b == np.iinfo(b.dtype).max if b.dtype.kind == "u" else b == -1), 3, b)
    return NodeCase([a, b.astype(a.dtype)], {"fmod": draw.int(0, 1)})


def _pow(draw: Draw) -> NodeCase:
    shape = draw.shape()
    exponent = draw.one_of(
        np.float32(2), np.float32(3), np.float32(0.5), np.float32(-1), np.float32(1),
        draw.floats(*draw.part_of(shape)),
    )  # fmt: skip
    if draw.opset >= 12 and draw.chance(0.3):
        kind = draw.one_of("int32", "int64")
        base = draw.ints(-5, 5, *shape, kind=kind)
        return NodeCase(
            [base, np.asarray(draw.int(0, 4), draw.one_of("int32", "int64", "float32"))]
        )
    return NodeCase([draw.positive(*shape), np.asarray(exponent)], tolerance=1e-4)


def _comparison(*, is_equal: bool = False) -> CaseMaker:
    def make(draw: Draw) -> NodeCase:
        kinds = ["int32", "int64"]
        if draw.opset >= 9 or not is_equal:
            kinds = ["float32", "float64", *(kinds if draw.opset >= 9 else [])]
        if draw.opset >= 11 and is_equal:
            kinds = [*kinds, "bool"]
        if draw.opset >= 11:
            kinds = [*kinds, *INTEGERS]
        a, b = _pair(draw, kinds)
        if a.dtype.kind == "f":
            a, b = (
                draw.strange(*a.shape, kind=a.dtype.name),
                draw.strange(*b.shape, kind=a.dtype.name),
            )
        return NodeCase([a, b])

    return make


def _logical(draw: Draw) -> NodeCase:
    shape = draw.shape()
    return NodeCase([draw.bools(*shape), draw.bools(*draw.part_of(shape))])


def _many(*, since_integers: int) -> CaseMaker:
    """Any number of tensors, broadcast to each other."""

    def make(draw: Draw) -> NodeCase:
        shape = draw.shape()
        kinds = (
            ("float32", "int32", "int64", "uint8") if draw.opset >= since_integers else ("float32",)
        )
        kind = draw.one_of(*kinds)
        count = draw.int(1, 4)
        others = [shape if draw.opset < 8 else draw.part_of(shape) for _ in range(count - 1)]
        shapes = [shape, *others]
        return NodeCase([draw.numbers(*one, kinds=(kind,)) for one in shapes])

    return make


def _clip(draw: Draw) -> NodeCase:
    shape = draw.shape()
    if draw.opset < 11:
        given = {"min": draw.rng.uniform(-1, 0), "max": draw.rng.uniform(0, 1)}
        return NodeCase(
            [draw.strange(*shape)], {n: v for n, v in given.items() if draw.chance(0.7)}
        )
    kinds = (
        ("float32", "float64", "int8", "uint8", "int64", "int32")
        if draw.opset >= 12
        else ("float32",)
    )
    kind = draw.one_of(*kinds)
    x = draw.strange(*shape, kind=kind) if "float" in kind else draw.any_ints(kind, *shape)
    low, high = (np.asarray(draw.int(0, 3), kind), np.asarray(draw.int(1, 9), kind))
    bounds = [low if draw.chance(0.7) else None, high if draw.chance(0.7) else None]
    # without bounds ONNX Runtime makes the largest number of infinity, PyTorch does not
    has_peer = None not in bounds or kind.startswith(("int", "uint"))
    return NodeCase([x, *bounds], has_peer=has_peer)


def _cast(draw: Draw) -> NodeCase:
    source = draw.one_of("float32", "float64", "bool", "float32", *INTEGERS)
    target = draw.one_of("float32", "float64", "bool", *INTEGERS)
    shape = draw.shape()
    if source.startswith("float"):
        is_strange = draw.chance(0.4)
        x = (
            draw.strange(*shape, kind=source)
            if is_strange
            else draw.floats(*shape, kind=source, scale=9)
        )
        if target.startswith("u") and not is_strange:
            x = np.abs(x)
        fits = not is_strange or "int" not in target
    else:
        x, fits = draw.numbers(*shape, kinds=(source,)), True
    return NodeCase(
        [x], {"to": getattr(TensorProto, str(_NAMES.get(target, target)).upper())}, has_peer=fits
    )


_NAMES = {"float32": "float", "float64": "double"}


def _cast_like(draw: Draw) -> NodeCase:
    made = _cast(draw)
    target = draw.one_of("float32", "int32", "bool", "int8")
    fits = made.has_peer and np.asarray(made.inputs[0]).dtype.kind != "f"
    return NodeCase([made.inputs[0], np.zeros(2, target)], has_peer=fits)


def _shift(draw: Draw) -> NodeCase:
    kind = draw.one_of("uint8", "uint16", "uint32", "uint64")
    shape = draw.shape()
    bits = np.iinfo(kind).bits
    amount = draw.ints(0, bits - 1, *draw.part_of(shape), kind=kind)
    return NodeCase(
        [draw.any_ints(kind, *shape), amount], {"direction": draw.one_of("LEFT", "RIGHT")}
    )


def _bits(count: int) -> CaseMaker:
    def make(draw: Draw) -> NodeCase:
        shape, kind = draw.shape(), draw.one_of(*INTEGERS)
        shapes = [shape, draw.part_of(shape)][:count]
        return NodeCase([draw.any_ints(kind, *one) for one in shapes])

    return make


def _isinf(draw: Draw) -> NodeCase:
    given = {n: draw.int(0, 1) for n in ("detect_negative", "detect_positive") if draw.chance()}
    return NodeCase([draw.strange(*draw.shape(), kind=draw.one_of("float32", "float64"))], given)


def _gelu(draw: Draw) -> NodeCase:
    given = {"approximate": draw.one_of("none", "tanh")} if draw.chance() else {}
    return NodeCase([draw.floats(*draw.shape())], given)


def _prelu(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 4)
    return NodeCase([draw.floats(*shape), draw.floats(*draw.part_of(shape))])


def _where(draw: Draw) -> NodeCase:
    shape = draw.shape()
    kind = draw.one_of("float32", "int64", "uint8", "int32")
    a, b = (draw.numbers(*draw.part_of(shape), kinds=(kind,)) for _ in range(2))
    return NodeCase([draw.bools(*shape), a, b])


def _reduction(since: int, *, narrow: bool = False, low: float = -2.0) -> CaseMaker:
    """Axes are inputs from the version `since` on."""

    def make(draw: Draw) -> NodeCase:
        shape = draw.shape(1, 4)
        axes = None if draw.chance(0.2) else draw.some_axes(len(shape))
        attributes, more = draw.axes_or_input(axes, since)
        if draw.chance(0.7):
            attributes["keepdims"] = draw.int(0, 1)
        if draw.opset >= since and draw.chance(0.15):
            attributes["noop_with_empty_axes"], more = 1, []
        kinds = ("float32", "float32", "float64", "int32", "int64")
        if narrow and draw.opset >= 12:
            kinds = (*kinds, "int8", "uint8")
        kind = draw.one_of(*kinds) if low < 0 else "float32"
        x = (
            np.asarray(draw.rng.uniform(low, 2.0, shape), kind)
            if low >= 0 or "float" in kind
            else (draw.ints(-3 if "u" not in kind else 0, 3, *shape, kind=kind))
        )
        return NodeCase([x, *more], attributes, known=[1] if more else [])

    return make


def _logarithm(draw: Draw) -> NodeCase:
    made = _reduction(18, low=0.1)(draw)
    if draw.chance(0.3):
        x = draw.ints(1, 9, *np.asarray(made.inputs[0]).shape, kind=draw.one_of("int32", "int64"))
        return replace(made, inputs=[x, *made.inputs[1:]], steps=1)
    return made


def _arg(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 4)
    x = draw.ints(
        -3, 3, *shape, kind=draw.one_of("float32", "int32", "int8" if draw.opset >= 13 else "int32")
    )
    given: dict[str, Any] = {
        "axis": draw.axis(len(shape)) if draw.opset >= 11 else draw.int(0, len(shape) - 1)
    }
    if draw.chance():
        given["keepdims"] = draw.int(0, 1)
    if draw.opset >= 12 and draw.chance():
        given["select_last_index"] = draw.int(0, 1)
    return NodeCase([x], given)


def _cumulative(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 4)
    kind = draw.one_of("float32", "int32", "int64")
    given = {n: draw.int(0, 1) for n in ("exclusive", "reverse") if draw.chance()}
    axis = np.asarray(draw.axis(len(shape)), draw.one_of("int32", "int64"))
    x = draw.ints(-3, 3, *shape, kind=kind) if "int" in kind else draw.floats(*shape)
    return NodeCase([x, axis], given, known=[1])


MATH: Mapping[str, CaseMaker] = {
    "Abs": _strange(("float32", "float64", "int8", "int32", "int64", "uint8")),
    "Acos": _unary(-0.99, 0.99),
    "Acosh": _unary(1.01, 4),
    "Add": _binary(),
    "And": _logical,
    "ArgMax": _arg,
    "ArgMin": _arg,
    "Asin": _unary(-0.99, 0.99),
    "Asinh": _unary(),
    "Atan": _unary(),
    "Atanh": _unary(-0.9, 0.9),
    "BitShift": _shift,
    "BitwiseAnd": _bits(2),
    "BitwiseNot": _bits(1),
    "BitwiseOr": _bits(2),
    "BitwiseXor": _bits(2),
    "Cast": _cast,
    "CastLike": _cast_like,
    "Ceil": _strange(),
    "Celu": _unary(alpha=(0.5, 2.0)),
    "Clip": _clip,
    "Cos": _unary(-20, 20),
    "Cosh": _unary(),
    "CumProd": _cumulative,
    "CumSum": _cumulative,
    "Div": _div,
    "Elu": _unary(alpha=(0.5, 2.0)),
    "Equal": _comparison(is_equal=True),
    "Erf": _unary(),
    "Exp": _unary(-20, 20),
    "Floor": _strange(),
    "Gelu": _gelu,
    "Greater": _comparison(),
    "GreaterOrEqual": _comparison(),
    "HardSigmoid": _unary(alpha=(0.1, 0.5), beta=(0.2, 0.7)),
    "HardSwish": _unary(-6, 6),
    "IsInf": _isinf,
    "IsNaN": _strange(),
    "LeakyRelu": _unary(alpha=(0.01, 1.0)),
    "Less": _comparison(),
    "LessOrEqual": _comparison(),
    "Log": _unary(0.01, 50),
    "Max": _many(since_integers=12),
    "Mean": _many(since_integers=99),
    "Min": _many(since_integers=12),
    "Mish": _unary(),
    "Mod": _mod,
    "Mul": _binary(),
    "Neg": _strange(("float32", "float64", "int8", "int32", "int64")),
    "Not": lambda draw: NodeCase([draw.bools(*draw.shape())]),
    "Or": _logical,
    "PRelu": _prelu,
    "Pow": _pow,
    "Reciprocal": _unary(0.1, 5),
    "ReduceL1": _reduction(18),
    "ReduceL2": _reduction(18),
    "ReduceLogSum": _logarithm,
    "ReduceLogSumExp": _logarithm,
    "ReduceMax": _reduction(18, narrow=True),
    "ReduceMean": _reduction(18),
    "ReduceMin": _reduction(18, narrow=True),
    "ReduceProd": _reduction(18),
    "ReduceSum": _reduction(13),
    "ReduceSumSquare": _reduction(18),
    "Relu": _signed_kinds(14),
    "Round": _strange(),
    "Selu": _unary(alpha=(0.5, 2.0), gamma=(0.5, 2.0)),
    "Shrink": _unary(bias=(0.0, 1.0), lambd=(0.1, 1.0)),
    "Sigmoid": _unary(-20, 20),
    "Sign": _strange(("float32", "float64", *INTEGERS)),
    "Sin": _unary(-20, 20),
    "Sinh": _unary(),
    "Softplus": _unary(-30, 30),
    "Softsign": _unary(),
    "Sqrt": _unary(0, 50),
    "Sub": _binary(),
    "Sum": _many(since_integers=99),
    "Swish": _unary(alpha=(0.5, 2.0)),
    "Tan": _unary(-1.2, 1.2),
    "Tanh": _unary(-20, 20),
    "ThresholdedRelu": _unary(alpha=(0.5, 1.5)),
    "Where": _where,
    "Xor": _logical,
}
"""What makes a random node, by its operator."""
