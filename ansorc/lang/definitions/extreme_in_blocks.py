"""Extremes with their places (argmax, argmin): the value first, then where it is.

    (v, p)[i] = argmax over k of x[i, k]

->  v.best[i, b] = max over s of x[i, b * L + s]
    v.value[i] = max over b of v.best[i, b]
    v.block[i] = min over b of (b if v.best[i, b] is v.value[i])
    v.place[i] = min over s of (s if x[i, v.block[i] * L + s] is v.value[i])
    (v, p)[i] = v.value[i], v.block[i] * L + v.place[i]

An extreme of numbers is one instruction for a vector, a pair of a value and a place is ten. Only
the terms of one block are read twice. A row that stays in the first cache is one block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import TypeAlias

from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import INT32, INT64, DType
from ansorc.ir.expr import (
    BinaryOp,
    Cast,
    CompareOp,
    Expr,
    Load,
    Select,
    Var,
    binary,
    compare,
    const,
)
from ansorc.ir.substitute import substitute
from ansorc.lang.compute_op import Axis, Combiner, ComputeOp
from ansorc.lang.definitions.redefinition import Redefinition
from ansorc.lang.naming import unique_name
from ansorc.lang.reducer import Reducer
from ansorc.lang.reduction import argmax, argmin, reduce_axis
from ansorc.lang.scalar import const as literal

LEAST_PLACES = 64
"""Fewer places are compared one after the other as fast."""
_ROW_BYTES = 16384
"""A row of this size is one block: it is still in the first cache when it is read again."""
_SHORTEST, _LONGEST, _MULTIPLE = 1024, 4096, 16
"""Terms of a block of a longer row, and what they are a multiple of, to fill vectors."""
_INT32_PLACES = 2**31
"""Places are numbered in int32 if there are fewer."""

Values: TypeAlias = Mapping[str, Expr]
"""Places along axes, by the names of these."""


@lru_cache(maxsize=256)
def extreme_in_blocks(op: ComputeOp) -> Redefinition | None:
    """Return an argmax or argmin as extremes of blocks; None for other computations."""
    combiner = _combiner_of(op)
    if combiner is None or op.ragged_axis is not None:
        return None
    *outer, along = op.reduce_axes
    is_int32 = prod(axis.extent for axis in op.reduce_axes) < _INT32_PLACES
    if along.extent < LEAST_PLACES or not is_int32:
        return None
    length = _length(along.extent, op.buffer.dtype)
    taken = [axis.name for axis in (*op.axes, *op.reduce_axes)]
    block = Axis(unique_name(f"{along.name}.block", taken), -(-along.extent // length))
    step = Axis(unique_name(f"{along.name}.step", taken), length)
    blocks = (*outer, block) if block.extent > 1 else tuple(outer)
    return Redefinition(_Blocks(op, combiner, along, blocks, step).stages())


def _combiner_of(op: ComputeOp) -> Combiner | None:
    """Return MAX for an `ac.argmax`, MIN for an `ac.argmin`, and None for other computations."""
    if not isinstance(op.combiner, Reducer) or len(op.more) != 1 or op.buffer.dtype.is_bool:
        return None
    return _extreme_of(op.combiner, op.buffer.dtype)


@lru_cache(maxsize=64)
def _extreme_of(reducer: Reducer, dtype: DType) -> Combiner | None:
    pairs = ((Combiner.MAX, argmax), (Combiner.MIN, argmin))
    axis, element = reduce_axis(2), literal(0, dtype)
    found = (combiner for combiner, find in pairs if find(element, axis).reducer == reducer)
    return next(found, None)


def _length(extent: int, dtype: DType) -> int:
    """Return the terms of a block: all of a short row, or a divisor of a long one if there is."""
    if extent * dtype.bytes <= _ROW_BYTES:
        return extent
    fitting = [n for n in range(_SHORTEST, _LONGEST + 1, _MULTIPLE) if extent % n == 0]
    return fitting[-1] if fitting else _LONGEST


def _number(axes: Sequence[Axis]) -> Expr:
    """Return the number of a place of `axes` in row-major order."""
    number: Expr = Var(axes[0].name)
    for axis in axes[1:]:
        number = number * axis.extent + Var(axis.name)
    return number


def _places(axes: Sequence[Axis], number: Expr) -> Values:
    """Return the place along each of `axes` that has a number in row-major order."""
    places: dict[str, Expr] = {}
    for axis in reversed(axes[1:]):
        places[axis.name] = binary(BinaryOp.MOD, number, axis.extent)
        number = binary(BinaryOp.FLOORDIV, number, axis.extent)
    return places | {axis.name: number for axis in axes[:1]}


@dataclass(frozen=True)
class _Blocks:
    """The stages of an extreme along `along`, in `blocks` of the places `step`."""

    op: ComputeOp
    combiner: Combiner
    along: Axis
    blocks: tuple[Axis, ...]
    """The other reduce axes, then that of the blocks along `along` if there are several."""
    step: Axis

    def stages(self) -> tuple[ComputeOp, ...]:
        """Return the stages, producers first."""
        dtype = self.op.buffer.dtype
        every = {axis.name: Var(axis.name) for axis in self.blocks}
        best = self._op("best", dtype, (*self.op.axes, *self.blocks), self._term(every))
        best = replace(best, reduce_axes=(self.step,), combiner=self.combiner)
        made, value, block = [best], best, const(0)
        if self.blocks:
            value = self._op("value", dtype, self.op.axes, _at(best))
            value = replace(value, reduce_axes=self.blocks, combiner=self.combiner)
            first = self._first("block", self.blocks, _at(best), value)
            made += [value, first]
            block = Cast(INT64, _at(first))
        here = _places(self.blocks, block)
        place = self._first("place", (self.step,), self._term(here), value)
        number = self._substitute(self.op.more[0].body, here, Cast(INT64, _at(place)))
        more = (replace(self.op.more[0], body=number),)
        result = replace(
            self.op, body=_at(value), more=more, reduce_axes=(), combiner=None, hints=()
        )
        return (*made, place, result)

    def _first(self, name: str, axes: tuple[Axis, ...], term: Expr, value: ComputeOp) -> ComputeOp:
        """Return the stage of the first number of a place of `axes` whose term is the value.

        If the value is NaN it is the first NaN; else there is none among the terms.
        """
        mine = _at(value)
        is_here = compare(CompareOp.EQ, term, mine)
        if mine.buffer.dtype.is_float:
            is_here = binary(BinaryOp.OR, is_here, compare(CompareOp.NE, term, term))
        last = const(prod(axis.extent for axis in axes) - 1, INT32)
        body = Select(is_here, Cast(INT32, _number(axes)), last)
        made = self._op(name, INT32, self.op.axes, body)
        return replace(made, reduce_axes=axes, combiner=Combiner.MIN)

    def _term(self, blocks: Values) -> Expr:
        """Return the term at a step of a block; after the last one it is never the first."""
        step = Var(self.step.name)
        term = self._substitute(self.op.body, blocks, step)
        if self.along.extent % self.step.extent == 0:
            return term
        inside = compare(CompareOp.LT, self._along(blocks, step), self.along.extent)
        return Select(inside, term, self.combiner.identity(self.op.buffer.dtype))

    def _substitute(self, body: Expr, blocks: Values, step: Expr) -> Expr:
        """Return `body`, of the axes of the reduction, at the step of a block."""
        values = {axis.name: blocks[axis.name] for axis in self.op.reduce_axes[:-1]}
        return substitute(body, values | {self.along.name: self._along(blocks, step)})

    def _along(self, blocks: Values, step: Expr) -> Expr:
        """Return the place along the axis in blocks."""
        if self.step.extent == self.along.extent:
            return step
        return blocks[self.blocks[-1].name] * self.step.extent + step

    def _op(self, name: str, dtype: DType, axes: Sequence[Axis], body: Expr) -> ComputeOp:
        """Return the stage without a reduction, at whose end there may be one."""
        taken = [buffer.name for buffer in (*self.op.reads, *self.op.buffers)]
        full = unique_name(f"{self.op.name}.{name}", taken)
        buffer = Buffer(full, tuple(axis.extent for axis in axes), dtype)
        return ComputeOp(full, buffer, tuple(axes), (), None, body)


def _at(op: ComputeOp) -> Load:
    """Return the element of `op` at its axes."""
    return Load(op.buffer, tuple(Var(axis.name) for axis in op.axes))
