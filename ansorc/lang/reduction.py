"""Reductions: reduce axes, and sum, max, min, prod, any, all, argmax … over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ansorc.errors import LanguageError
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dim import Size, most_of
from ansorc.ir.dtype import INT64
from ansorc.ir.expr import Expr, Var, dtype_of
from ansorc.lang.complex_type import Complex
from ansorc.lang.compute_op import Combiner
from ansorc.lang.held_load import HeldLoad
from ansorc.lang.literal import as_integer, as_list, as_number, refuse_bool, short_text
from ansorc.lang.naming import check_axis_name
from ansorc.lang.reducer import Combine, Reducer, reducer_of
from ansorc.lang.reducer_laws import with_kept_identity
from ansorc.lang.scalar import all_of, any_of, const, if_then_else
from ansorc.lang.scalar_type import Scalar, ScalarLike, as_scalar
from ansorc.lang.total_order import is_more_extreme, is_same
from ansorc.lang.whole import Whole

_FARTHEST = 2**62
"""The largest magnitude of a reduce axis: the sum of two indices must fit 64 bits."""


@dataclass(frozen=True, slots=True, eq=False)
class ReduceVar(Var):
    """The variable of a reduce axis, compared by identity; `compute` replaces it by `name + lo`."""


class ReduceAxis(Scalar):
    """An index over which a reduction runs: `lo`, `lo + 1`, … for `extent` values.

    With `bounds`, a begin and an end that are data, it runs from one up to the other. Axes are
    compared by identity.
    """

    __slots__ = ("bounds", "extent", "lo", "name", "size")

    def __init__(
        self,
        name: str,
        extent: int,
        lo: int = 0,
        bounds: tuple[Expr, ...] = (),
        size: Size | None = None,
    ) -> None:
        super().__init__(ReduceVar(name, INT64))
        self.name, self.extent, self.lo, self.bounds, self.size = name, extent, lo, bounds, size


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReductionLoad(HeldLoad):
    """The value of a reduction in an expression."""

    @property
    def reduction(self) -> Reduction:
        """The reduction."""
        return self.held  # pyright: ignore[reportReturnType]


class Reduction(Scalar):
    """The terms `body` combined over `axes`: the whole body of a `compute`, or a value in one.

    As a value in an expression it becomes a stage of its own (lang/inner_reductions.py).
    """

    __slots__ = ("axes", "body", "combiner")

    def __init__(self, combiner: Combiner, body: Expr, axes: tuple[ReduceAxis, ...]) -> None:
        held = Buffer(combiner.value, (), dtype_of(body), Scope.LOCAL)
        super().__init__(ReductionLoad(held, (), self))
        self.combiner, self.body, self.axes = combiner, body, axes

    def advice(self) -> str:
        """Return what to do where no stage can be made of it."""
        over = ", ".join(axis.name for axis in self.axes)
        return (
            f"the {self.combiner.value} over {over} must be the whole body of a compute: "
            "put it in its own compute, then read that"
        )

    def __repr__(self) -> str:
        return f"<the {self.combiner.value} over {', '.join(axis.name for axis in self.axes)}>"


@dataclass(frozen=True, eq=False, repr=False)
class TupleReduction(Whole):
    """Tuples of the terms `bodies` combined over `axes`; only as the whole of a compute_tuple."""

    reducer: Reducer
    bodies: tuple[Expr, ...]
    axes: tuple[ReduceAxis, ...]
    name: str = ""
    """The name of a user's reducer, whose laws are tested; "" for a built-in one."""

    def advice(self) -> str:
        over = ", ".join(axis.name for axis in self.axes)
        return (
            f"the reduction of {len(self.bodies)} values over {over} must be all that the function "
            "of a compute_tuple returns: put it in its own, then read that"
        )

    def __repr__(self) -> str:
        return f"<{self.advice()}>"


@dataclass(frozen=True, eq=False, repr=False)
class ComplexProduct(Whole):
    """The product of complex terms; only as the whole body of a `compute`."""

    parts: TupleReduction
    """Of pairs: their real and their imaginary parts."""

    def advice(self) -> str:
        return (
            "the product of complex numbers must be all that the function of a compute returns: "
            "put it in its own, then read that"
        )


