"""Derive each kind of reduction by its terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ansorc.errors import LanguageError
from ansorc.ir.dtype import INT64
from ansorc.ir.expr import Binary, BinaryOp, Compare, CompareOp, Expr, Load, Var, const
from ansorc.ir.substitute import substitute
from ansorc.lang.compute_op import Combiner, ComputeOp
from ansorc.lang.define import compute, compute_tuple
from ansorc.lang.gradient.stages import Stages
from ansorc.lang.gradient.terms import choose, divide, times
from ansorc.lang.reducer import Reducer
from ansorc.lang.reduction import ReduceAxis, TupleReduction, argmax, argmin, prod, reduce_axis, sum
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import OwnedBuffer, Tensor

Read = Callable[[int], Expr]
"""The element of an output of the computation, by its number."""


@dataclass(frozen=True)
class BodyFlow:
    """`flow` flows back to `body`, a term of the computation, where `guards` hold."""

    body: Expr
    flow: Expr
    guards: tuple[Expr, ...] = ()


def flow_to_terms(
    op: ComputeOp, flows: Sequence[Expr | None], read: Read, stages: Stages
) -> Iterator[BodyFlow]:
    """Yield what flows back to the terms of `op`; `flows` are those to its outputs.

    Raise LanguageError for a user's reducer that does not add up.
    """
    if op.places and op.combiner is not Combiner.SUM:
        raise LanguageError(
            f"ac.gradient: '{op.name}' scatters by another operation than a sum, whose derivative "
            'is not known; use reduce="add", or mark it by ac.stop_gradient'
        )
    for number, (body, flow) in enumerate(zip(op.bodies, flows, strict=True)):
        if flow is None:
            continue
        match op.combiner:
            case None | Combiner.SUM:
                yield BodyFlow(body, flow)
            case Combiner.MAX | Combiner.MIN:
                yield BodyFlow(body, flow, (_is_at(op, stages.buffer(_find_extreme(op, stages))),))
            case Combiner.PROD:
                yield BodyFlow(body, times(flow, _product_of_others(op, read(0), stages)))
            case Combiner.ANY | Combiner.ALL:
                pass
            case Reducer():
                yield _through_reducer(op, op.combiner, number, flow, read)


def _through_reducer(
    op: ComputeOp, reducer: Reducer, number: int, flow: Expr, read: Read
) -> BodyFlow:
    body = op.bodies[number]
    left, right = reducer.operands
    if reducer.results[number] == Binary(BinaryOp.ADD, left[number], right[number]):
        return BodyFlow(body, flow)
    if number == 0 and len(op.bodies) == 2 and _is_extreme(op, reducer):
        return BodyFlow(body, flow, (Compare(CompareOp.EQ, op.bodies[1], read(1)),))
    raise LanguageError(
        f"ac.gradient: '{op.buffers[number].name}' is computed by a reducer of your own, whose "
        "derivative is not known; reducers whose elements are sums have one, and so have "
        "ac.argmax and ac.argmin: define the value by these, or by ac.sum, ac.max, ac.prod"
    )


def _is_extreme(op: ComputeOp, reducer: Reducer) -> bool:
    """Return whether `reducer` is that of argmax or argmin."""
    axis = reduce_axis(2)
    element = const(0, op.buffer.dtype)
    return any(find(element, axis).reducer == reducer for find in (argmax, argmin))


def _over(op: ComputeOp) -> tuple[dict[str, Expr], list[ReduceAxis]]:
    """Return new reduce axes for those of `op`, by name and as a list."""
    axes = [reduce_axis(axis.extent, axis.name) for axis in op.reduce_axes]
    return {axis.name: axis.expr for axis in axes}, axes


def _find_extreme(op: ComputeOp, stages: Stages) -> Tensor:
    """Return the number of the first largest (or smallest) term of each element."""
    find = argmax if op.combiner is Combiner.MAX else argmin
    values, axes = _over(op)

    def body(*indices: Scalar) -> TupleReduction:
        return find(substitute(op.body, values | _at(op, indices)), axis=axes)

    names = [stages.name(op.name, "extreme"), stages.name(op.name, "place")]
    axis_names = [axis.name for axis in op.axes]
    return compute_tuple(op.buffer.shape, body, names, axes=axis_names)[1]


def _at(op: ComputeOp, indices: Sequence[Scalar]) -> dict[str, Expr]:
    return {axis.name: index.expr for axis, index in zip(op.axes, indices, strict=True)}


def _is_at(op: ComputeOp, places: OwnedBuffer) -> Expr:
    """Return whether a term of `op` is the one whose number is in `places`."""
    number: Expr = const(0)
    for axis in op.reduce_axes:
        number = Var(axis.name) if number == const(0) else number * axis.extent + Var(axis.name)
    return Compare(CompareOp.EQ, number, Load(places, tuple(Var(a.name) for a in op.axes)))


def _product_of_others(op: ComputeOp, whole: Expr, stages: Stages) -> Expr:
    """Return the product of all terms but one: the quotient, unless terms are 0."""
    values, axes = _over(op)
    dtype, names = op.buffer.dtype, [axis.name for axis in op.axes]
    zero, one = const(0, dtype), const(1, dtype)

    def is_zero(term: Expr) -> Expr:
        return Compare(CompareOp.EQ, term, zero)

    def term(indices: Sequence[Scalar]) -> Expr:
        return substitute(op.body, values | _at(op, indices))

    shape = op.buffer.shape
    zeros = compute(
        shape,
        lambda *i: sum(choose(is_zero(term(i)), const(1, INT64), const(0, INT64)), axis=axes),
        stages.name(op.name, "zeros"),
        axes=names,
    )
    others = compute(
        shape,
        lambda *i: prod(choose(is_zero(term(i)), one, term(i)), axis=axes),
        stages.name(op.name, "others"),
        axes=names,
    )
    here = tuple(Var(name) for name in names)
    count, rest = (Load(stages.buffer(each), here) for each in (zeros, others))
    body = op.body
    is_only = Compare(CompareOp.EQ, count, const(1))
    is_none = Compare(CompareOp.EQ, count, const(0))
    of_zero = choose(is_only, rest, zero)
    return choose(is_zero(body), of_zero, choose(is_none, divide(whole, body), zero))
