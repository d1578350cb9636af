"""Evaluate integer expressions to `Linear` form, writing code only for what is not linear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import is_

from ansorc.codegen.llvm.integer import divide
from ansorc.codegen.llvm.linear import Atom, Linear
from ansorc.codegen.llvm.types import Value, literal, wrapped
from ansorc.codegen.llvm.writer import FunctionWriter
from ansorc.ir.dtype import INT64
from ansorc.ir.expr import Binary, BinaryOp, Broadcast, Const, Expr, Ramp, Var, dtype_of
from ansorc.ir.substitute import free_vars

_FULL = 1 << 63


class IndexWriter:
    """The int64 arithmetic of one function: loop variables, index expressions, conditions.

    `value` writes the code of any other expression.
    """

    def __init__(self, writer: FunctionWriter, value: Callable[[Expr], Value]) -> None:
        self._writer = writer
        self._value = value
        self._variables: dict[str, Linear] = {}
        self._atoms: dict[str, Linear] = {}
        self._divisions: dict[int, _Division] = {}

    def bind(self, variable: str, value: Linear) -> None:
        """Let `variable` stand for `value` from here on."""
        self._variables[variable] = value

    @property
    def variables(self) -> dict[str, Linear]:
        """What each variable in sight stands for."""
        return self._variables

    def bind_atom(self, variable: str, name: str, extent: int) -> None:
        """Let `variable` stand for the `i64` `name`, defined here, in 0 … extent - 1."""
        bounds = (0, extent - 1)
        self._variables[variable] = self._atom(name, self._writer.depth, bounds)

    def bind_argument(self, variable: str, name: str, bounds: tuple[int, int] | None) -> None:
        """Let `variable` stand for the function's argument `name`."""
        self._variables[variable] = self._atom(name, 0, bounds)

    def linear(self, expr: Expr) -> Linear | None:
        """Return the value of an int64 `expr`; None for a vector without a constant step."""
        match expr:
            case Var(name):
                return self._variables[name]
            case Const(value, dtype):
                return Linear(constant=int(value), lanes=dtype.lanes)
            case Binary(op, left, right):
                return self._binary(op, self.linear(left), self.linear(right))
            case Ramp(base, stride, lanes):
                start, step = self.linear(base), self.linear(stride)
                if start is None or step is None or not step.is_constant:
                    return None
                return Linear(start.terms, start.constant, lanes, step.constant)
            case Broadcast(operand, lanes):
                inner = self.linear(operand)
                return inner and Linear(inner.terms, inner.constant, lanes)
            case _:
                return None if dtype_of(expr).lanes > 1 else self._opaque(self._value(expr))

    def divided(self, expr: Binary) -> Linear:
        """Return the value of a scalar quotient or rest, worked out once while it is the same."""
        known = self._divisions.get(id(expr))
        if known is None:
            known = self._divisions[id(expr)] = _Division(expr, tuple(free_vars(expr)))
        sources = [self._variables[name] for name in known.names]
        if known.value is None or not all(map(is_, sources, known.sources)):
            known.sources, known.value = sources, self.linear(expr)
            assert known.value is not None
            if _depth(known.value) > max(map(_depth, sources), default=0):
                value, known.value = known.value, None  # it may not be in sight the next time
                return value
        return known.value

    def lanes(self, expr: Expr, count: int) -> list[Linear]:
        """Return each of the `count` lanes of an int64 `expr` as a scalar."""
        whole = self.linear(expr)
        if whole is not None:
            return [whole.lane(number) for number in range(count)]
        match expr:
            case Binary(op, left, right):
                pairs = zip(self.lanes(left, count), self.lanes(right, count), strict=True)
                return [self._scalar(op, a, b) for a, b in pairs]
            case Ramp(base, stride, _):
                start, step = self.lanes(base, 1)[0], self.lanes(stride, 1)[0]
                return [start.plus(step.times(number)) for number in range(count)]
            case Broadcast(operand, _):
                return self.lanes(operand, 1) * count
            case _:
                vector = self._value(expr)
                return [self._extract(vector, number) for number in range(count)]

    def gap(self, left: Linear, right: Linear) -> Linear | None:
        """Return `left - right`, whose sign orders them; None if one of them may overflow."""
        if left.bounds() is None or right.bounds() is None:
            return None
        return left.plus(right, -1)

    def materialize(self, linear: Linear) -> Value:
        """Return a scalar `linear` as an operand, its code hoisted as far out as it can be."""
        if not linear.terms:
            return literal(linear.constant, INT64)
        terms = linear.ordered()
        flags = "nsw " if linear.bounds() is not None else ""
        name, depth = "", 0
        for atom, coefficient in terms:
            scaled = atom.name
            if coefficient != 1:
                text = f"mul {flags}i64 {atom.name}, {wrapped(coefficient, 64)}"
                scaled = self._shared(text, atom.depth)
            depth = max(depth, atom.depth)
            name = self._sum(flags, name, scaled, depth) if name else scaled
        if linear.constant:
            name = self._sum(flags, name, str(wrapped(linear.constant, 64)), depth)
        return Value(name, INT64)

    def _sum(self, flags: str, left: str, right: str, depth: int) -> str:
        return self._shared(f"add {flags}i64 {left}, {right}", depth)

    def _shared(self, text: str, depth: int) -> str:
        """Write a pure instruction once a scope."""
        memo = self._writer.scopes[depth].memo
        name = memo.get(text)
        if name is None:
            name = memo[text] = self._writer.emit_at(depth, text)
        return name

    def _binary(self, op: BinaryOp, left: Linear | None, right: Linear | None) -> Linear | None:
        if left is None or right is None:
            return None
        match op:
            case BinaryOp.ADD:
                return left.plus(right)
            case BinaryOp.SUB:
                return left.plus(right, -1)
            case BinaryOp.MUL if left.is_constant or right.is_constant:
                product = self._scalar(op, left, right)
            case _ if left.step or right.step:
                return None
            case _:
                product = self._scalar(op, left, right)
        return Linear(product.terms, product.constant, max(left.lanes, right.lanes), product.step)

    def _scalar(self, op: BinaryOp, left: Linear, right: Linear) -> Linear:
        match op:
            case BinaryOp.ADD:
                return left.plus(right)
            case BinaryOp.SUB:
                return left.plus(right, -1)
            case BinaryOp.MUL if left.is_constant or right.is_constant:
                factor = left if left.is_constant else right
                return (right if factor is left else left).times(factor.constant)
            case BinaryOp.MUL:
                a, b = self.materialize(left), self.materialize(right)
                return self._derived(f"mul i64 {a.text}, {b.text}", (left, right), None)
            case BinaryOp.FLOORDIV | BinaryOp.MOD if _is_positive(right):
                return self._divided(op, left, right.constant)
            case BinaryOp.FLOORDIV | BinaryOp.MOD:
                a, b = self.materialize(left), self.materialize(right)
                return self._opaque(divide(self._writer, op, a, b))
            case _:
                return self._extreme(op, left, right)

    def _extreme(self, op: BinaryOp, left: Linear, right: Linear) -> Linear:
        smaller = op is BinaryOp.MIN
        gap = self.gap(left, right)
        ends = gap.bounds() if gap else None
        if ends and (ends[1] <= 0 or ends[0] >= 0):
            return left if (ends[1] <= 0) == smaller else right
        a, b = self.materialize(left), self.materialize(right)
        name = "llvm.smin.i64" if smaller else "llvm.smax.i64"
        self._writer.module.declare(f"declare i64 @{name}(i64, i64)")
        choose = min if smaller else max
        ours, theirs = left.bounds(), right.bounds()
        bounds = (
            (choose(ours[0], theirs[0]), choose(ours[1], theirs[1])) if ours and theirs else None
        )
        return self._derived(f"call i64 @{name}(i64 {a.text}, i64 {b.text})", (left, right), bounds)

    def _divided(self, op: BinaryOp, dividend: Linear, divisor: int) -> Linear:
        """Divide by a positive constant, doing now what does not depend on run-time values."""
        parts = dividend.divided(divisor)
        if parts is None:
            a = self.materialize(dividend)
            return self._opaque(divide(self._writer, op, a, literal(divisor, INT64)))
        quotient, rest = parts
        bounds = rest.bounds()
        assert bounds is not None
        low, high = bounds[0] // divisor, bounds[1] // divisor
        if low == high:
            more = Linear(constant=low)
        elif low >= 0:
            text = f"udiv i64 {self.materialize(rest).text}, {divisor}"
            more = self._derived(text, (rest,), (low, high))
        else:
            more = self._floor(rest, divisor, (low, high))
        if op is BinaryOp.FLOORDIV:
            return quotient.plus(more)
        if low == high or low < 0:
            return rest.plus(more.times(divisor), -1)
        text = f"urem i64 {self.materialize(rest).text}, {divisor}"
        return self._derived(text, (rest,), (0, divisor - 1))

    def _floor(self, dividend: Linear, divisor: int, bounds: tuple[int, int]) -> Linear:
        """Shift a negative dividend up by a multiple of the divisor: the division is unsigned."""
        shift = -bounds[0]
        text = f"udiv i64 {self.materialize(dividend.shifted(shift * divisor)).text}, {divisor}"
        return self._derived(text, (dividend,), (0, bounds[1] + shift)).shifted(-shift)

    def _derived(
        self, text: str, sources: tuple[Linear, ...], bounds: tuple[int, int] | None
    ) -> Linear:
        depth = max(map(_depth, sources))
        return self._atom(self._shared(text, depth), depth, bounds)

    def _opaque(self, value: Value) -> Linear:
        """Treat an operand computed here as one more run-time number."""
        return self._atom(value.text, self._writer.depth, None)

    def _extract(self, vector: Value, number: int) -> Linear:
        text = f"extractelement {vector.typed}, i64 {number}"
        return self._opaque(Value(self._writer.emit(text), INT64))

    def _atom(self, name: str, depth: int, bounds: tuple[int, int] | None) -> Linear:
        """Return the atom called `name`: the one made before if that is in sight here."""
        found = self._atoms.get(name)
        if found is None or next(iter(found.terms)).depth > self._writer.depth:
            low, high = bounds or (-_FULL, _FULL - 1)
            atom = Atom(name, depth, len(self._atoms), low, high)
            found = self._atoms[name] = Linear({atom: 1})
        return found


@dataclass(slots=True)
class _Division:
    """A quotient or rest, and its value where its variables stand for `sources`."""

    expr: Binary
    names: tuple[str, ...]
    sources: Sequence[Linear] = ()
    value: Linear | None = None


def _depth(linear: Linear) -> int:
    return max((atom.depth for atom in linear.terms), default=0)


def _is_positive(divisor: Linear) -> bool:
    return divisor.is_constant and 0 < divisor.constant < _FULL
