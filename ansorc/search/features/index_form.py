"""IndexForm: an index of a load as a sum of axes, approximately where it is not affine."""

from __future__ import annotations

from dataclasses import dataclass

from ansorc.ir.arith.affine import affine
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Select, Var
from ansorc.ir.node import children
from ansorc.lang.compute_op import ComputeOp
from ansorc.search.memo import memoized


@dataclass(frozen=True)
class IndexForm:
    """`constant + Σ factor * axis`, taking at most `limit` different values (None: no limit)."""

    terms: tuple[tuple[str, float], ...]
    constant: int = 0
    limit: int | None = None


Group = tuple[Buffer, tuple[tuple[IndexForm, ...], ...]]
"""A tensor, and the forms of the indices of each of its loads."""


@memoized
def grouped_loads(op: ComputeOp) -> tuple[Group, ...]:
    """Return the loads of `op`, those together whose indices move alike."""
    groups: dict[tuple[str, tuple[object, ...]], list[tuple[IndexForm, ...]]] = {}
    buffers: dict[str, Buffer] = {}
    for load in op.loads:
        forms = tuple(index_form(index) for index in load.indices)
        groups.setdefault((load.buffer.name, tuple(form.terms for form in forms)), []).append(forms)
        buffers[load.buffer.name] = load.buffer
    return tuple((buffers[name], tuple(group)) for (name, _), group in groups.items())


def index_form(index: Expr) -> IndexForm:
    """Return the form of `index`: exact if it is affine.

    `x // c` moves as x / c does and `x % c` as x does, over c values; of anything else only the
    axes that occur are known, each with the factor 1.
    """
    exact = affine(index)
    if exact is not None:
        terms = tuple((axis, float(factor)) for axis, factor in exact.terms)
        return IndexForm(terms, exact.constant)
    match index:
        case Binary(BinaryOp.FLOORDIV, left, Const(value, _)) if value > 0:
            inner = index_form(left)
            terms = tuple((axis, factor / value) for axis, factor in inner.terms)
            return IndexForm(terms)
        case Binary(BinaryOp.MOD, left, Const(value, _)) if value > 0:
            return IndexForm(index_form(left).terms, 0, int(value))
        case Binary(BinaryOp.MUL, left, Const(value, _)):
            return _scaled(index_form(left), value)
        case Binary(BinaryOp.ADD, left, right):
            return _sum(index_form(left), index_form(right))
        case Binary(BinaryOp.SUB, left, right):
            return _sum(index_form(left), _scaled(index_form(right), -1))
        case Cast(_, operand):
            return index_form(operand)
        case Select(_, then, otherwise):
            return _merged(index_form(then), index_form(otherwise))
        case _:
            return IndexForm(tuple((axis, 1.0) for axis in sorted(_axes(index))))


def _scaled(form: IndexForm, factor: float) -> IndexForm:
    return IndexForm(tuple((axis, value * factor) for axis, value in form.terms), 0, form.limit)


def _sum(left: IndexForm, right: IndexForm) -> IndexForm:
    merged = _merged(left, right, is_sum=True)
    if left.limit is None and right.limit is None:
        return merged
    if not left.terms or not right.terms:
        return IndexForm(merged.terms, 0, left.limit if left.terms else right.limit)
    return merged


def _merged(left: IndexForm, right: IndexForm, *, is_sum: bool = False) -> IndexForm:
    terms = dict(left.terms)
    for axis, factor in right.terms:
        old = terms.get(axis, 0.0)
        terms[axis] = old + factor if is_sum else max(old, factor, key=abs)
    return IndexForm(tuple(sorted((axis, factor) for axis, factor in terms.items() if factor)))


def _axes(index: Expr) -> set[str]:
    if isinstance(index, Var):
        return {index.name}
    return {axis for child in children(index) if isinstance(child, Expr) for axis in _axes(child)}
