"""Body: what the function of a `compute` may look like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, TypeVar

from ansorc.ir.expr import Expr, ExprLike, Var
from ansorc.lang.reduction import Reduction, TupleReduction

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Element: TypeAlias = "ExprLike | Reduction | TupleReduction"
"""What the function of a `compute` returns."""
Elements: TypeAlias = "tuple[ExprLike, ...] | TupleReduction"
"""What the function of a `compute_tuple` returns."""
Found: TypeAlias = "tuple[Expr, ...] | Reduction | TupleReduction"
"""The same with Python numbers made literals."""
FixedRank: TypeAlias = (
    Callable[[Var], T]
    | Callable[[Var, Var], T]
    | Callable[[Var, Var, Var], T]
    | Callable[[Var, Var, Var, Var], T]
    | Callable[[Var, Var, Var, Var, Var], T]
    | Callable[[Var, Var, Var, Var, Var, Var], T]
    | Callable[[], T]
)
"""Functions of one index for each dimension, spelled out so that lambdas are type-checked."""


class AnyRank(Protocol[T_co]):
    """A function like `lambda *indices: …`."""

    def __call__(self, *indices: Var) -> T_co: ...
