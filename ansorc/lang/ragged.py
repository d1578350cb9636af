"""Reduce axes whose range is data: how far they may go, and the terms of all rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ansorc.errors import LanguageError
from ansorc.ir.aligned import Array
from ansorc.ir.arith.affine import affine
from ansorc.ir.arith.data_bounds import data_bounds
from ansorc.ir.arith.scalar import conjunction
from ansorc.ir.expr import (
    BinaryOp,
    Cast,
    Checked,
    CompareOp,
    Expr,
    Load,
    binary,
    compare,
    const,
)
from ansorc.ir.fault import FaultKind, FaultSite, fault_error
from ansorc.ir.node import walk_distinct
from ansorc.ir.substitute import free_vars
from ansorc.lang.compute_op import Axis, ComputeOp
from ansorc.lang.grid import FloatType, Grid

_BLOCK_ELEMENTS = 1 << 20


def with_known_extent(axis: Axis, bodies: Sequence[Expr], name: str) -> Axis:
    """Return the axis of the computation `name` with an extent above all its values.

    It is that of the dimensions that the axis indexes, or the promised range of its end. Raise
    LanguageError if there is none.
    """
    if not axis.bounds:
        return axis
    limits = [limit for body in bodies for limit in _limits(body, axis.name)]
    end = axis.bounds[1]
    source = end.operand if isinstance(end, Cast) else end
    if isinstance(source, Load) and source.buffer.promised is not None:
        ends = data_bounds(end, {})
        limits += [] if ends is None or ends[1] < 1 else [ends[1]]
    if not limits:
        raise LanguageError(
            f"nothing says how far the range of '{axis.name}' in '{name}' may go: read a tensor at "
            f"'{axis.name}', or give the tensor of its ends a range="
        )
    return replace(axis, extent=min(limits))


def _limits(body: Expr, axis: str) -> Iterator[int]:
    """Yield the least number beyond which `axis` leaves a dimension that it indexes."""
    for load in (part for part in walk_distinct(body) if isinstance(part, Load)):
        for index, extent in zip(load.indices, load.buffer.shape, strict=True):
            form = affine(index)
            if form is not None and form.terms == {axis: 1} and extent > form.constant:
                yield extent - form.constant


@dataclass(frozen=True)
class RaggedTerms:
    """Terms of several rows: dimension 0 is the terms of the axis whose range is data."""

    grid: Grid
    rows: Array
    """The number of the row of each of them."""
    shape: tuple[int, ...]

    def broadcast(self, values: Array) -> Array:
        """Return `values`, one for each term."""
        return np.broadcast_to(values, self.shape)


@dataclass(frozen=True)
class Ragged:
    """The terms of a computation that reduces over an axis whose range is data."""

    op: ComputeOp
    tensors: Mapping[str, Array]
    floats: FloatType

    @property
    def row_axes(self) -> tuple[Axis, ...]:
        """The axes that the range follows."""
        names = {name for bound in self._axis.bounds for name in free_vars(bound)}
        return tuple(axis for axis in self.op.axes if axis.name in names)

    @property
    def other_axes(self) -> tuple[Axis, ...]:
        """The other axes of the result."""
        return tuple(axis for axis in self.op.axes if axis not in self.row_axes)

    @property
    def rank(self) -> int:
        """The dimensions of the terms of a block."""
        return len(self.other_axes) + len(self.op.reduce_axes)

    @property
    def _axis(self) -> Axis:
        assert self.op.ragged_axis is not None
        return self.op.ragged_axis

    def blocks(self) -> Iterator[RaggedTerms]:
        """Yield the terms, some at a time; raise OutOfRangeError for a range that goes too far.

        The dimensions behind the first are the other axes of the result, then of the reduction.
        """
        axis, rows = self._axis, self.row_axes
        begin, end = (self._ends(bound) for bound in axis.bounds)
        counts = np.maximum(end - begin, 0)
        reduce = [other for other in self.op.reduce_axes if other is not axis]
        others = (*self.other_axes, *reduce)
        shape = tuple(other.extent for other in others)
        row_of = np.repeat(np.arange(len(begin)), counts)
        first = np.repeat(begin - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
        values = first + np.arange(len(row_of))
        length = max(1, _BLOCK_ELEMENTS // math.prod(shape))
        for start in range(0, len(row_of), length):
            part = slice(start, start + length)
            places = np.unravel_index(row_of[part], [row.extent for row in rows] or [1])
            columns = {row.name: place for row, place in zip(rows, places, strict=False)}
            columns[axis.name] = values[part]
            rank = 1 + len(others)
            axes = {name: column.reshape(-1, *[1] * (rank - 1)) for name, column in columns.items()}
            for d, other in enumerate(others, start=1):
                along: Array = np.arange(other.extent, dtype=np.int64)
                axes[other.name] = along.reshape([-1 if e == d else 1 for e in range(rank)])
            grid = Grid(axes, self.tensors, self.floats, self.op.name, rank, is_box=False)
            yield RaggedTerms(grid, row_of[part], (len(row_of[part]), *shape))

    def result(self, rows: Array) -> Array:
        """Return results [rows, others] in the order of the axes of the result."""
        axes = [*self.row_axes, *self.other_axes]
        order = [axes.index(axis) for axis in self.op.axes]
        return rows.reshape([axis.extent for axis in axes]).transpose(order)

    def empty(self, value: float, dtype: np.dtype[np.generic]) -> Array:
        """Return an array [rows, others] of `value`."""
        rows = math.prod(axis.extent for axis in self.row_axes)
        return np.full((rows, *(axis.extent for axis in self.other_axes)), value, dtype)

    def _ends(self, bound: Expr) -> Array:
        """Return the begin or the end of each row."""
        rows, axes = self.row_axes, dict[str, Array]()
        for d, row in enumerate(rows):
            along: Array = np.arange(row.extent, dtype=np.int64)
            axes[row.name] = along.reshape([-1 if e == d else 1 for e in range(len(rows))])
        grid = Grid(axes, self.tensors, self.floats, self.op.name, max(1, len(rows)), is_box=False)
        found = np.broadcast_to(grid.evaluate(bound), [row.extent for row in rows] or [1])
        wrong = found[(found < 0) | (found > self._axis.extent)]
        if wrong.size:
            site = FaultSite(FaultKind.INDEX, range_of(self._axis))
            told = int(wrong.flat[0]), 0, self._axis.extent, 0
            raise fault_error(f"'{self.op.name}'", site, told)
        return found.astype(np.int64).ravel()


def range_of(axis: Axis) -> str:
    """Return the words for the range of an axis in messages."""
    return f"the range of {axis.name}"


def checked_end(axis: Axis, end: Expr) -> Expr:
    """Return an end of the range of `axis`; the call fails unless it is in 0 … its extent.

    On a GPU, which goes on, it is moved there.
    """
    low, high = const(0), const(axis.extent)
    inside = [compare(CompareOp.GE, end, low), compare(CompareOp.LE, end, high)]
    told = (end, low, high, const(0))
    checked = Checked(end, conjunction(inside), FaultKind.INDEX, range_of(axis), told)
    return binary(BinaryOp.MIN, binary(BinaryOp.MAX, checked, low), high)
