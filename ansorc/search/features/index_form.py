"""IndexForm: an index of a load as a sum of axes, approximately where it is not affine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ansorc.ir.arith.affine import Linear, affine, collect
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Select, Var
from ansorc.ir.node import walk
from ansorc.lang.compute_op import ComputeOp
from ansorc.search.memo import memoize


@dataclass(frozen=True)
class IndexForm:
    """`constant + Σ factor * axis`, taking at most `limit` different values (None: no limit)."""

    terms: tuple[tuple[str, float], ...]
    constant: int = 0
    limit: int | None = None


LoadGroup = tuple[Buffer, tuple[tuple[IndexForm, ...], ...]]
"""A tensor, and the forms of the indices of each of its loads."""


@memoize
def group_loads(op: ComputeOp) -> tuple[LoadGroup, ...]:
    """Return the loads of `op`, those together whose indices move alike."""
    groups: dict[tuple[str, tuple[object, ...]], list[tuple[IndexForm, ...]]] = {}
    buffers: dict[str, Buffer] = {}
    for load in op.loads:
        forms = tuple(index_form(index) for index in load.indices)
        groups.setdefault((load.buffer.name, tuple(form.terms for form in forms)), []).append(forms)
        buffers[load.buffer.name] = load.buffer
    return tuple((buffers[name], tuple(group)) for (name, _), group in groups.items())


@memoize
def result_forms(op: ComputeOp) -> tuple[IndexForm, ...]:
    """Return the forms of the indices of the results of `op`: its axes, or the places of a term."""
    places = {place.axis: index_form(place.index) for place in op.places}
    return tuple(places.get(a.name, IndexForm(((a.name, 1.0),))) for a in op.axes)


def index_form(index: Expr) -> IndexForm:
    """Return the form of `index`: exact if it is affine.

    `x // c` moves as x / c does and `x % c` as x does, over c values; of anything else only the
    axes that occur are known, each with the factor 1.
    """
    exact = affine(index)
    if exact is not None:
        terms = tuple((axis, float(factor)) for axis, factor in exact.terms.items())
        return IndexForm(terms, exact.constant)
    parts: list[tuple[float, IndexForm]] = []

    def add(part: Expr, scale: int, _: Linear[str]) -> bool:
        parts.append((scale, _approximate(part)))
        return True

    collect(index, 1, Linear(), add)
    return parts[0][1] if parts[0][0] == 1 and len(parts) == 1 else _sum(parts)


def _approximate(part: Expr) -> IndexForm:
    match part:
        case Binary(BinaryOp.FLOORDIV, left, Const(value, _)) if value > 0:
            return IndexForm(tuple((axis, f / value) for axis, f in index_form(left).terms))
        case Binary(BinaryOp.MOD, left, Const(value, _)) if value > 0:
            return IndexForm(index_form(left).terms, 0, int(value))
        case Binary(BinaryOp.MUL, left, Const(value, _)):
            return _sum([(value, index_form(left))])
        case Cast(_, operand):
            return index_form(operand)
        case Select(_, then, otherwise):
            terms = dict(index_form(then).terms)
            for axis, factor in index_form(otherwise).terms:
                terms[axis] = max(terms.get(axis, 0.0), factor, key=abs)
            return _moving(terms)
        case _:
            return _moving({node.name: 1.0 for node in walk(part) if isinstance(node, Var)})


def _sum(parts: Iterable[tuple[float, IndexForm]]) -> IndexForm:
    terms: dict[str, float] = {}
    limits: list[int | None] = []
    for scale, form in parts:
        limits += [form.limit] if form.terms else []
        for axis, factor in form.terms:
            terms[axis] = terms.get(axis, 0.0) + scale * factor
    return _moving(terms, limits[0] if len(limits) == 1 else None)


def _moving(terms: dict[str, float], limit: int | None = None) -> IndexForm:
    return IndexForm(tuple(sorted((a, factor) for a, factor in terms.items() if factor)), 0, limit)
