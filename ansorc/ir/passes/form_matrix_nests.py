"""Form nests for the matrix unit of a CPU: whole tiles, and smaller ones at the borders.

for i in 0..32:                                 if i.0 * 32 < 9:
    for j in 0..32:                                 matrix i in 0..32:
        if i.0 * 32 + i < 40:                           matrix j in 0..32:
            C[i, j] = 0                                     C[i, j] = 0
for k.0 in 0..8:                           ->       matrix i in 0..32:
    for k.1 in 0..16:                                   matrix j in 0..32:
        for i in 0..32:                                     matrix k.0 in 0..8:
            for j in 0..32:                                     …
                matrix k.2 in 0..2:             else:
                    if i.0 * 32 + i < 40:           matrix i in 0..8:
                        C[i, j] = C[i, j] + …           …

The loops of a nest are MATRIX loops, which other passes leave as they are, and so are those that
store 0 before: code generation then begins with zeros in registers. A unit has no masks, but tiles
of fewer rows and columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from ansorc.errors import BuildError
from ansorc.ir.arith.affine import difference
from ansorc.ir.arith.interval import Interval, prove
from ansorc.ir.arith.scalar import conjunction, conjuncts
from ansorc.ir.expr import Compare, CompareOp, Const, Expr, Var, const
from ansorc.ir.passes.matrix_nest import (
    GROUPS,
    MatrixNest,
    UnfitError,
    find_nest,
    holds_nests,
    is_matrix,
)
from ansorc.ir.stmt import For, Function, If, LoopKind, Seq, Stmt, Store, map_substatements
from ansorc.ir.substitute import free_vars, substitute


def form_matrix_nests(function: Function) -> Function:
    """Return `function`, simplified, with nests for matrix units of CPUs.

    Raise BuildError, saying why, for a loop that is marked for one but does not fit. MATRIX loops
    for GPUs stay as they are.
    """
    if not holds_nests(function.body):
        return function
    return replace(function, body=_Forming(function.name).stmt(function.body, {}))


@dataclass(frozen=True)
class _Chain:
    """Loops with nothing but each other and conditions inside, around one store."""

    loops: tuple[For, ...]
    guards: tuple[Expr, ...]
    store: Store

    @staticmethod
    def of(stmt: Stmt) -> _Chain | None:
        """Return the chain that `stmt` is, if it is one."""
        loops: list[For] = []
        guards: list[Expr] = []
        while isinstance(stmt, For) or (isinstance(stmt, If) and stmt.otherwise is None):
            if isinstance(stmt, For):
                loops.append(stmt)
                stmt = stmt.body
            else:
                guards += conjuncts(stmt.condition)
                stmt = stmt.then
        return _Chain(tuple(loops), tuple(guards), stmt) if isinstance(stmt, Store) else None


class _Forming:
    def __init__(self, kernel: str) -> None:
        self._kernel = kernel

    def stmt(self, stmt: Stmt, ranges: Mapping[str, Interval]) -> Stmt:
        """Return `stmt` with its nests formed; `ranges` bounds the variables around it."""
        if isinstance(stmt, Seq):
            return self._sequence(stmt, ranges)
        if isinstance(stmt, For):
            if (chain := _find_marked(stmt)) is not None:
                return self._form(chain, None, ranges)
            ranges = {**ranges, stmt.var.name: stmt.span}
        return map_substatements(stmt, lambda part: self.stmt(part, ranges))

    def _sequence(self, seq: Seq, ranges: Mapping[str, Interval]) -> Stmt:
        parts: list[Stmt] = []
        for part in seq.stmts:
            chain = _find_marked(part)
            first = _Chain.of(parts[-1]) if chain is not None and parts else None
            if chain is None:
                parts.append(self.stmt(part, ranges))
            elif first is not None and (at_first := _starts(first, chain)) is not None:
                formed = self._form(chain, first, ranges)
                if at_first:
                    formed = If(conjunction(at_first), formed, self._form(chain, None, ranges))
                parts[-1] = formed
            else:
                if first is not None and first.store.buffer == chain.store.buffer:
                    parts[-1] = _in_lanes(parts[-1])
                parts.append(self._form(chain, None, ranges))
        return Seq(tuple(parts))

    def _form(self, chain: _Chain, first: _Chain | None, ranges: Mapping[str, Interval]) -> Stmt:
        """Return the nest of `chain` after its sums are set by `first`, which does no more."""
        (group,) = filter(is_matrix, chain.loops)
        try:
            nest = _fit(chain)
            outer = chain.loops[: len(chain.loops) - len(nest.loops)]
            ranges = {**ranges, **{loop.var.name: loop.span for loop in outer}}
            spans = _spans(nest, chain.guards, ranges)
        except UnfitError as error:
            raise BuildError(
                f"kernel '{self._kernel}' cannot use a matrix unit of a CPU for "
                f"'{group.var.name}': {error}"
            ) from None
        stmt = _choose(nest, first, spans, ranges)
        for loop in reversed(outer):
            stmt = replace(loop, body=stmt)
        return stmt


def _find_marked(stmt: Stmt) -> _Chain | None:
    """Return the chain that `stmt` is, if it has a loop for a CPU's unit."""
    chain = _Chain.of(stmt)
    if chain is None or not any(is_matrix(loop) and loop.extent in GROUPS for loop in chain.loops):
        return None
    return chain


