"""Reductions: axes that are summed away, and sum, max, min, prod, any, all, argmax … over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansorc.errors import LanguageError
from ansorc.ir.dtype import INT64
from ansorc.ir.expr import Expr, ExprLike, Select, Var, as_expr, const, dtype_of
from ansorc.lang.compute_op import Combiner
from ansorc.lang.naming import check_axis_name
from ansorc.lang.reducer import Combine, Reducer, reducer_of
from ansorc.lang.scalar import all_of, any_of
from ansorc.lang.total_order import is_more_extreme, is_same
from ansorc.lang.whole import Whole


@dataclass(frozen=True, slots=True, eq=False)
class ReduceAxis(Var):
    """A variable that a reduction runs over `lo`, `lo + 1`, … for `extent` values.

    Two axes are the same only if they are one object. `compute` replaces it by `name + lo`.
    """

    extent: int = 1
    lo: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Reduction(Whole):
    """The terms `body` combined over `axes`; only as the whole body of a `compute`."""

    combiner: Combiner
    body: Expr
    axes: tuple[ReduceAxis, ...]

    def advice(self) -> str:
        over = ", ".join(axis.name for axis in self.axes)
        return (
            f"the {self.combiner.value} over {over} must be the whole body of a compute: "
            "put it in its own compute, then read that"
        )

    def __repr__(self) -> str:
        return f"<{self.advice()}>"


@dataclass(frozen=True, eq=False, repr=False)
class TupleReduction(Whole):
    """Tuples of the terms `bodies` combined over `axes`; only as the whole of a compute_tuple."""

    reducer: Reducer
    bodies: tuple[Expr, ...]
    axes: tuple[ReduceAxis, ...]

    def advice(self) -> str:
        over = ", ".join(axis.name for axis in self.axes)
        return (
            f"the reduction of {len(self.bodies)} values over {over} must be all that the function "
            "of a compute_tuple returns: put it in its own, then read that"
        )

    def __repr__(self) -> str:
        return f"<{self.advice()}>"


@dataclass(frozen=True)
class TupleReducer:
    """A way to combine tuples, yet without their dtypes; see `reducer`."""

    combine_tuples: Combine
    identities: tuple[ExprLike, ...]
    name: str

    def __call__(self, *terms: ExprLike, axis: Axes) -> TupleReduction:
        """Return the tuples of `terms` combined over the reduce axes `axis`.

        Raise LanguageError where the reducer does not fit the number or dtypes of the terms.
        """
        axes, bodies = _axes(self.name, axis), tuple(as_expr(term) for term in terms)
        dtypes = [dtype_of(body) for body in bodies]
        return TupleReduction(
            reducer_of(self.combine_tuples, self.identities, dtypes, self.name), bodies, axes
        )


def reducer(
    combine: Combine, identities: Sequence[ExprLike], name: str = "reducer"
) -> TupleReducer:
    """Return a reduction of tuples, for use in `compute_tuple`.

    `combine(left, right)` takes two tuples of scalars and returns the tuple that they combine to.
    It must be associative and commutative (up to rounding), for a schedule combines in any order.
    The tuple `identities` combined with any other must give that other.

        moments = reducer(lambda a, b: (a[0] + b[0], a[1] + b[1]), (0, 0))
        S, Q = compute_tuple(n, lambda i: moments(A[i, k], A[i, k] * A[i, k], axis=k))
    """
    return TupleReducer(combine, tuple(identities), name)


def reduce_axis(domain: int | tuple[int, int], name: str = "k") -> ReduceAxis:
    """Return an axis over 0 … domain - 1, or over lo … hi - 1 for the domain `(lo, hi)`.

    Raise LanguageError where it is empty. A name that clashes inside a compute gets a number.
    """
    check_axis_name(name)
    lo, hi = (0, domain) if isinstance(domain, int) else domain
    if hi <= lo:
        raise LanguageError(f"the reduce axis '{name}' is empty: {lo}..{hi}; give it an extent > 0")
    return ReduceAxis(name, INT64, hi - lo, lo)


Axes = ReduceAxis | Sequence[ReduceAxis]


def sum(expr: ExprLike, axis: Axes) -> Reduction:
    """Return the sum of `expr` over the reduce axes `axis`: the whole body of a compute.

    It is computed in the dtype of `expr`, so cast terms of 8 or 16 bits to what their sum needs:
    `sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k)`.
    """
    return _reduction(Combiner.SUM, expr, axis)


def max(expr: ExprLike, axis: Axes) -> Reduction:
    """Return the largest `expr` over the reduce axes `axis`; see `sum`."""
    return _reduction(Combiner.MAX, expr, axis)


def min(expr: ExprLike, axis: Axes) -> Reduction:
    """Return the smallest `expr` over the reduce axes `axis`; see `sum`."""
    return _reduction(Combiner.MIN, expr, axis)


def prod(expr: ExprLike, axis: Axes) -> Reduction:
    """Return the product of `expr` over the reduce axes `axis`; see `sum`."""
    return _reduction(Combiner.PROD, expr, axis)


def any(expr: ExprLike, axis: Axes) -> Reduction:
    """Return whether the bool `expr` holds somewhere on the reduce axes `axis`; see `sum`."""
    return _reduction(Combiner.ANY, expr, axis)


def all(expr: ExprLike, axis: Axes) -> Reduction:
    """Return whether the bool `expr` holds everywhere on the reduce axes `axis`; see `sum`."""
    return _reduction(Combiner.ALL, expr, axis)


def argmax(expr: ExprLike, axis: Axes) -> TupleReduction:
    """Return (the largest `expr`, where it is): the whole of a `compute_tuple`.

    Where is the int64 value of the reduce axis; of several axes, the place in row-major order. The
    first of equal ones wins, and NaN is the largest of all, as in NumPy. Raise LanguageError for
    several axes that do not begin at 0.
    """
    return _extreme(expr, axis, Combiner.MAX, "argmax")


def argmin(expr: ExprLike, axis: Axes) -> TupleReduction:
    """Return (the smallest `expr`, where it is); see `argmax`."""
    return _extreme(expr, axis, Combiner.MIN, "argmin")


def _extreme(expr: ExprLike, axis: Axes, combiner: Combiner, name: str) -> TupleReduction:
    axes, body = _axes(name, axis), as_expr(expr)
    place: Expr = axes[0]
    for inner in axes[1:]:
        if [one for one in axes if one.lo]:
            raise LanguageError(f"{name} over several axes counts from 0; let all of them begin so")
        place = place * inner.extent + inner
    first = TupleReducer(
        lambda a, b: _better(a, b, combiner),
        (combiner.identity(dtype_of(body)), const(2**63 - 1)),
        name,
    )
    return first(body, place, axis=axes)


def _better(left: tuple[Var, ...], right: tuple[Var, ...], combiner: Combiner) -> tuple[Expr, Expr]:
    """Return the (value, place) of two that is more extreme, the first of equal ones."""
    (a, i), (b, j) = left, right
    is_beyond = is_more_extreme(a, b, largest=combiner is Combiner.MAX)
    is_left = any_of(is_beyond, all_of(is_same(a, b), i < j))
    return Select(is_left, a, b), Select(is_left, i, j)


def _reduction(combiner: Combiner, expr: ExprLike, axis: Axes) -> Reduction:
    verb = combiner.value
    axes, body = _axes(verb, axis), as_expr(expr)
    if dtype_of(body).is_bool != combiner.is_logical:
        cure = "compare them first" if combiner.is_logical else "cast them first, or use any or all"
        raise LanguageError(f"{verb} of {dtype_of(body)}s; {cure}")
    return Reduction(combiner, body, axes)


def _axes(verb: str, axis: Axes) -> tuple[ReduceAxis, ...]:
    """Return the axes that `verb` runs over; raise LanguageError unless they are some."""
    axes = (axis,) if isinstance(axis, Var) else tuple(axis)
    if not axes:
        raise LanguageError(f"{verb} needs axis=, one reduce axis or a list of them")
    for one in axes:
        if not isinstance(one, ReduceAxis):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LanguageError(f"{verb} runs over reduce axes; make one with ac.reduce_axis(...)")
    if len({id(one) for one in axes}) < len(axes):
        raise LanguageError(f"{verb} runs over the axis '{axes[0].name}' twice; list it once")
    return axes
