"""ONNX operators that reduce, search or accumulate along axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ansorc.graph.onnx.node_call import Converter, NodeCall

ElementMap = Callable[[NodeCall, str], str]
"""A function of each element before a reduction, or after it."""

_AXES_ARE_INPUTS_SINCE = 18
_AXES_OF_SUM_ARE_INPUTS_SINCE = 13


def _reduce(
    operator: str, before: ElementMap | None = None, after: ElementMap | None = None
) -> Converter:
    """A reduction, and what is done to the elements before and after it."""

    def convert(call: NodeCall) -> str:
        axes = _axes(call)
        data = call.input(0) if before is None else before(call, call.input(0))
        if axes or axes is None:
            data = call.add(operator, [data], axis=axes, keepdims=_keepdims(call))
        return data if after is None else after(call, data)

    return convert


def _axes(call: NodeCall) -> list[int] | None:
    """The axes that a node reduces; [] for none, None for all."""
    is_sum = call.node.operator == "ReduceSum"
    since = _AXES_OF_SUM_ARE_INPUTS_SINCE if is_sum else _AXES_ARE_INPUTS_SINCE
    if call.opset < since:
        axes = call.attribute("axes")
    else:
        axes = call.ints(1, "the axes") if call.has(1) else None
    if axes:
        return [call.axis(axis, call.rank(0)) for axis in axes]
    return [] if call.attribute("noop_with_empty_axes", 0) else None


def _keepdims(call: NodeCall) -> bool:
    return bool(call.attribute("keepdims", 1))


def _abs(call: NodeCall, data: str) -> str:
    return call.add("abs", [data])


def _reduce_as_float(operator: str, **parts: ElementMap) -> Converter:
    """A reduction whose result is no integer; that of integers is rounded towards 0."""
    plain = _reduce(operator, **parts)
    after = parts.pop("after", None)

    def convert(call: NodeCall) -> str:
        kind = call.type(0).dtype
        if kind.is_float:
            return str(plain(call))
        first = None if after is not None else _as_float64
        reduced = str(_reduce(operator, before=parts.get("before", first))(call))
        if after is not None:  # sums of integers are exact
            reduced = after(call, _as_float64(call, reduced))
        return call.add("cast", [reduced], dtype=str(kind))

    return convert


def _as_float64(call: NodeCall, data: str) -> str:
    return call.add("cast", [data], dtype="float64")


def _square(call: NodeCall, data: str) -> str:
    return call.add("multiply", [data, data])


def _log(call: NodeCall, data: str) -> str:
    return call.add("log", [data])


def _sqrt(call: NodeCall, data: str) -> str:
    return call.add("sqrt", [data])


def _extreme(operator: str, of_bools: str) -> Converter:
    """A largest or smallest element; of bools, whether one or all hold."""

    def convert(call: NodeCall) -> str:
        name = of_bools if call.type(0).dtype.is_bool else operator
        return str(_reduce(name)(call))

    return convert


def _mean(call: NodeCall) -> str:
    if call.type(0).dtype.is_float:
        return str(_reduce("mean")(call))
    total, axes, shape = str(_reduce("sum")(call)), _axes(call), call.type(0).shape
    count = math.prod(shape if axes is None else [shape[axis] for axis in axes])
    return call.add("truncated_divide", [total, call.scalar(count, total)])


def _place(operator: str) -> Converter:
    """Where the extreme element is."""

    def convert(call: NodeCall) -> str:
        shape = call.type(0).shape
        axis = call.axis(call.attribute("axis", 0), len(shape))
        keepdims = _keepdims(call)
        if not call.attribute("select_last_index", 0):
            return call.add(operator, [call.input(0)], axis=axis, keepdims=keepdims)
        result = call.add(f"last_{operator}", [call.input(0)], axis=axis)
        kept = [1 if dimension == axis else extent for dimension, extent in enumerate(shape)]
        return call.add("reshape", [result], shape=kept) if keepdims else result

    return convert


def _cumulative(operator: str) -> Converter:
    def convert(call: NodeCall) -> str:
        (axis,) = call.ints(1, "the axis")
        return call.add(
            operator,
            [call.input(0)],
            axis=call.axis(axis, call.rank(0)),
            exclusive=bool(call.attribute("exclusive", 0)),
            reverse=bool(call.attribute("reverse", 0)),
        )

    return convert


def _det(call: NodeCall) -> str:
    extent = call.type(0).shape[-1]
    if extent > 4:
        call.refuse(f"its matrices are {extent} × {extent}; ansorc has determinants up to 4 × 4")
    return call.add("determinant", [call.input(0)])


REDUCE: Mapping[str, Converter] = {
    "ArgMax": _place("argmax"),
    "ArgMin": _place("argmin"),
    "CumProd": _cumulative("cumulative_product"),
    "CumSum": _cumulative("cumulative_sum"),
    "Det": _det,
    "ReduceL1": _reduce("sum", before=_abs),
    "ReduceL2": _reduce_as_float("sum", before=_square, after=_sqrt),
    "ReduceLogSum": _reduce_as_float("sum", after=_log),
    "ReduceLogSumExp": _reduce_as_float("log_sum_exp"),
    "ReduceMax": _extreme("max", "any"),
    "ReduceMean": _mean,
    "ReduceMin": _extreme("min", "all"),
    "ReduceProd": _reduce("prod"),
    "ReduceSum": _reduce("sum"),
    "ReduceSumSquare": _reduce("sum", before=_square),
}
