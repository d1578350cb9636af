"""Reductions: axes that are summed away, and sum, max, min and prod over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansorc.errors import LanguageError
from ansorc.ir.dtype import INT64
from ansorc.ir.expr import Expr, Value, Var, as_expr, dtype_of
from ansorc.lang.compute_op import Combiner
from ansorc.lang.naming import check_axis_name
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


def sum(expr: Value, axis: Axes) -> Reduction:
    """Return the sum of `expr` over the reduce axes `axis`: the whole body of a compute."""
    return _reduction(Combiner.SUM, expr, axis)


def max(expr: Value, axis: Axes) -> Reduction:
    """Return the largest `expr` over the reduce axes `axis`; see `sum`."""
    return _reduction(Combiner.MAX, expr, axis)


def min(expr: Value, axis: Axes) -> Reduction:
    """Return the smallest `expr` over the reduce axes `axis`; see `sum`."""
    return _reduction(Combiner.MIN, expr, axis)


def prod(expr: Value, axis: Axes) -> Reduction:
    """Return the product of `expr` over the reduce axes `axis`; see `sum`."""
    return _reduction(Combiner.PROD, expr, axis)


def _reduction(combiner: Combiner, expr: Value, axis: Axes) -> Reduction:
    axes = (axis,) if isinstance(axis, Var) else tuple(axis)
    verb = combiner.value
    if not axes:
        raise LanguageError(f"{verb} needs axis=, one reduce axis or a list of them")
    for one in axes:
        if not isinstance(one, ReduceAxis):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LanguageError(f"{verb} runs over reduce axes; make one with ac.reduce_axis(...)")
    if len({id(one) for one in axes}) < len(axes):
        raise LanguageError(f"{verb} runs over the axis '{axes[0].name}' twice; list it once")
    body = as_expr(expr)
    if dtype_of(body).is_bool:
        raise LanguageError(f"{verb} of bools; cast them first")
    return Reduction(combiner, body, axes)
