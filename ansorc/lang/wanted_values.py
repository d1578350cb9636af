"""Find values of inputs for which every index computed from them is inside its tensor.

`T[I[i] * 4 + j]` with T of 40 elements and j below 4 needs I to be 0 to 9. The interval of an index
is propagated backward through its arithmetic, and through computations, to the inputs (Benhamou et
al., Revising hull and box consistency, 1999). The result may be narrower than needed. If two
tensors are added, each gets a part, so that all of the indexed tensor is reached.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ansorc.ir.dtype import DType
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Cast,
    Checked,
    Const,
    Expr,
    Load,
    Select,
    Var,
    dtype_of,
)
from ansorc.ir.fault import FaultKind
from ansorc.ir.interpret_math import integer_range
from ansorc.ir.node import children
from ansorc.lang.compute_op import Combiner, ComputeOp
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.scan_form import accumulation_of

Span: TypeAlias = tuple[float, float]
"""The least and the largest value, perhaps infinite."""
_ANY: Span = (-math.inf, math.inf)


def find_wanted_values(
    dag: ComputeDAG, outputs: Mapping[str, Span] | None = None
) -> dict[str, Span]:
    """Return the spans of those inputs of `dag` from which indices are computed, by name.

    `outputs` gives the wanted spans of outputs, by name. An empty span is left out: then no value
    is right for all readers.
    """
    wanted = dict[str, Span](outputs or {})
    for op in reversed(dag.ops):
        walk = _Backward(op, wanted)
        for axis in op.reduce_axes:
            for bound in axis.bounds:
                walk.visit(bound, (0, axis.extent), is_guarded=False)
        extents = {axis.name: axis.extent for axis in op.axes}
        for place in op.places:
            walk.visit(place.index, (0, extents[place.axis] - 1), is_guarded=False)
        for each in op.step_sums:
            walk.visit(each.body, _ANY, is_guarded=False)
        for load in op.overwrites:
            walk.visit(load, _ANY, is_guarded=False)
        for part, span in _parts(op, wanted):
            walk.visit(part, span, is_guarded=False)
        for each in reversed(op.temporaries):
            walk.visit(each.value, wanted.get(each.buffer.name, _ANY), is_guarded=False)
    inputs = {buffer.name: buffer.dtype for buffer in dag.inputs}
    spans = {name: _round(span, inputs[name]) for name, span in wanted.items() if name in inputs}
    return {name: span for name, span in spans.items() if span[0] <= span[1] and span != _ANY}


def _parts(op: ComputeOp, wanted: Mapping[str, Span]) -> Iterator[tuple[Expr, Span]]:
    """Yield the parts of `op` with the spans that they should have, for those of its results."""
    spans = [wanted.get(buffer.name, _ANY) for buffer in op.buffers]
    form = accumulation_of(op)
    if form is not None and form.combiner is Combiner.SUM:
        count = 1 + next(axis.extent for axis in op.axes if axis.name == op.scan_axis)
        share = spans[0][0] / count, spans[0][1] / count
        yield from ((form.term, share), (op.inits[0], share))
        return
    for body, span in zip(op.bodies, spans, strict=True):
        yield body, _of_terms(op, span)
    yield from zip(op.inits, spans, strict=False)


def _of_terms(op: ComputeOp, span: Span) -> Span:
    """Return the span of the terms of a reduction whose result is to be in `span`."""
    if op.combiner is None or op.combiner in (Combiner.MAX, Combiner.MIN):
        return span
    if op.combiner is Combiner.SUM:
        count = math.prod(axis.extent for axis in op.reduce_axes)
        return span[0] / count, span[1] / count
    return _ANY


def _round(span: Span, dtype: DType) -> Span:
    if dtype.is_float or not dtype.is_integer:
        return span
    low, high = integer_range(dtype)
    least = low if span[0] == -math.inf else max(low, math.ceil(span[0]))
    most = high if span[1] == math.inf else min(high, math.floor(span[1]))
    return _ANY if (least, most) == (low, high) else (least, most)


@dataclass
class _Backward:
    """The walk through the bodies of one computation; it narrows the spans of tensors."""

    op: ComputeOp
    wanted: dict[str, Span]
    seen: set[tuple[int, Span, bool]] = field(default_factory=set[tuple[int, Span, bool]])

    def visit(self, expr: Expr, span: Span, *, is_guarded: bool) -> None:
        """Require `expr` to be in `span`; `is_guarded`: only under an unknown condition."""
        key = id(expr), span, is_guarded
        if key in self.seen:
            return
        self.seen.add(key)
        match expr:
            case Load():
                self._load(expr, span, is_guarded=is_guarded)
            case Cast(dtype, operand):
                is_whole = not dtype.is_float and dtype_of(operand).is_float
                wide = (span[0], math.nextafter(span[1] + 1, -math.inf)) if is_whole else span
                self.visit(operand, wide, is_guarded=is_guarded)
            case Binary(op, left, right):
                self._binary(op, (left, right), span, is_guarded=is_guarded)
            case Select(condition, then, otherwise):
                self.visit(condition, _ANY, is_guarded=is_guarded)
                for arm in (then, otherwise):
                    self.visit(arm, span, is_guarded=True)
            case Checked(value, condition):
                checked = _span_of_check(expr)
                self.visit(condition, _ANY, is_guarded=is_guarded)
                self.visit(value, _common(span, checked), is_guarded=is_guarded)
            case _:
                for below in children(expr):
                    self.visit(below, _ANY, is_guarded=is_guarded)  # pyright: ignore[reportArgumentType]

    def _load(self, load: Load, span: Span, *, is_guarded: bool) -> None:
        name = load.buffer.name
        if span != _ANY:
            both = _common(self.wanted.get(name, _ANY), span)
            self.wanted[name] = both if both[0] <= both[1] else span
        for index, extent in zip(load.indices, load.buffer.shape, strict=True):
            if _reads(index):
                self.visit(index, (0, extent - 1), is_guarded=is_guarded)

    def _binary(
        self, op: BinaryOp, sides: tuple[Expr, Expr], span: Span, *, is_guarded: bool
    ) -> None:
        spans = [self._forward(side) for side in sides]
        if op in (BinaryOp.ADD, BinaryOp.SUB) and span != _ANY:
            wanted = self._terms(op, sides, span, is_guarded=is_guarded)
        elif op in (BinaryOp.MIN, BinaryOp.MAX):
            wanted = [span, span]
        else:
            wanted = [_invert(op, span, spans[1 - n], is_left=n == 0) for n in range(2)]
        for side, span_ in zip(sides, wanted, strict=True):
            self.visit(side, span_, is_guarded=is_guarded)

    def _terms(
        self, op: BinaryOp, sides: tuple[Expr, Expr], span: Span, *, is_guarded: bool
    ) -> list[Span]:
        """Return the spans of both sides of a sum.

        If both sides read data, each gets a share of the span.
        """
        sign = 1 if op is BinaryOp.ADD else -1
        left, right = (self._forward(side) for side in sides)
        reads = [_reads(side) for side in sides]
        if all(reads):
            return self._shares(sides, span, sign)
        other = right if reads[0] else left
        if is_guarded and math.isfinite(span[0]) and math.isfinite(span[1]):
            end = other[0] if sign > 0 or not reads[0] else other[1]
            other = (end, end)
        if reads[0]:
            low, high = (other[0], other[1]) if sign > 0 else (-other[1], -other[0])
            return [(span[0] - low, span[1] - high), _ANY]
        if sign > 0:
            return [_ANY, (span[0] - other[0], span[1] - other[1])]
        return [_ANY, (other[1] - span[1], other[0] - span[0])]

    def _shares(self, sides: tuple[Expr, Expr], span: Span, sign: int) -> list[Span]:
        """Return the shares of a span for both sides, by their factors, or halves."""
        factors = [_factor(side) for side in sides]
        width = span[1] - span[0]
        if sign < 0:
            middle = span[0] + width / 2
            return [(middle, span[1]), (0, span[1] - middle)]
        small = 0 if factors[0] < factors[1] else 1
        large = max(factors)
        if factors[0] == factors[1]:
            part = width / 2
        else:
            part = min(width, max(large - factors[small], 0.0))
        share = [(span[0], span[1] - part), (0.0, part)]
        return share if small == 1 else share[::-1]

    def _forward(self, expr: Expr) -> Span:
        """Return the span of `expr` that follows from axes and literals."""
        inner = [axis for each in self.op.step_sums for axis in each.axes]
        extents = {a.name: a.extent for a in (*self.op.axes, *self.op.reduce_axes, *inner)}
        match expr:
            case Const(value):
                return float(value), float(value)
            case Var(name):
                return 0, extents[name] - 1
            case Cast(_, operand) | Checked(operand):
                return self._forward(operand)
            case Binary(op, left, right):
                return _compute_span(op, self._forward(left), self._forward(right))
            case _:
                return _ANY


def _compute_span(op: BinaryOp, a: Span, b: Span) -> Span:
    if not all(map(math.isfinite, (*a, *b))):
        return _ANY
    match op:
        case BinaryOp.ADD:
            return a[0] + b[0], a[1] + b[1]
        case BinaryOp.SUB:
            return a[0] - b[1], a[1] - b[0]
        case BinaryOp.MUL:
            corners = [x * y for x in a for y in b]
            return min(corners), max(corners)
        case BinaryOp.FLOORDIV | BinaryOp.DIV if b[0] > 0:
            corners = [x / y for x in a for y in b]
            return math.floor(min(corners)), max(corners)
        case BinaryOp.MOD if b[0] > 0:
            return 0, b[1] - 1
        case BinaryOp.MIN:
            return min(a[0], b[0]), min(a[1], b[1])
        case BinaryOp.MAX:
            return max(a[0], b[0]), max(a[1], b[1])
        case _:
            return _ANY


def _invert(op: BinaryOp, span: Span, other: Span, *, is_left: bool) -> Span:
    """Return the span of one side of a product, quotient or remainder; the other is a number."""
    number = other[0]
    if span == _ANY or other[0] != other[1] or number <= 0:
        return _ANY
    match op:
        case BinaryOp.MUL:
            return span[0] / number, span[1] / number
        case BinaryOp.DIV if is_left:
            return span[0] * number, span[1] * number
        case BinaryOp.FLOORDIV if is_left:
            return span[0] * number, span[1] * number + number - 1
        case BinaryOp.SHL if is_left:
            return span[0] / 2**number, span[1] / 2**number
        case BinaryOp.SHR if is_left:
            return span[0] * 2**number, span[1] * 2**number + 2**number - 1
        case BinaryOp.MOD if is_left:
            return _common(span, (0, number - 1))
        case _:
            return _ANY


def _factor(expr: Expr) -> float:
    """Return the factor of the data in a term of a sum."""
    match expr:
        case Binary(BinaryOp.MUL, left, Const(value)) if value > 0:
            return value * _factor(left)
        case Binary(BinaryOp.MUL, Const(value), right) if value > 0:
            return value * _factor(right)
        case Binary(BinaryOp.ADD | BinaryOp.SUB, left, right):
            return max(_factor(side) if _reads(side) else 0.0 for side in (left, right))
        case Cast(_, operand) | Checked(operand):
            return _factor(operand)
        case _:
            return 1.0


def _span_of_check(expr: Checked) -> Span:
    if expr.kind is not FaultKind.INDEX or len(expr.args) < 3:
        return _ANY
    low, high = expr.args[1], expr.args[2]
    if not isinstance(low, Const) or not isinstance(high, Const):
        return _ANY
    return max(0.0, float(low.value)), float(high.value)


def _common(a: Span, b: Span) -> Span:
    return max(a[0], b[0]), min(a[1], b[1])


def _reads(expr: Expr) -> bool:
    if isinstance(expr, Load):
        return True
    return any(_reads(below) for below in children(expr))  # pyright: ignore[reportArgumentType]