@dataclass(frozen=True)
class TupleReducer:
    """A way to combine tuples, without their dtypes; see `reducer`."""

    combine_tuples: Combine
    identities: tuple[ScalarLike, ...]
    name: str
    is_own: bool = False
    """Whether it is built in; its laws are then covered by ansorc's tests."""

    def __call__(self, *terms: ScalarLike, axis: Axes) -> TupleReduction:
        """Return the tuples of `terms` combined over the reduce axes `axis`.

        Raise LanguageError if the reducer does not fit the number or dtypes of the terms.
        """
        axes = as_reduce_axes(self.name, axis)
        bodies = tuple(_real_term(self.name, term) for term in terms)
        dtypes = [body.dtype for body in bodies]
        reducer = reducer_of(self.combine_tuples, self.identities, dtypes, self.name)
        reducer = reducer if self.is_own else with_kept_identity(reducer)
        name = "" if self.is_own else self.name
        return TupleReduction(reducer, tuple(body.expr for body in bodies), axes, name)


def reducer(
    combine: Combine, identities: Sequence[ScalarLike], name: str = "reducer"
) -> TupleReducer:
    """Return a reduction of tuples, for use in `compute_tuple`.

    `combine(left, right)` takes two tuples of scalars and returns the combined tuple. It must be
    associative and commutative (up to rounding), since a schedule combines terms in any order.
    Combining the tuple `identities` with any other tuple must give the other tuple. `compute_tuple`
    tests this on numbers, and an error shows those for which it fails (lang/reducer_laws.py).
    Raise LanguageError for arguments of other types.

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


End: TypeAlias = "int | Scalar"


def reduce_axis(domain: int | Size | tuple[End, End], name: str = "k") -> ReduceAxis:
    """Return an axis over 0 … domain - 1, or over lo … hi - 1 for the domain `(lo, hi)`.

    The domain may be a size that the caller gives (`ac.dim`).

    The ends may be elements of tensors, at indices of the compute in whose function the axis is
    made. The range may then be empty; a call fails if it leaves what the axis indexes.

        def row(i, j):  # a sparse matrix (values V, columns J, row pointers P) times B
            k = ac.reduce_axis((P[i], P[i + 1]))
            return ac.sum(V[k] * B[J[k], j], axis=k)

    Raise LanguageError if it is empty. A name that clashes inside a compute gets a number.
    """
    check_axis_name(name)
    if isinstance(domain, Size) or (
        isinstance(domain, (tuple, list)) and len(domain) == 2 and isinstance(domain[1], Size)
    ):
        return _axis_of_size(name, domain)
    ends = (0, domain) if as_number(domain) is not None else domain
    if not isinstance(ends, (tuple, list)) or len(ends) != 2:
        raise LanguageError(
            f"the reduce axis '{name}' runs over {short_text(domain)}; give its extent, or (lo, hi)"
        )
    if [end for end in ends if isinstance(end, Scalar)]:
        return ReduceAxis(name, 1, 0, tuple(_end(name, end) for end in ends))
    lo, hi = (as_integer(end, f"an end of the reduce axis '{name}'") for end in ends)
    if lo < -_FARTHEST or hi > _FARTHEST:
        raise LanguageError(f"the reduce axis '{name}' runs to {lo}..{hi}, beyond 2**62")
    if hi <= lo:
        raise LanguageError(f"the reduce axis '{name}' is empty: {lo}..{hi}; give it an extent > 0")
    return ReduceAxis(name, hi - lo, lo)


def _axis_of_size(name: str, domain: Size | Sequence[object]) -> ReduceAxis:
    """Return an axis whose extent the caller gives."""
    ends: Sequence[object] = (0, domain) if isinstance(domain, Size) else domain
    low, high = as_integer(ends[0], f"the first value of the reduce axis '{name}'"), ends[1]
    assert isinstance(high, Size)
    size: Size = high - low
    if size.bounds[0] < 1:
        raise LanguageError(
            f"the reduce axis '{name}' may be empty: its extent {size} may be {size.bounds[0]}; "
            "give its dimensions a range for which it is 1 or more"
        )
    return ReduceAxis(name, most_of(size), low, size=size)


def _end(name: str, end: object) -> Expr:
    """Return an end of a range that is data, an int64."""
    if isinstance(end, ReduceAxis):
        raise LanguageError(
            f"the range of '{name}' follows the reduce axis '{end.name}'; it may follow the axes "
            "of the result"
        )
    value = as_scalar(end)
    if not value.dtype.is_integer:
        raise LanguageError(f"an end of the reduce axis '{name}' is {value.dtype}, no integer")
    return value.astype(INT64).expr


Axes = ReduceAxis | Sequence[ReduceAxis]


def sum(expr: ScalarLike, axis: Axes) -> Reduction:
    """Return the sum of `expr` over the reduce axes `axis`.

    It is the whole body of a compute, or a value in one, which becomes a stage of its own.

    It is computed in the dtype of `expr`, so cast terms of 8 or 16 bits to a wider dtype:
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
    """Return (the largest `expr`, its index): the whole body of a `compute_tuple`.

    The index is the int64 value of the reduce axis; with several axes it counts in row-major order.
    The first of equal terms wins, and NaN is the largest, as in NumPy. Over an empty range that is
    data it is the least value and 2**63 - 1. Raise LanguageError for several axes that do not begin
    at 0, or of which another than the first has such a range.
    """
    return _extreme(expr, axis, Combiner.MAX, "argmax")


