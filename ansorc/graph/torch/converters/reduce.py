"""ATen's operators that reduce, search or accumulate along axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ansorc.graph.torch.converters.matmul import narrow_sums
from ansorc.graph.torch.torch_call import TorchCall, TorchConverter
from ansorc.ir.dtype import BOOL, INT32


def _reduce(operator: str, of_bools: str = "") -> TorchConverter:
    """A reduction over some axes, or all, in the dtype of the result."""

    def convert(call: TorchCall) -> str:
        kind = call.result.dtype
        name = of_bools if of_bools and kind.is_bool else operator
        data = call.input("self", kind)
        if not call.type("self").shape:
            return data
        axes = call.axes("dim", len(call.type("self").shape))
        options = narrow_sums(kind) if name in ("sum", "prod") else {}
        return call.add(
            name, [data], axis=axes, keepdims=bool(call.get("keepdim", False)), **options
        )

    return convert


def _any_or_all(operator: str) -> TorchConverter:
    def convert(call: TorchCall) -> str:
        axes = call.axes("dim", len(call.type("self").shape))
        keepdims = bool(call.get("keepdim", False))
        reduced = call.add(operator, [call.input("self", BOOL)], axis=axes, keepdims=keepdims)
        return call.convert(reduced, call.result.dtype)  # uint8 of uint8

    return convert


def _place(operator: str) -> TorchConverter:
    """Where the extreme element is, along an axis or among all."""

    def convert(call: TorchCall) -> str:
        shape, data = call.type("self").shape, call.input("self")
        if call.has("dim"):
            axis = call.axis(call.get("dim"), len(shape))
            return call.add(operator, [data], axis=axis, keepdims=bool(call.get("keepdim", False)))
        flat = call.reshape(data, [math.prod(shape)])
        return call.reshape(call.add(operator, [flat], axis=0), call.result.shape)

    return convert


def _comparable(call: TorchCall) -> str:
    """The tensor `self`; bools as numbers."""
    return call.input("self", INT32 if call.type("self").dtype.is_bool else None)


def _extreme(operator: str) -> TorchConverter:
    """The extreme elements along an axis, and where they are."""

    def convert(call: TorchCall) -> Sequence[str]:
        axis = call.axis(call.get("dim"), len(call.type("self").shape))
        options: dict[str, object] = {"axis": axis, "keepdims": bool(call.get("keepdim", False))}
        data = _comparable(call)
        names = [call.convert(call.add(operator, [data], **options), call.result.dtype)]
        if 1 in call.node.used:
            names.append(call.add(f"arg{operator}", [data], **options))
        return names

    return convert


def _moments(call: TorchCall) -> tuple[str, str]:
    """The variance and the mean."""
    shape, kind = call.type("self").shape, call.type("self").dtype
    axes = call.axes("dim", len(shape))
    data, keepdims = call.input("self"), bool(call.get("keepdim", False))
    if "unbiased" in call.node.arguments:
        correction = int(bool(call.get("unbiased", True)))
    else:
        correction = call.get("correction", 1)
    count = math.prod(shape if axes is None else [shape[axis] for axis in axes])
    if count <= correction:
        call.refuse(f"it is the variance of {count} elements, corrected by {correction}")
    mean = call.add("mean", [data], axis=axes, keepdims=True)
    off = call.add("subtract", [data, mean])
    square = call.add("multiply", [off, off])
    total = call.add("sum", [square], axis=axes, keepdims=keepdims)
    factor = call.constant(kind.numpy.type(1 / (count - correction)))
    return call.add("multiply", [total, factor]), call.reshape(mean, call.result.shape)


def _cumulative(operator: str) -> TorchConverter:
    return lambda call: _accumulate(call, operator)


def _accumulate(call: TorchCall, operator: str) -> str:
    data, shape = call.input("self", call.result.dtype), call.type("self").shape
    if not shape:
        return data
    return call.add(operator, [data], axis=call.axis(call.get("dim"), len(shape)))


def _running(operator: str) -> TorchConverter:
    """The extreme elements so far, without their places."""

    def convert(call: TorchCall) -> Sequence[str]:
        if 1 in call.node.used:
            call.refuse(
                "the places of what is largest so far are not supported; read only the values"
            )
        return [_accumulate(call, operator)]

    return convert


def _distance(call: TorchCall) -> str:
    kind = call.result.dtype
    off = call.add("subtract", [call.input("self", kind), call.input("other", kind)])
    return _norm(call, off, float(call.get("p", 2)), {"axis": None, "keepdims": False})


def _vector_norm(call: TorchCall) -> str:
    """(sum of |x|^p)^(1/p) over axes."""
    data, p = call.input("self", call.result.dtype), float(call.get("ord", 2))
    axes = call.axes("dim", len(call.type("self").shape))
    return _norm(call, data, p, {"axis": axes, "keepdims": bool(call.get("keepdim", False))})


def _distances(call: TorchCall) -> str:
    """The norm of the differences of all pairs of rows of x1 [..., n, d] and x2 [..., m, d]."""
    kind, (*left_batch, n, size), (*other, m, _) = (
        call.result.dtype, call.type("x1").shape, call.type("x2").shape
    )  # fmt: skip
    left = call.reshape(call.input("x1", kind), [*left_batch, n, 1, size])
    right = call.reshape(call.input("x2", kind), [*other, 1, m, size])
    off = call.add("subtract", [left, right])
    return _norm(call, off, float(call.get("p", 2)), {"axis": [-1], "keepdims": False})


def _norm(call: TorchCall, data: str, p: float, options: Mapping[str, object]) -> str:
    size = call.add("abs", [data])
    if math.isinf(p):
        return call.add("max" if p > 0 else "min", [size], **options)
    if p == 0:
        present = call.add("not_equal", [data, call.scalar(0, data)])
        return call.add("sum", [call.convert(present, call.result.dtype)], **options)
    if p == 1:
        return call.add("sum", [size], **options)
    if p == 2:
        return call.add("sqrt", [call.add("sum", [call.add("multiply", [data, data])], **options)])
    total = call.add("sum", [call.add("power", [size, call.scalar(p, data)])], **options)
    return call.add("power", [total, call.scalar(1 / p, data)])


_SUMS = ("default", "dim_IntList")
TORCH_REDUCE: Mapping[str, TorchConverter] = {
    **{f"all.{one}": _any_or_all("all") for one in ("default", "dim", "dims")},
    **{f"any.{one}": _any_or_all("any") for one in ("default", "dim", "dims")},
    **{f"mean.{one}": _reduce("mean") for one in ("default", "dim")},
    **{f"prod.{one}": _reduce("prod", "all") for one in ("default", "dim_int")},
    **{f"sum.{one}": _reduce("sum") for one in _SUMS},
    **{f"var.{one}": lambda call: _moments(call)[0] for one in ("correction", "default", "dim")},
    **{f"var_mean.{one}": _moments for one in ("correction", "default", "dim")},
    "_cdist_forward.default": _distances,
    "amax.default": _reduce("max", "any"),
    "amin.default": _reduce("min", "all"),
    "argmax.default": _place("argmax"),
    "argmin.default": _place("argmin"),
    "cummax.default": _running("cumulative_max"),
    "cummin.default": _running("cumulative_min"),
    "cumprod.default": _cumulative("cumulative_product"),
    "cumsum.default": _cumulative("cumulative_sum"),
    "dist.default": _distance,
    "linalg_vector_norm.default": _vector_norm,
    "logsumexp.default": _reduce("log_sum_exp"),
    "max.default": _reduce("max", "any"),
    "max.dim": _extreme("max"),
    "min.default": _reduce("min", "all"),
    "min.dim": _extreme("min"),
}
