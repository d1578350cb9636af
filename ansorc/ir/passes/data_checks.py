"""Find the parts of a statement that depend on data and must be checked before it runs.

C[i] = T[cast(int64, I[i])]    ->    check cast(uint64, I[i]) < 10, index_out_of_range, "T", …
                                     C[i] = T[cast(int64, I[i])]

An index that reads memory is checked unless the dtype of the data keeps it inside. An integer
divisor is checked unless it cannot be 0. A `Checked` value is split into the value and its check. A
value that is only evaluated under a condition is only checked under that condition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from ansorc.ir.arith.affine import integer
from ansorc.ir.arith.data_bounds import data_bounds
from ansorc.ir.arith.interval import Interval, Ranges
from ansorc.ir.arith.scalar import conjunction
from ansorc.ir.dim import SizeLike, least_of
from ansorc.ir.dtype import BOOL, INT32, INT64, UINT32, UINT64, DType
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Broadcast,
    Cast,
    Checked,
    Compare,
    CompareOp,
    Const,
    Dot,
    Expr,
    Load,
    Not,
    Reduce,
    Select,
    const,
    dtype_of,
)
from ansorc.ir.fault import FaultKind
from ansorc.ir.node import Node, map_children, rewrite, walk
from ansorc.ir.passes.queries import reads_memory
from ansorc.ir.printer import expr_text
from ansorc.ir.size_expr import size_expr
from ansorc.ir.stmt import Check

Guards = tuple[Expr, ...]
_NARROW = 1 << 31


@dataclass(frozen=True)
class GuardedCheck:
    """A check, and the scalar conditions under which it is done."""

    check: Check
    guards: Guards


@dataclass(frozen=True)
class CheckRules:
    """The choice of checks."""

    indices: bool
    """Whether indices are checked; everything else always is."""
    clamps: bool
    """Whether an index that fails is clamped to the tensor, since the kernel goes on."""

    @property
    def trusts(self) -> bool:
        """Whether promises of inputs hold, because the kernel stops at a failed check."""
        return not self.clamps

    def leaves_out(self, kind: FaultKind) -> bool:
        """Return whether checks of this kind are omitted."""
        return not self.indices and kind in (FaultKind.INDEX, FaultKind.VALUE)


class DataChecks:
    """Takes the checks out of expressions, in the order in which they must be done.

    `masks` are conditions on lanes that hold for all expressions.
    """

    def __init__(self, ranges: Ranges, rules: CheckRules, masks: Guards = ()) -> None:
        self.found: list[GuardedCheck] = []
        self._ranges, self._rules = ranges, rules
        self._masks: Guards = masks
        self._known: dict[tuple[int, int], tuple[Expr, Guards, Expr]] = {}
        """Results by the ids of an expression and of its guards; the entry keeps both alive."""
        self._ends: dict[tuple[int, int], tuple[Expr, Guards, Interval]] = {}

    def expr(self, expr: Expr) -> Expr:
        """Return `expr` without checks, and collect the checks."""
        return self._visit(expr, self._masks)

    def check(self, stmt: Check) -> None:
        """Collect the check `stmt`, after the checks of the values that it reads."""
        condition = self._visit(stmt.condition, self._masks)
        told = tuple(self._visit(arg, self._masks) for arg in stmt.args)
        self._add(Check(condition, stmt.kind, stmt.about, told), self._masks)

    @property
    def _shortens(self) -> bool:
        """Whether a checked index need not be clamped: the kernel stops if the check fails."""
        return self._rules.indices and not self._rules.clamps

    def _visit(self, expr: Expr, guards: Guards) -> Expr:
        if not has_checks(expr):
            return expr
        key = id(expr), id(guards)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = expr, guards, self._visit_parts(expr, guards)
        return known[2]

    def _visit_parts(self, expr: Expr, guards: Guards) -> Expr:
        match expr:
            case Select(condition, then, otherwise):
                test = self._visit(condition, guards)
                first = self._visit(then, (*guards, test))
                second = self._visit(otherwise, (*guards, Not(test)))
                return Select(test, first, second)
            case Checked():
                return self._check_value(expr, guards)
            case Load():
                return self._load(expr, guards)
            case Binary() if self._shortens and (inner := _check_before_clamp(expr)) is not None:
                return self._clamp(expr, inner, guards)
            case Binary(BinaryOp.FLOORDIV | BinaryOp.MOD):
                return self._division(expr, guards)
            case Reduce() | Dot():
                inside = tuple(_for_any(guard) for guard in guards)
                return self._below(expr, inside)
            case _:
                return self._below(expr, guards)

    def _below(self, expr: Expr, guards: Guards) -> Expr:
        def visit(node: Node) -> Node:
            return self._visit(cast(Expr, node), guards)

        return cast(Expr, map_children(cast(Node, expr), visit))

    def _division(self, expr: Binary, guards: Guards) -> Expr:
        """Return a quotient or remainder of integers; its divisor is checked if it may be 0."""
        new = cast(Binary, self._below(expr, guards))
        ends = data_bounds(new.right, self._ranges)
        if ends is None or ends[0] <= 0 <= ends[1]:
            test = Compare(CompareOp.NE, new.right, _like(0, new.right))
            source = next((part for part in walk(new.right) if isinstance(part, Load)), None)
            about = expr_text(new.right) if source is None else source.buffer.name
            told = new.right if dtype_of(new.right).element == INT64 else Cast(INT64, new.right)
            self._add(Check(test, FaultKind.DIVISION, about, (told,)), guards)
        return new

    def _check_value(self, expr: Checked, guards: Guards) -> Expr:
        value, condition = self._visit(expr.value, guards), self._visit(expr.condition, guards)
        args, ends = tuple(self._visit(arg, guards) for arg in expr.args), _ends(expr)
        if self._rules.leaves_out(expr.kind):
            ends = None
        elif ends is not None:
            condition = _is_between(value, ends)
        self._add(Check(condition, expr.kind, expr.about, args), guards)
        lanes = dtype_of(expr).lanes
        new = value if dtype_of(value).lanes == lanes else Broadcast(value, lanes)
        return self._remember(new, guards, ends)

    def _clamp(self, expr: Binary, inner: Checked, guards: Guards) -> Expr:
        """Return the clamped index, in the shortest form that its check allows."""
        value = self._visit(inner, guards)
        count, ends = _number(expr.right), _ends(inner)
        if expr.op is not BinaryOp.MOD or count is None or ends is None or ends[0] >= 0:
            return value
        below = Compare(CompareOp.LT, value, _like(0, value))
        new = Select(below, Binary(BinaryOp.ADD, value, _like(count, value)), value)
        return self._remember(new, guards, (0, count - 1))

    def _remember(self, expr: Expr, guards: Guards, ends: Interval | None) -> Expr:
        """Record that `expr` is in the interval `ends` under `guards`; return `expr`."""
        if ends is not None:
            self._ends[id(expr), id(guards)] = expr, guards, ends
        return expr

    def _load(self, load: Load, guards: Guards) -> Expr:
        indices: list[Expr] = []
        for dimension, index in enumerate(load.indices):
            new = self._visit(index, guards)
            indices.append(self._place(load, dimension, new, guards) if reads_memory(new) else new)
        return Load(load.buffer, tuple(indices))

    def _place(self, load: Load, dimension: int, index: Expr, guards: Guards) -> Expr:
        """Collect the check of one index; return the index to use."""
        extent = load.buffer.extents[dimension]
        if not self._rules.indices:
            return index
        checked = self._ends.get((id(index), id(guards)))
        plain = index if self._rules.trusts else _drop_promises(index)
        known = data_bounds(plain, self._ranges) if checked is None else checked[2]
        if known is not None and known[0] >= 0 and known[1] < least_of(extent):
            return index
        self._add(index_check(load.buffer.name, dimension, index, extent), guards)
        if not self._rules.clamps:
            return index
        least = Binary(BinaryOp.MAX, index, _like(0, index))
        last: Expr = size_expr(extent - 1)
        lanes = dtype_of(index).lanes
        return Binary(BinaryOp.MIN, least, Broadcast(last, lanes) if lanes > 1 else last)

    def _add(self, check: Check, guards: Guards) -> None:
        if self._rules.leaves_out(check.kind):
            return
        alone = tuple(guard for guard in guards if dtype_of(guard).lanes == 1)
        masks = [guard for guard in guards if dtype_of(guard).lanes > 1]
        if masks:
            lanes = dtype_of(masks[0]).lanes
            condition = check.condition
            if dtype_of(condition).lanes == 1:
                condition = Broadcast(condition, lanes)
            true = Broadcast(const(True, BOOL), lanes)
            condition = Select(conjunction(masks), condition, true)
            check = Check(condition, check.kind, check.about, check.args)
        new = GuardedCheck(check, alone)
        if new not in self.found:
            self.found.append(new)


def index_check(name: str, dimension: int, index: Expr, extent: SizeLike) -> Check:
    """Return the check that `index` is in 0 … extent - 1 of a dimension of a tensor."""
    args = index, integer(0), size_expr(extent - 1), integer(dimension)
    if isinstance(extent, int):
        return Check(_is_between(index, (0, extent - 1)), FaultKind.INDEX, name, args)
    limit: Expr = size_expr(extent)
    lanes = dtype_of(index).lanes
    limit = Broadcast(limit, lanes) if lanes > 1 else limit
    above = Compare(CompareOp.GE, index, _like(0, index))
    inside = Binary(BinaryOp.AND, above, Compare(CompareOp.LT, index, limit))
    return Check(inside, FaultKind.INDEX, name, args)


def _drop_promises(index: Expr) -> Expr:
    """Return `index` without promises of the data that it reads."""

    def rule(old: Node) -> Node | None:
        if isinstance(old, Load) and old.buffer.promised is not None:
            return Load(replace(old.buffer, promised=None), old.indices)
        return None

    return rewrite(index, rule)


def has_checks(expr: Expr) -> bool:
    """Return whether `expr` has an index from data, a divisor that may be 0, or a `Checked`."""
    return any(
        isinstance(part, Checked)
        or (isinstance(part, Load) and part.indices and any(map(reads_memory, part.indices)))
        or may_divide_by_zero(part)
        for part in walk(expr)
    )


def may_divide_by_zero(part: Node) -> bool:
    """Return whether `part` divides integers by anything but a literal other than 0."""
    match part:
        case Binary(BinaryOp.FLOORDIV | BinaryOp.MOD, _, divisor):
            return not _number(divisor)
        case _:
            return False


def _is_between(index: Expr, ends: Interval) -> Expr:
    """Return the condition that `index` is in the interval: one unsigned comparison.

    It is done in 32 bits if the index is converted from 32 bits.
    """
    source = index.operand if isinstance(index, Cast) else index
    extent, low = ends[1] - ends[0] + 1, ends[0]
    if dtype_of(source).element == INT32 and extent < _NARROW and abs(low) < _NARROW:
        return _compare(_plus(source, -low), UINT32, extent)
    return _compare(_plus(index, -low), UINT64, extent)


def _plus(index: Expr, constant: int) -> Expr:
    return Binary(BinaryOp.ADD, index, _like(constant, index)) if constant else index


def _compare(index: Expr, dtype: DType, extent: int) -> Expr:
    limit: Expr = const(extent, dtype)
    lanes = dtype_of(index).lanes
    limit = Broadcast(limit, lanes) if lanes > 1 else limit
    return Compare(CompareOp.LT, Cast(dtype, index), limit)


def _like(value: int, index: Expr) -> Expr:
    dtype = dtype_of(index)
    literal, lanes = const(value, dtype.element), dtype.lanes
    return Broadcast(literal, lanes) if lanes > 1 else literal


def _for_any(guard: Expr) -> Expr:
    """Return the condition that `guard` holds in any lane."""
    if dtype_of(guard).lanes == 1:
        return guard
    return Compare(CompareOp.NE, Reduce(BinaryOp.MAX, Cast(INT32, guard)), const(0, INT32))


def _check_before_clamp(expr: Binary) -> Checked | None:
    """Return the place that `expr` moves into a tensor, if it is checked to need no more for that
    than an addition.

    Of min(max(x, 0), 9) it is x if x is checked to be 0 to 9, of x % 10 if that is -10 to 9.
    """
    match expr:
        case Binary(BinaryOp.MIN, Binary(BinaryOp.MAX, Checked() as inner, least), most):
            low, high, ends = _number(least), _number(most), _ends(inner)
            if ends is not None and low is not None and high is not None:
                return inner if low <= ends[0] and ends[1] <= high else None
        case Binary(BinaryOp.MOD, Checked() as inner, divisor):
            count, ends = _number(divisor), _ends(inner)
            if count is not None and ends is not None and -count <= ends[0] and ends[1] < count:
                return inner
        case _:
            pass
    return None


def _ends(inner: Checked) -> Interval | None:
    """Return the interval to which an index is checked, or None."""
    if inner.kind is not FaultKind.INDEX or len(inner.args) < 3 or inner.args[0] != inner.value:
        return None
    low, high = _number(inner.args[1]), _number(inner.args[2])
    return None if low is None or high is None else (low, high)


def _number(expr: Expr) -> int | None:
    literal = expr.operand if isinstance(expr, Broadcast) else expr
    return int(literal.value) if isinstance(literal, Const) else None
