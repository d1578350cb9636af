"""The types of the functions that `compute` and `compute_tuple` accept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, TypeVar

from ansorc.ir.expr import Expr
from ansorc.lang.reduction import Reduction, TupleReduction
from ansorc.lang.scalar_type import Scalar, ScalarLike
from ansorc.lang.scan import ScanSteps

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Element: TypeAlias = "ScalarLike | Reduction | TupleReduction | ScanSteps"
"""The result of the function of a `compute`."""
Elements: TypeAlias = "tuple[ScalarLike, ...] | TupleReduction | ScanSteps"
"""The result of the function of a `compute_tuple`."""
Found: TypeAlias = "tuple[Expr, ...] | Reduction | TupleReduction | ScanSteps"
"""A result with Python numbers replaced by literals."""
FixedRank: TypeAlias = (
    Callable[[Scalar], T]
    | Callable[[Scalar, Scalar], T]
    | Callable[[Scalar, Scalar, Scalar], T]
    | Callable[[Scalar, Scalar, Scalar, Scalar], T]
    | Callable[[Scalar, Scalar, Scalar, Scalar, Scalar], T]
    | Callable[[Scalar, Scalar, Scalar, Scalar, Scalar, Scalar], T]
    | Callable[[], T]
)
"""Functions of one index for each dimension, spelled out so that lambdas are type-checked."""


class AnyRank(Protocol[T_co]):
    """A function like `lambda *indices: …`."""

    def __call__(self, *indices: Scalar) -> T_co: ...