def _fit(chain: _Chain) -> MatrixNest:
    """Return the nest of the last one or two loops over the sums, and those inside.

    No more than one loop, over groups of terms, is between the two. A tile of one row or column has
    fewer; then a loop that does not fit is outside of it. Raise UnfitError if no loops fit.
    """
    at = {name for index in chain.store.indices for name in free_vars(index)}
    space = [number for number, loop in enumerate(chain.loops) if loop.var.name in at]
    tile = [number for number in space[-2:] if space[-1] - number <= 2]
    outside = [number + 1 for number in space if number not in tile]
    try:
        return find_nest(chain.loops[max(outside, default=0) :], chain.store)
    except UnfitError:
        if not tile or tile[-1] - tile[0] == 1:
            raise
        return find_nest(chain.loops[tile[0] + 1 :], chain.store)


def _starts(first: _Chain, chain: _Chain) -> list[Expr] | None:
    """Return when `first` stores 0 in the sums of `chain`, conditions on loops around it.

    None if it does not, or stores in others.
    """
    names = {name for index in chain.store.indices for name in free_vars(index)}
    loops = [loop for loop in chain.loops if loop.var.name in names]
    if len(loops) != len(first.loops):
        return None
    try:
        if len(_fit(chain).loops) != len(chain.loops):
            return None
    except UnfitError:
        return None
    is_alike = all(a.extent == b.extent for a, b in zip(first.loops, loops, strict=True))
    renamed: dict[str, Expr] = {a.var.name: b.var for a, b in zip(first.loops, loops, strict=True)}
    indices = tuple(substitute(index, renamed) for index in first.store.indices)
    guards = [substitute(guard, renamed) for guard in first.guards]
    more = [guard for guard in guards if guard not in chain.guards]
    own = {loop.var.name for loop in chain.loops}
    does = (
        is_alike
        and first.store.value == Const(0, chain.store.buffer.dtype)
        and (first.store.buffer, indices) == (chain.store.buffer, chain.store.indices)
        and all(guard in guards for guard in chain.guards)
        and not any(free_vars(guard) & own for guard in more)
    )
    return more if does else None


def _in_lanes(stmt: Stmt) -> Stmt:
    """Return a nest that stores what sums begin with, its innermost loop in lanes."""
    if isinstance(stmt, If):
        return replace(stmt, then=_in_lanes(stmt.then))
    if isinstance(stmt, For) and isinstance(stmt.body, For):
        return replace(stmt, body=_in_lanes(stmt.body))
    return replace(stmt, kind=LoopKind.VECTORIZED) if isinstance(stmt, For) else stmt


