"""Evaluate integer expressions to linear form, writing code only for what is not linear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import is_

from ansorc.codegen.llvm.integer import divide
from ansorc.codegen.llvm.lane_index import (
    LaneIndex,
    Symbol,
    bounds,
    by_depth,
    depth_of,
    lane_form,
)
from ansorc.codegen.llvm.math import arithmetic
from ansorc.codegen.llvm.types import Value, literal, wrap_signed
from ansorc.codegen.llvm.vector import extract
from ansorc.codegen.llvm.writer import FunctionWriter
from ansorc.ir.arith.affine import Atom, Linear
from ansorc.ir.arith.bits import bit_bounds
from ansorc.ir.arith.data_bounds import data_bounds
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import INT64, DType, Kind
from ansorc.ir.expr import Binary, BinaryOp, Broadcast, Cast, Expr, Ramp, dtype_of
from ansorc.ir.operator import BITWISE
from ansorc.ir.passes.queries import reads_memory
from ansorc.ir.substitute import free_vars

_FULL = 1 << 63
_BITS = 64


class IndexWriter:
    """The int64 arithmetic of one function: loop variables, index expressions, conditions.

    `value` writes the code of any other expression.
    """

    def __init__(self, writer: FunctionWriter, value: Callable[[Expr], Value]) -> None:
        self._writer = writer
        self._value = value
        self._variables: dict[str, Linear[Symbol]] = {}
        self._symbols: dict[str, Linear[Symbol]] = {}
        self._forms: dict[object, tuple[object, LaneIndex[Atom] | None]] = {}
        """Forms that serve all copies, by the identity of what is kept alive with them."""
        self._products: dict[int, _Product] = {}

    def bind(self, variable: str, value: Linear[Symbol]) -> None:
        """Let `variable` stand for `value` from here on."""
        self._variables[variable] = value

    @property
    def variables(self) -> dict[str, Linear[Symbol]]:
        """Return what each variable in sight stands for."""
        return self._variables

    def bind_symbol(self, variable: str, name: str, extent: int) -> None:
        """Let `variable` stand for the `i64` `name`, defined here, in 0 … extent - 1."""
        self._variables[variable] = self._symbol(name, self._writer.depth, (0, extent - 1))

    def bind_argument(self, variable: str, name: str, ends: tuple[int, int] | None) -> None:
        """Let `variable` stand for the function's argument `name`."""
        self._variables[variable] = self._symbol(name, 0, ends)

    def linear(self, expr: Expr) -> LaneIndex[Symbol] | None:
        """Return the value of an int64 `expr`; None for a vector without a constant step."""
        known = self._forms.get(id(expr))
        if known is None:
            known = self._forms[id(expr)] = expr, lane_form((expr,))
        return self._at(known[1])

    def distance(self, buffer: Buffer, indices: tuple[Expr, ...]) -> LaneIndex[Symbol] | None:
        """Return the elements from the start of `buffer` to `indices`; None as of `linear`."""
        key = id(buffer), id(indices)
        known = self._forms.get(key)
        if known is None:
            known = self._forms[key] = (buffer, indices), lane_form(indices, buffer.strides)
        return self._at(known[1])

    def _at(self, form: LaneIndex[Atom] | None) -> LaneIndex[Symbol] | None:
        if form is None:
            return None
        total: Linear[Symbol] = Linear({}, form.first.constant)
        for atom, coefficient in form.first.terms.items():
            value = self._variables[atom] if isinstance(atom, str) else self._term(atom)
            if value.terms:
                total.add_scaled(value, coefficient)
            else:  # of a loop that is unrolled
                total.constant += coefficient * value.constant
        return LaneIndex(total, form.lanes, form.step)

    def _term(self, atom: Expr) -> Linear[Symbol]:
        """Return what a scalar, neither a sum nor a variable, stands for."""
        if not isinstance(atom, Binary):
            return self._opaque(self._value(atom))
        known = self._products.get(id(atom))
        if known is None:
            names = () if reads_memory(atom) else tuple(free_vars(atom))
            known = self._products[id(atom)] = _Product(atom, names)
        sources = [self._variables[name] for name in known.names]
        if known.value is not None and all(map(is_, sources, known.sources)):
            return known.value
        value = self._scalar(atom.op, self._only(atom.left), self._only(atom.right))
        # What is defined deeper than its variables may not be in sight the next time.
        is_kept = depth_of(value) <= max(map(depth_of, sources), default=-1)
        known.sources, known.value = sources, value if is_kept else None
        return value

    def _only(self, expr: Expr) -> Linear[Symbol]:
        """Return the value of a scalar."""
        linear = self.linear(expr)
        assert linear is not None
        return linear.first

    def lanes(self, expr: Expr, count: int) -> list[Linear[Symbol]]:
        """Return each of the `count` lanes of an int64 `expr` as a scalar."""
        whole = self.linear(expr)
        if whole is not None:
            return [whole.lane(number) for number in range(count)]
        match expr:
            case Binary(op, left, right):
                pairs = zip(self.lanes(left, count), self.lanes(right, count), strict=True)
                return [self._scalar(op, a, b) for a, b in pairs]
            case Ramp(base, stride, _):
                start, step = self._only(base), self._only(stride)
                return [start.plus(step.times(number)) for number in range(count)]
            case Broadcast(operand, _):
                return [self._only(operand)] * count
            case Cast(_, operand) if is_widened(dtype_of(operand), dtype_of(expr)):
                return self._widen_lanes(operand, count)
            case _:
                vector = self._value(expr)
                return [self._extract(vector, number) for number in range(count)]

    def _widen_lanes(self, operand: Expr, count: int) -> list[Linear[Symbol]]:
        """Return each lane of narrower integers, taken out of the vector before it is widened."""
        ends = data_bounds(operand, {})
        while isinstance(operand, Cast) and is_widened(dtype_of(operand.operand), operand.dtype):
            operand = operand.operand
        vector, source = self._value(operand), dtype_of(operand).element
        is_signed = source.kind is Kind.INT and (ends is None or ends[0] < 0)
        extension, numbers = "sext" if is_signed else "zext", range(count)
        elements = [extract(self._writer, vector, number) for number in numbers]
        wide = [self._writer.emit(f"{extension} {e.typed} to i64") for e in elements]
        return [self._symbol(name, self._writer.depth, ends) for name in wide]

    def materialize(self, linear: Linear[Symbol]) -> Value:
        """Return a scalar `linear` as an operand, its code hoisted as far out as it can be."""
        if not linear.terms:
            return literal(linear.constant, INT64)
        terms = by_depth(linear)
        flags = "nsw " if bounds(linear) is not None else ""
        name, depth = "", 0
        for atom, coefficient in terms:
            scaled = atom.name
            if coefficient != 1:
                text = f"mul {flags}i64 {atom.name}, {wrap_signed(coefficient, 64)}"
                scaled = self._write_once(text, atom.depth)
            depth = max(depth, atom.depth)
            name = self._sum(flags, name, scaled, depth) if name else scaled
        if linear.constant:
            name = self._sum(flags, name, str(wrap_signed(linear.constant, 64)), depth)
        return Value(name, INT64)

    def _sum(self, flags: str, left: str, right: str, depth: int) -> str:
        return self._write_once(f"add {flags}i64 {left}, {right}", depth)

    def _write_once(self, text: str, depth: int) -> str:
        """Write a pure instruction once a scope."""
        memo = self._writer.scopes[depth].memo
        name = memo.get(text)
        if name is None:
            name = memo[text] = self._writer.emit_at(depth, text)
        return name

    def _scalar(self, op: BinaryOp, left: Linear[Symbol], right: Linear[Symbol]) -> Linear[Symbol]:
        match op:
            case BinaryOp.ADD:
                return left.plus(right)
            case BinaryOp.SUB:
                return left.plus(right, -1)
            case BinaryOp.MUL if not (left.terms and right.terms):
                return left.times(right.constant) if left.terms else right.times(left.constant)
            case BinaryOp.MUL:
                a, b = self.materialize(left), self.materialize(right)
                return self._derive(f"mul i64 {a.text}, {b.text}", (left, right), None)
            case BinaryOp.FLOORDIV | BinaryOp.MOD if _is_positive(right):
                return self._divide(op, left, right.constant)
            case BinaryOp.FLOORDIV | BinaryOp.MOD:
                a, b = self.materialize(left), self.materialize(right)
                return self._opaque(divide(self._writer, op, a, b))
            case _ if op in BITWISE:
                return self._bits(op, left, right)
            case _:
                return self._extreme(op, left, right)

    def _bits(self, op: BinaryOp, left: Linear[Symbol], right: Linear[Symbol]) -> Linear[Symbol]:
        if op is BinaryOp.SHL and not right.terms and 0 <= right.constant < _BITS - 1:
            return left.times(1 << right.constant)
        value = arithmetic(self._writer, op, self.materialize(left), self.materialize(right))
        ours, theirs = bounds(left), bounds(right)
        ends = bit_bounds(op, ours, theirs, _BITS) if ours and theirs else None
        is_index = ends is not None and ends[0] >= -_FULL and ends[1] < _FULL
        return self._symbol(value.text, self._writer.depth, ends if is_index else None)

    def _extreme(self, op: BinaryOp, left: Linear[Symbol], right: Linear[Symbol]) -> Linear[Symbol]:
        smaller = op is BinaryOp.MIN
        ours, theirs = bounds(left), bounds(right)
        ends = bounds(left.plus(right, -1)) if ours and theirs else None
        if ends and (ends[1] <= 0 or ends[0] >= 0):
            return left if (ends[1] <= 0) == smaller else right
        a, b = self.materialize(left), self.materialize(right)
        name = "llvm.smin.i64" if smaller else "llvm.smax.i64"
        self._writer.module.declare(f"declare i64 @{name}(i64, i64)")
        choose = min if smaller else max
        both = (choose(ours[0], theirs[0]), choose(ours[1], theirs[1])) if ours and theirs else None
        return self._derive(f"call i64 @{name}(i64 {a.text}, i64 {b.text})", (left, right), both)

    def _divide(self, op: BinaryOp, dividend: Linear[Symbol], divisor: int) -> Linear[Symbol]:
        """Divide by a positive constant, doing now what does not depend on run-time values."""
        if bounds(dividend) is None:
            a = self.materialize(dividend)
            return self._opaque(divide(self._writer, op, a, literal(divisor, INT64)))
        whole = {symbol: c // divisor for symbol, c in dividend.terms.items() if c // divisor}
        quotient = Linear(whole, dividend.constant // divisor)
        rest = dividend.plus(quotient, -divisor)
        ends = bounds(rest)
        assert ends is not None
        low, high = ends[0] // divisor, ends[1] // divisor
        more: Linear[Symbol] = Linear(constant=low)
        if 0 <= low < high:
            text = f"udiv i64 {self.materialize(rest).text}, {divisor}"
            more = self._derive(text, (rest,), (low, high))
        elif low < high:
            more = self._floor(rest, divisor, (low, high))
        if op is BinaryOp.FLOORDIV:
            return quotient.plus(more)
        if low == high or low < 0:
            return rest.plus(more, -divisor)
        text = f"urem i64 {self.materialize(rest).text}, {divisor}"
        return self._derive(text, (rest,), (0, divisor - 1))

    def _floor(
        self, dividend: Linear[Symbol], divisor: int, ends: tuple[int, int]
    ) -> Linear[Symbol]:
        """Shift a negative dividend up by a multiple of the divisor: the division is unsigned."""
        shift = -ends[0]
        text = f"udiv i64 {self.materialize(dividend.offset_by(shift * divisor)).text}, {divisor}"
        return self._derive(text, (dividend,), (0, ends[1] + shift)).offset_by(-shift)

    def _derive(
        self, text: str, sources: tuple[Linear[Symbol], ...], ends: tuple[int, int] | None
    ) -> Linear[Symbol]:
        depth = max(map(depth_of, sources))
        return self._symbol(self._write_once(text, depth), depth, ends)

    def _opaque(self, value: Value) -> Linear[Symbol]:
        """Treat an operand computed here as one more run-time number."""
        return self._symbol(value.text, self._writer.depth, None)

    def _extract(self, vector: Value, number: int) -> Linear[Symbol]:
        text = f"extractelement {vector.typed}, i64 {number}"
        return self._opaque(Value(self._writer.emit(text), INT64))

    def _symbol(self, name: str, depth: int, ends: tuple[int, int] | None) -> Linear[Symbol]:
        """Return the symbol `name`: the one made before if that is in sight here."""
        known = self._symbols.get(name)
        if known is None or next(iter(known.terms)).depth > self._writer.depth:
            low, high = ends or (-_FULL, _FULL - 1)
            symbol = Symbol(name, depth, len(self._symbols), low, high)
            known = self._symbols[name] = Linear({symbol: 1})
        return known


@dataclass(slots=True)
class _Product:
    """A product, quotient … of scalars, and its value where its variables stand for `sources`."""

    expr: Binary
    names: tuple[str, ...]
    sources: Sequence[Linear[Symbol]] = ()
    value: Linear[Symbol] | None = None


def is_widened(source: DType, goal: DType) -> bool:
    """Return whether each integer of `source` is one of `goal`, with more bits."""
    is_kept = source.kind is goal.kind or source.kind is Kind.UINT
    return source.is_integer and goal.is_integer and is_kept and source.bits < goal.bits


def _is_positive(divisor: Linear[Symbol]) -> bool:
    return not divisor.terms and 0 < divisor.constant < _FULL
