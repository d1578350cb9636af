"""Running sums, products and extremes along one dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ansorc.ir.arith.identity import identity
from ansorc.ir.expr import BinaryOp
from ansorc.lang import scalar
from ansorc.lang.define import compute
from ansorc.lang.literal import DTypeLike
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.shapes import axis_number
from ansorc.lang.operators.wide import SumTypes
from ansorc.lang.scalar import const
from ansorc.lang.scalar_type import Scalar, as_scalar
from ansorc.lang.scan import ScanSteps, scan
from ansorc.lang.tensor import Tensor

Combine: TypeAlias = Callable[[Scalar, Scalar], Scalar]

_CUMSUM, _CUMPROD = AutoName("cumsum"), AutoName("cumprod")
_CUMMAX, _CUMMIN = AutoName("cummax"), AutoName("cummin")


def cumsum(
    data: Tensor,
    axis: int = -1,
    name: str = _CUMSUM,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    sum_dtype: DTypeLike | None = None,
) -> Tensor:
    """Return the sums of `data` along `axis` up to each element, that left out if `exclusive`.

    With `reverse` from each element to the end. By default 16-bit floats are summed in float32 and
    rounded, and 8- and 16-bit integers are summed in int32. With `sum_dtype`, elements are cast to
    it, and the result has it. Raise LanguageError on an unknown axis.
    """
    types = SumTypes.of(data.dtype, sum_dtype)
    first = const(0, types.sums)
    return _run(data, axis, name, _add, first, types, exclusive=exclusive, reverse=reverse)


def cumprod(
    data: Tensor,
    axis: int = -1,
    name: str = _CUMPROD,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    sum_dtype: DTypeLike | None = None,
) -> Tensor:
    """Return the products of `data` along `axis` up to each element; see `cumsum`."""
    types = SumTypes.of(data.dtype, sum_dtype)
    first = const(1, types.sums)
    return _run(data, axis, name, _multiply, first, types, exclusive=exclusive, reverse=reverse)


def cummax(data: Tensor, axis: int = -1, name: str = _CUMMAX, *, reverse: bool = False) -> Tensor:
    """Return the largest elements of `data` along `axis` up to each one; see `cumsum`."""
    first = as_scalar(identity(BinaryOp.MAX, data.dtype))
    types = SumTypes(data.dtype, data.dtype)
    return _run(data, axis, name, scalar.maximum, first, types, exclusive=False, reverse=reverse)


def cummin(data: Tensor, axis: int = -1, name: str = _CUMMIN, *, reverse: bool = False) -> Tensor:
    """Return the smallest elements of `data` along `axis` up to each one; see `cumsum`."""
    first = as_scalar(identity(BinaryOp.MIN, data.dtype))
    types = SumTypes(data.dtype, data.dtype)
    return _run(data, axis, name, scalar.minimum, first, types, exclusive=False, reverse=reverse)


def _run(
    data: Tensor,
    axis: int,
    name: str,
    combine: Combine,
    first: Scalar,
    types: SumTypes,
    *,
    exclusive: bool,
    reverse: bool,
) -> Tensor:
    """Return `combine` of the elements up to each one; if rounded, of a stage `<name>.wide`."""
    dimension = axis_number(name, data, axis)

    def states(*i: Scalar) -> ScanSteps:
        return scan(
            first,
            lambda state: combine(state, data[i].astype(types.sums)),
            i[dimension],
            reverse=reverse,
            exclusive=exclusive,
        )

    if types.sums == types.result:
        return compute(data.shape, states, name)
    wide = compute(data.shape, states, stage_name(name, "wide"))
    return compute(data.shape, lambda *i: wide[i].astype(types.result), name)


def _add(state: Scalar, element: Scalar) -> Scalar:
    return state + element


def _multiply(state: Scalar, element: Scalar) -> Scalar:
    return state * element
