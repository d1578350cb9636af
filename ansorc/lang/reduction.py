"""Reductions: axes that are summed away, and sum, max, min, prod, any, all, argmax … over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansorc.errors import LanguageError
from ansorc.ir.dtype import INT64
from ansorc.ir.expr import Expr, Var
from ansorc.lang.compute_op import Combiner
from ansorc.lang.literal import as_integer, as_list, as_number, refuse_bool, short_text
from ansorc.lang.naming import check_axis_name
from ansorc.lang.reducer import Combine, Reducer, reducer_of
from ansorc.lang.reducer_laws import with_kept_identity
from ansorc.lang.scalar import all_of, any_of, const, if_then_else
from ansorc.lang.scalar_type import Scalar, ScalarLike, as_scalar
from ansorc.lang.total_order import is_more_extreme, is_same
from ansorc.lang.whole import Whole

_FARTHEST = 2**62
"""The farthest from 0 that a reduce axis goes: sums of two indices are integers of 64 bits."""


@dataclass(frozen=True, slots=True, eq=False)
class ReduceVar(Var):
    """The variable of a reduce axis, by identity: `compute` replaces it by `name + lo`."""


class ReduceAxis(Scalar):
    """An index that a reduction runs over `lo`, `lo + 1`, … for `extent` values.

    Two axes are the same only if they are one object.
    """

    __slots__ = ("extent", "lo", "name")

    def __init__(self, name: str, extent: int, lo: int = 0) -> None:
        super().__init__(ReduceVar(name, INT64))
        self.name, self.extent, self.lo = name, extent, lo


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
    name: str = ""
    """What a user called it, whose laws are tried; "" for one of ansorc's own."""

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
    identities: tuple[ScalarLike, ...]
    name: str
    is_own: bool = False
    """Whether it is one of ansorc's own, whose laws tests try."""

    def __call__(self, *terms: ScalarLike, axis: Axes) -> TupleReduction:
        """Return the tuples of `terms` combined over the reduce axes `axis`.

        Raise LanguageError where the reducer does not fit the number or dtypes of the terms.
        """
        axes, bodies = _axes(self.name, axis), tuple(as_scalar(term) for term in terms)
        dtypes = [body.dtype for body in bodies]
        reducer = reducer_of(self.combine_tuples, self.identities, dtypes, self.name)
        reducer = reducer if self.is_own else with_kept_identity(reducer)
        name = "" if self.is_own else self.name
        return TupleReduction(reducer, tuple(body.expr for body in bodies), axes, name)


def reducer(
    combine: Combine, identities: Sequence[ScalarLike], name: str = "reducer"
) -> TupleReducer:
    """Return a reduction of tuples, for use in `compute_tuple`.

    `combine(left, right)` takes two tuples of scalars and returns the tuple that they combine to.
    It must be associative and commutative (up to rounding), for a schedule combines in any order,
    and the tuple `identities` combined with any other must give that other. `compute_tuple` tries
    that on numbers, and refuses with those for which it does not hold (lang/reducer_laws.py).

        moments = reducer(lambda a, b: (a[0] + b[0], a[1] + b[1]), (0, 0))
        S, Q = compute_tuple(n, lambda i: moments(A[i, k], A[i, k] * A[i, k], axis=k))
    """
    if not callable(combine):
        raise LanguageError(f"a reducer combines by a function, not by {short_text(combine)}")
    if not isinstance(identities, (list, tuple)):
        raise LanguageError(
            f"the identities of a reducer are {short_text(identities)}; give a list, one number "
            "for each element of its tuples"
        )
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LanguageError(f"{short_text(name)} cannot name a reducer; a name is text")
    return TupleReducer(combine, tuple(identities), name)


def reduce_axis(domain: int | tuple[int, int], name: str = "k") -> ReduceAxis:
    """Return an axis over 0 … domain - 1, or over lo … hi - 1 for the domain `(lo, hi)`.

    Raise LanguageError where it is empty. A name that clashes inside a compute gets a number.
    """
    check_axis_name(name)
    ends = (0, domain) if as_number(domain) is not None else domain
    if not isinstance(ends, (tuple, list)) or len(ends) != 2:
        raise LanguageError(
            f"the reduce axis '{name}' runs over {short_text(domain)}; give its extent, or (lo, hi)"
        )
    lo, hi = (as_integer(end, f"an end of the reduce axis '{name}'") for end in ends)
    if lo < -_FARTHEST or hi > _FARTHEST:
        raise LanguageError(f"the reduce axis '{name}' runs to {lo}..{hi}, beyond 2**62")
    if hi <= lo:
        raise LanguageError(f"the reduce axis '{name}' is empty: {lo}..{hi}; give it an extent > 0")
    return ReduceAxis(name, hi - lo, lo)


Axes = ReduceAxis | Sequence[ReduceAxis]


