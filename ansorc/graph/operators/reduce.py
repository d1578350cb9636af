"""Reductions that frameworks have beyond those of `ac.ops`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ansorc.ir.arith.identity import identity
from ansorc.ir.expr import BinaryOp
from ansorc.lang import reduction
from ansorc.lang.define import compute, compute_tuple
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.reduce import Dims, reduce_over, without
from ansorc.lang.operators.shapes import axis_number, axis_numbers
from ansorc.lang.reduction import Reduction, TupleReduction, reduce_axis
from ansorc.lang.scalar import all_of, const, exp, if_then_else, log, maximum, minimum
from ansorc.lang.scalar_type import Scalar, as_scalar
from ansorc.lang.tensor import Tensor

_ROW = 64
"""Elements of a row of cumulative sums that are each summed from the first on."""
_BLOCK = 16
"""Elements that are, of longer rows: those of a block, and the blocks before by their sums."""


def any_true(data: Tensor, axis: Dims = None, *, keepdims: bool = False) -> Tensor:
    """Return whether one of the bools `data` over `axis` holds."""
    return reduce_over("any", data, axis, reduction.any, AutoName("any"), keepdims=keepdims)


def all_true(data: Tensor, axis: Dims = None, *, keepdims: bool = False) -> Tensor:
    """Return whether all of the bools `data` over `axis` hold."""
    return reduce_over("all", data, axis, reduction.all, AutoName("all"), keepdims=keepdims)


def log_sum_exp(data: Tensor, axis: Dims = None, *, keepdims: bool = False) -> Tensor:
    """Return log(sum(exp(data))) over `axis`, without overflow.

    Stages: the largest element, where it is finite, the sum of the exponentials of the differences
    to it, and the result.
    """
    name = AutoName("log_sum_exp")
    places = axis_numbers("log_sum_exp", data, axis)
    top = reduce_over("max", data, axis, reduction.max, stage_name(name, "max"), keepdims=True)

    def shift(*i: Scalar) -> Scalar:
        peak = top[tuple(const(0, "int64") if d in places else index for d, index in enumerate(i))]
        is_finite = all_of(peak > -math.inf, peak < math.inf)
        return if_then_else(is_finite, peak, 0.0)

    raised = compute(data.shape, lambda *i: exp(data[i] - shift(*i)), stage_name(name, "exp"))
    total = reduce_over("sum", raised, axis, reduction.sum, stage_name(name, "sum"), keepdims=True)
    result = compute(total.shape, lambda *i: log(total[i]) + shift(*i), name)
    if keepdims:
        return result
    kept = [d for d in range(len(data.shape)) if d not in places]

    def squeeze(*i: Scalar) -> Scalar:
        given = dict(zip(kept, i, strict=True))
        return result[tuple(given.get(d, const(0, "int64")) for d in range(len(data.shape)))]

    shape = without(data.shape, places, None)
    return compute(shape, squeeze, stage_name(name, "squeezed"))


def last_argmax(data: Tensor, axis: int) -> Tensor:
    """Return where the largest elements of `data` are along `axis`, the last of equal ones."""
    return _last_place(data, axis, reduction.argmax, AutoName("argmax"))


def last_argmin(data: Tensor, axis: int) -> Tensor:
    """Return where the smallest elements of `data` are along `axis`, the last of equal ones."""
    return _last_place(data, axis, reduction.argmin, AutoName("argmin"))


def _last_place(
    data: Tensor, axis: int, find: Callable[..., TupleReduction], name: AutoName
) -> Tensor:
    dimension = axis_number(name, data, axis)
    last = data.shape[dimension] - 1
    k = reduce_axis(data.shape[dimension], "k")
    shape = without(data.shape, [dimension], None)
    _, indices = compute_tuple(
        shape,
        lambda *i: find(data[(*i[:dimension], last - k, *i[dimension:])], k),
        [stage_name(name, "value"), stage_name(name, "place")],
    )
    return compute(shape, lambda *i: last - indices[i], name)


def cumulative_sum(
    data: Tensor, axis: int, *, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    """Return the sums of `data` along `axis` up to each element, that left out if `exclusive`.

    With `reverse` from each element to the end. Long rows are summed in blocks, and what is before
    each block in the same way: about 17 additions an element.
    """
    scan = _Accumulation(reduction.sum, operator.add, const(0, data.dtype))
    return _cumulative(data, axis, scan, exclusive, reverse)


def cumulative_product(
    data: Tensor, axis: int, *, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    """Return the products of `data` along `axis` up to each element; see `cumulative_sum`."""
    scan = _Accumulation(reduction.prod, operator.mul, const(1, data.dtype))
    return _cumulative(data, axis, scan, exclusive, reverse)


def cumulative_max(data: Tensor, axis: int) -> Tensor:
    """Return the largest elements of `data` along `axis` up to each one."""
    scan = _Accumulation(reduction.max, maximum, as_scalar(identity(BinaryOp.MAX, data.dtype)))
    return _cumulative(data, axis, scan, False, False)


def cumulative_min(data: Tensor, axis: int) -> Tensor:
    """Return the smallest elements of `data` along `axis` up to each one."""
    scan = _Accumulation(reduction.min, minimum, as_scalar(identity(BinaryOp.MIN, data.dtype)))
    return _cumulative(data, axis, scan, False, False)


@dataclass(frozen=True)
class _Accumulation:
    """An accumulation: how many elements are combined, how two are, and the neutral element."""

    combine: Callable[..., Reduction]
    join: Callable[[Scalar, Scalar], Scalar]
    neutral: Scalar


def _cumulative(data: Tensor, axis: int, scan: _Accumulation, *flags: bool) -> Tensor:
    dimension = axis_number("cumulative", data, axis)
    exclusive, reverse = flags
    row = _Row(data, dimension, is_reversed=reverse)
    if row.extent > _ROW:
        return _cumulative_by_blocks(row, scan, is_exclusive=exclusive)
    k = reduce_axis(row.extent, "k")

    def body(*i: Scalar) -> Reduction:
        position = row.number(i[dimension])
        is_in = k < position if exclusive else k <= position
        term = row.element((*i[:dimension], *i[dimension + 1 :]), k)
        return scan.combine(if_then_else(is_in, term, scan.neutral), axis=k)

    return compute(data.shape, body, AutoName("cumulative"))


@dataclass(frozen=True)
class _Row:
    """The elements of a tensor along a dimension, numbered from the end where sums begin."""

    data: Tensor
    place: int
    is_reversed: bool

    @property
    def extent(self) -> int:
        """How many there are."""
        return self.data.shape[self.place]

    def number(self, index: Scalar) -> Scalar:
        """The number of the element at `index`, and the index of that number."""
        return self.extent - 1 - index if self.is_reversed else index

    def element(self, others: Sequence[Scalar], number: Scalar) -> Scalar:
        """An element, `others` being the indices without that of the row."""
        dimension = self.place
        return self.data[(*others[:dimension], self.number(number), *others[dimension:])]

    def padding_element(self, others: Sequence[Scalar], number: Scalar, neutral: Scalar) -> Scalar:
        """An element, `neutral` beyond the end of the last block."""
        if self.extent % _BLOCK == 0:
            return self.element(others, number)
        inside = self.element(others, minimum(number, self.extent - 1))
        return if_then_else(number < self.extent, inside, neutral)


def _cumulative_by_blocks(row: _Row, scan: _Accumulation, *, is_exclusive: bool) -> Tensor:
    """Sums within each block, after those of all blocks before."""
    name, shape, dimension = AutoName("cumulative"), row.data.shape, row.place
    outer, blocks, inner = shape[:dimension], -(-row.extent // _BLOCK), shape[dimension + 1 :]
    k, t = reduce_axis(_BLOCK, "k"), reduce_axis(_BLOCK, "t")

    def total(*i: Scalar) -> Reduction:
        others = (*i[:dimension], *i[dimension + 1 :])
        return scan.combine(
            row.padding_element(others, i[dimension] * _BLOCK + t, scan.neutral), axis=t
        )

    def within(*i: Scalar) -> Reduction:
        is_in = k < i[dimension + 1] if is_exclusive else k <= i[dimension + 1]
        term = row.padding_element(
            (*i[:dimension], *i[dimension + 2 :]), i[dimension] * _BLOCK + k, scan.neutral
        )
        return scan.combine(if_then_else(is_in, term, scan.neutral), axis=k)

    totals = compute((*outer, blocks, *inner), total, stage_name(name, "totals"))
    before = _cumulative(totals, dimension, scan, True, False)
    sums = compute((*outer, blocks, _BLOCK, *inner), within, stage_name(name, "within"))

    def result(*i: Scalar) -> Scalar:
        number = row.number(i[dimension])
        block = number // _BLOCK
        mine = sums[(*i[:dimension], block, number % _BLOCK, *i[dimension + 1 :])]
        earlier = before[(*i[:dimension], block, *i[dimension + 1 :])]
        return scan.join(earlier, mine)

    return compute(shape, result, name)


def determinant(data: Tensor) -> Tensor:
    """Return the determinants [...] of matrices data [..., n, n], all n! terms of each."""
    n = data.shape[-1]

    def minor(outer: tuple[Scalar, ...], row: int, columns: tuple[int, ...]) -> Scalar:
        if row == n - 1:
            return data[(*outer, row, columns[0])]
        total: Scalar | None = None
        for number, column in enumerate(columns):
            rest = (*columns[:number], *columns[number + 1 :])
            term = data[(*outer, row, column)] * minor(outer, row + 1, rest)
            total = term if total is None else total - term if number % 2 else total + term
        return const(1, data.dtype) if total is None else total

    return compute(data.shape[:-2], lambda *i: minor(i, 0, tuple(range(n))), AutoName("det"))


REDUCTIONS: Mapping[str, Callable[..., Tensor]] = {
    "all": all_true,
    "any": any_true,
    "cumulative_max": cumulative_max,
    "cumulative_min": cumulative_min,
    "cumulative_product": cumulative_product,
    "cumulative_sum": cumulative_sum,
    "determinant": determinant,
    "last_argmax": last_argmax,
    "last_argmin": last_argmin,
    "log_sum_exp": log_sum_exp,
}
"""Definitions by the name of their operator."""