def argmin(expr: ScalarLike, axis: Axes) -> TupleReduction:
    """Return (the smallest `expr`, its index); see `argmax`."""
    return _extreme(expr, axis, Combiner.MIN, "argmin")


def _extreme(expr: ScalarLike, axis: Axes, combiner: Combiner, name: str) -> TupleReduction:
    axes, body = as_reduce_axes(name, axis), _real_term(name, expr)
    position: Scalar = axes[0]
    for inner in axes[1:]:
        if [axis_ for axis_ in axes if axis_.lo]:
            raise LanguageError(f"{name} over several axes counts from 0; let all of them begin so")
        if inner.bounds:
            raise LanguageError(
                f"{name} over several axes counts places, of which '{inner.name}' has no known "
                "number: let the axis whose range is data be the first"
            )
        position = position * inner.extent + inner
    first = TupleReducer(
        lambda a, b: _better(a, b, combiner),
        (combiner.identity(body.dtype), const(2**63 - 1, INT64)),
        name,
        is_own=True,
    )
    return first(body, position, axis=axes)


def _better(
    left: tuple[Scalar, ...], right: tuple[Scalar, ...], combiner: Combiner
) -> tuple[Scalar, Scalar]:
    """Return the more extreme of two (value, index) pairs; the first of equal ones."""
    (a, i), (b, j) = left, right
    is_beyond = is_more_extreme(a, b, largest=combiner is Combiner.MAX)
    is_left = any_of(is_beyond, all_of(is_same(a, b), i < j))
    return if_then_else(is_left, a, b), if_then_else(is_left, i, j)


def _reduction(combiner: Combiner, expr: ScalarLike, axis: Axes) -> Reduction:
    verb = combiner.value
    axes, body = as_reduce_axes(verb, axis), _term(verb, expr)
    if isinstance(body, Complex):
        return _complex_reduction(combiner, body, axes)
    if body.dtype.is_bool != combiner.is_logical:
        cure = "compare them first" if combiner.is_logical else "cast them first, or use any or all"
        raise LanguageError(f"{verb} of {body.dtype}s; {cure}")
    return Reduction(combiner, body.expr, axes)


def _complex_reduction(
    combiner: Combiner, body: Complex, axes: tuple[ReduceAxis, ...]
) -> Reduction:
    """Return the sum or the product of complex terms, which a `compute` makes two tensors of."""
    if combiner is Combiner.SUM:
        total = (Reduction(combiner, part.expr, axes) for part in (body.real, body.imag))
        return Complex(*total)  # pyright: ignore[reportReturnType]
    if combiner is Combiner.PROD:
        parts = TupleReducer(_multiply_pairs, (1.0, 0.0), "prod", is_own=True)
        return ComplexProduct(parts(body.real, body.imag, axis=axes))  # pyright: ignore[reportReturnType]
    raise LanguageError(
        f"{combiner.value} of complex numbers, which have only sum and prod; take the "
        f"{combiner.value} of abs(z), z.real or z.imag"
    )


def _multiply_pairs(left: tuple[Scalar, ...], right: tuple[Scalar, ...]) -> tuple[Scalar, Scalar]:
    (a, b), (c, d) = left, right
    return a * c - b * d, a * d + b * c


def _real_term(verb: str, expr: ScalarLike) -> Scalar:
    """Return a term of tuples; raise LanguageError for a complex one."""
    term = as_scalar(expr)
    if isinstance(term, Complex):
        raise LanguageError(
            f"{verb} of complex numbers: it combines real ones; give z.real and z.imag, or abs(z)"
        )
    return term


def _term(verb: str, expr: ScalarLike) -> Scalar:
    """Return the terms that `verb` combines; raise LanguageError for a Python bool."""
    refuse_bool(expr)
    return as_scalar(expr)


def as_reduce_axes(verb: str, axis: Axes) -> tuple[ReduceAxis, ...]:
    """Return the axes over which `verb` runs; raise LanguageError if there are none."""
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
    for axis_ in axes:
        if not isinstance(axis_, ReduceAxis):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LanguageError(
                f"{verb} runs over {short_text(axis_)}, which is not a reduce axis; make one by "
                "ac.reduce_axis(extent)"
            )
    if len({id(axis_) for axis_ in axes}) < len(axes):
        raise LanguageError(f"{verb} runs over the axis '{axes[0].name}' twice; list it once")
    return axes