def sum(expr: ScalarLike, axis: Axes) -> Reduction:
    """Return the sum of `expr` over the reduce axes `axis`: the whole body of a compute.

    It is computed in the dtype of `expr`, so cast terms of 8 or 16 bits to what their sum needs:
    `sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k)`.
    """
    return _reduction(Combiner.SUM, expr, axis)


def max(expr: ScalarLike, axis: Axes) -> Reduction:
    """Return the largest `expr` over the reduce axes `axis`; see `sum`."""
    return _reduction(Combiner.MAX, expr, axis)


def min(expr: ScalarLike, axis: Axes) -> Reduction:
    """Return the smallest `expr` over the reduce axes `axis`; see `sum`."""
    return _reduction(Combiner.MIN, expr, axis)


def prod(expr: ScalarLike, axis: Axes) -> Reduction:
    """Return the product of `expr` over the reduce axes `axis`; see `sum`."""
    return _reduction(Combiner.PROD, expr, axis)


def any(expr: ScalarLike, axis: Axes) -> Reduction:
    """Return whether the bool `expr` holds somewhere on the reduce axes `axis`; see `sum`."""
    return _reduction(Combiner.ANY, expr, axis)


def all(expr: ScalarLike, axis: Axes) -> Reduction:
    """Return whether the bool `expr` holds everywhere on the reduce axes `axis`; see `sum`."""
    return _reduction(Combiner.ALL, expr, axis)


def argmax(expr: ScalarLike, axis: Axes) -> TupleReduction:
    """Return (the largest `expr`, where it is): the whole of a `compute_tuple`.

    Where is the int64 value of the reduce axis; of several axes, the place in row-major order. The
    first of equal ones wins, and NaN is the largest of all, as in NumPy. Raise LanguageError for
    several axes that do not begin at 0.
    """
    return _extreme(expr, axis, Combiner.MAX, "argmax")


def argmin(expr: ScalarLike, axis: Axes) -> TupleReduction:
    """Return (the smallest `expr`, where it is); see `argmax`."""
    return _extreme(expr, axis, Combiner.MIN, "argmin")


def _extreme(expr: ScalarLike, axis: Axes, combiner: Combiner, name: str) -> TupleReduction:
    axes, body = _axes(name, axis), as_scalar(expr)
    place: Scalar = axes[0]
    for inner in axes[1:]:
        if [one for one in axes if one.lo]:
            raise LanguageError(f"{name} over several axes counts from 0; let all of them begin so")
        place = place * inner.extent + inner
    first = TupleReducer(
        lambda a, b: _better(a, b, combiner),
        (combiner.identity(body.dtype), const(2**63 - 1, INT64)),
        name,
        is_own=True,
    )
    return first(body, place, axis=axes)


def _better(
    left: tuple[Scalar, ...], right: tuple[Scalar, ...], combiner: Combiner
) -> tuple[Scalar, Scalar]:
    """Return the (value, place) of two that is more extreme, the first of equal ones."""
    (a, i), (b, j) = left, right
    is_beyond = is_more_extreme(a, b, largest=combiner is Combiner.MAX)
    is_left = any_of(is_beyond, all_of(is_same(a, b), i < j))
    return if_then_else(is_left, a, b), if_then_else(is_left, i, j)


def _reduction(combiner: Combiner, expr: ScalarLike, axis: Axes) -> Reduction:
    verb = combiner.value
    axes, body = _axes(verb, axis), _term(verb, expr)
    if body.dtype.is_bool != combiner.is_logical:
        cure = "compare them first" if combiner.is_logical else "cast them first, or use any or all"
        raise LanguageError(f"{verb} of {body.dtype}s; {cure}")
    return Reduction(combiner, body.expr, axes)


def _term(verb: str, expr: ScalarLike) -> Scalar:
    """Return what `verb` combines; raise LanguageError for a Python bool."""
    refuse_bool(expr)
    return as_scalar(expr)


def _axes(verb: str, axis: Axes) -> tuple[ReduceAxis, ...]:
    """Return the axes that `verb` runs over; raise LanguageError unless they are some."""
    if isinstance(axis, Scalar):
        axes = (axis,)
    elif (listed := as_list(axis)) is not None:
        axes = tuple(listed)
    else:
        raise LanguageError(
            f"{verb} runs over {short_text(axis)}: axis= is a reduce axis, or a list of them, made "
            f"by ac.reduce_axis(extent); {verb} over dimensions of a whole tensor, by number, is "
            f"ac.ops.{verb}"
        )
    if not axes:
        raise LanguageError(f"{verb} needs axis=, one reduce axis or a list of them")
    for one in axes:
        if not isinstance(one, ReduceAxis):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LanguageError(
                f"{verb} runs over {short_text(one)}, which is no reduce axis; make one by "
                "ac.reduce_axis(extent)"
            )
    if len({id(one) for one in axes}) < len(axes):
        raise LanguageError(f"{verb} runs over the axis '{axes[0].name}' twice; list it once")
    return axes