@dataclass(frozen=True)
class _Span:
    """A part of a tile along one loop: it has `extent` iterations, if `condition` holds."""

    extent: int
    condition: Expr


def _spans(
    nest: MatrixNest, guards: Sequence[Expr], ranges: Mapping[str, Interval]
) -> dict[str, list[_Span]]:
    """Return the parts that a tile may have along its rows and columns, the first that holds.

    The key is the variable of the loop; "" is for conditions on the whole tile.
    """
    spans: dict[str, list[_Span]] = {}
    inner = {loop.var.name: loop for loop in nest.loops}
    for guard in guards:
        moving = [inner[name] for name in sorted(free_vars(guard)) if name in inner]
        if not moving:
            spans.setdefault("", []).append(_Span(1, guard))
            continue
        if len(moving) > 1 or moving[0] not in (nest.row, nest.column):
            raise UnfitError("a condition on its terms keeps some of them from a tile")
        (loop,) = moving
        if loop.var.name in spans:
            raise UnfitError(f"several conditions on '{loop.var.name}' keep sums from a tile")
        spans[loop.var.name] = _parts(loop, guard, ranges)
    return spans


def _parts(loop: For, guard: Expr, ranges: Mapping[str, Interval]) -> list[_Span]:
    """Return the lengths of `loop` that `guard` leaves: whole, and what is left at the border."""
    total = None
    if isinstance(guard, Compare) and guard.op is CompareOp.LT:
        total = difference(guard.left, guard.right)
    if (
        total is None
        or total.terms.pop(loop.var.name, 0) != 1
        or any(
            not isinstance(atom, str) and loop.var.name in free_vars(atom) for atom in total.terms
        )
    ):
        raise UnfitError(f"a condition on '{loop.var.name}' is no border of its tiles")
    length, step = loop.extent, gcd(*total.terms.values())
    if step % length:
        raise UnfitError(
            f"its tiles begin at multiples of {step}, and have {length} iterations of "
            f"'{loop.var.name}'"
        )
    end, begin = -total.constant, total.offset_by(-total.constant).to_expr()
    rest = end % step if step else min(length, max(0, end))
    whole = Compare(CompareOp.LT, begin, const(end - length + 1))
    parts = [_Span(length, whole)] if prove(whole, ranges) is not False else []
    if 0 < rest < length:
        parts.append(_Span(rest, Compare(CompareOp.LT, begin, const(end - rest + 1))))
    return parts


def _choose(
    nest: MatrixNest,
    first: _Chain | None,
    spans: Mapping[str, list[_Span]],
    ranges: Mapping[str, Interval],
) -> Stmt:
    """Return the nest of each size, under its conditions."""
    sizes = {loop.var.name: loop.extent for loop in nest.loops}
    names = [name for name in spans if name]

    def under(position: int) -> Stmt:
        if position == len(names):
            return _sized(nest, first, sizes)
        result: Stmt | None = None
        for span in reversed(spans[names[position]]):
            sizes[names[position]] = span.extent
            result = _if(span.condition, under(position + 1), result, ranges)
        return Seq(()) if result is None else result

    stmt = under(0)
    for span in reversed(spans.get("", [])):
        stmt = _if(span.condition, stmt, None, ranges)
    return stmt


def _if(
    condition: Expr, then: Stmt, otherwise: Stmt | None, ranges: Mapping[str, Interval]
) -> Stmt:
    return then if prove(condition, ranges) is True else If(condition, then, otherwise)


def _sized(nest: MatrixNest, first: _Chain | None, sizes: Mapping[str, int]) -> Stmt:
    """Return the nest with these extents, with zeros stored before if `first` did."""

    def around(loops: Sequence[For], stmt: Stmt) -> Stmt:
        for loop in reversed(loops):
            stmt = For(Var(loop.var.name), sizes[loop.var.name], LoopKind.MATRIX, stmt)
        return stmt

    sums = around(nest.loops, nest.store)
    if first is None:
        return sums
    tile = [loop for loop in (nest.row, nest.column) if loop is not None]
    return Seq((around(tile, replace(nest.store, value=first.store.value)), sums))
