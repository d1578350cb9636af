"""Check whether the iterations of a loop may run in lanes: no two touch the same element."""

from __future__ import annotations

from collections.abc import Sequence, Set

from ansorc.ir.arith.affine import Atom, Linear, linear
from ansorc.ir.arith.integer import rejoin
from ansorc.ir.arith.interval import Interval, linear_bounds
from ansorc.ir.expr import Expr, Var
from ansorc.ir.node import walk
from ansorc.ir.passes.accesses import BufferAccess, Span
from ansorc.ir.passes.queries import flat_offset, reads_memory


def are_iterations_independent(span: Span) -> bool:
    """Return whether the loop's iterations may run in lock step, statement by statement.

    Different buffers never overlap, so only buffers that the loop stores matter, without those that
    each iteration allocates. An atomic store has no lanes.
    """
    if any(access.is_atomic for access in span.accesses):
        return False
    stored = {access.buffer.name for access in span.accesses if access.is_store} - span.private
    groups = [[a for a in span.accesses if a.buffer.name == name] for name in stored]
    return all(_is_scatter(span, group) or _are_apart(span, group) for group in groups)


def _is_scatter(span: Span, group: Sequence[BufferAccess]) -> bool:
    """Return whether this is one store an iteration: lanes are stored in order, the last wins."""
    if len(group) != 1 or len(group[0].loops) != span.depth + 1:
        return False
    return any(_uses(index, {span.loop.var.name}) for index in group[0].indices)


def _are_apart(span: Span, group: Sequence[BufferAccess]) -> bool:
    """Return whether some dimension separates all accesses of different iterations.

    Or all together do: a fused loop moves one by its quotient and the next by its remainder.
    """
    by_dimension = (
        [_AffineIndex.of(span, access, linear(access.indices[axis])) for access in group]
        for axis in range(len(group[0].indices))
    )
    if any(map(_is_apart, by_dimension)):
        return True
    return _is_apart([_AffineIndex.of(span, access, _join_digits(access)) for access in group])


def _join_digits(access: BufferAccess) -> Linear[Atom] | None:
    """Return the place in memory of an access of a scalar, with digits of loops joined."""
    if any(linear(index) is None for index in access.indices):
        return None
    offset = flat_offset(access.buffer, access.indices)
    if offset is not None:
        rejoin(offset, {})
    return offset


def _is_apart(indices: Sequence[_AffineIndex | None]) -> bool:
    """Return whether every index is `step * v + same + d`, d in an interval shorter than step."""
    known = [index for index in indices if index is not None]
    if len(known) != len(indices):
        return False
    step, outer = known[0].step, known[0].outer
    if any(index.step != step or index.outer != outer for index in known):
        return False
    reach = max(index.inner[1] for index in known) - min(index.inner[0] for index in known)
    return reach < abs(step)


class _AffineIndex:
    """An index as `step * v + outer + d`, with `inner` the bounds of d."""

    __slots__ = ("inner", "outer", "step")

    def __init__(self, step: int, outer: dict[Atom, int], inner: Interval) -> None:
        self.step, self.outer, self.inner = step, outer, inner

    @staticmethod
    def of(span: Span, access: BufferAccess, total: Linear[Atom] | None) -> _AffineIndex | None:
        if total is None:
            return None
        name = span.loop.var.name
        ranges = {x.var.name: x.span for x in access.loops[span.depth + 1 :]}
        step = total.terms.pop(name, 0)
        outer: dict[Atom, int] = {}
        inner: dict[Atom, int] = {}
        for atom, coefficient in total.terms.items():
            if not isinstance(atom, str) and (_uses(atom, {name}) or reads_memory(atom)):
                return None
            moves = atom in ranges if isinstance(atom, str) else _uses(atom, ranges.keys())
            (inner if moves else outer)[atom] = coefficient
        interval = linear_bounds(Linear(inner, total.constant), ranges)
        return None if interval is None else _AffineIndex(step, outer, interval)


def _uses(expr: Expr, names: Set[str]) -> bool:
    return any(isinstance(part, Var) and part.name in names for part in walk(expr))
