"""Choose the dtype of sums of narrow numbers: in 16 bits a sum would lose its small terms.

Sums of float16 and bfloat16 are computed in float32 and rounded once, to the dtype of the operands.
Sums of 8- and 16-bit integers are int32. For other dtypes nothing changes: no node, no stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from ansorc.ir.dtype import FLOAT32, INT32, DType
from ansorc.lang.define import compute
from ansorc.lang.literal import DTypeLike, as_any_dtype
from ansorc.lang.naming import stage_name
from ansorc.lang.reduction import Reduction
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor


class SumTypes(NamedTuple):
    """The dtypes of a sum: of the addition, and of the result."""

    sums: DType
    result: DType

    @staticmethod
    def of(kind: DType, given: DTypeLike | None = None) -> SumTypes:
        """Return the dtypes for terms of dtype `kind`; both are `given` if it is not None."""
        if given is not None:
            wanted = cast(DType, as_any_dtype(given))  # a ComplexType has the same attributes
            return SumTypes(wanted, wanted)
        sums = sum_type(kind)
        return SumTypes(sums, kind if kind.is_float else sums)

    def total(
        self,
        shape: Sequence[int],
        body: Callable[..., Reduction],
        name: str,
        axes: Sequence[str] | None = None,
    ) -> Tensor:
        """Return the sums `body`; if they are rounded, the sums are a stage `<name>.sum`."""
        if self.sums == self.result:
            return compute(shape, body, name, axes=axes)
        wide = compute(shape, body, stage_name(name, "sum"), axes=axes)
        return compute(shape, lambda *i: wide[i].astype(self.result), name, axes=axes)


def sum_type(kind: DType) -> DType:
    """Return the default dtype in which numbers of dtype `kind` are added."""
    if kind.bits > 16 or kind.is_bool:
        return kind
    return FLOAT32 if kind.is_float else INT32


def widen(element: Scalar) -> Scalar:
    """Return `element` in the dtype of its sums."""
    return element.astype(sum_type(element.dtype))


def wide_float(element: Scalar) -> Scalar:
    """Return a float in the dtype of its sums; return other elements unchanged."""
    return widen(element) if element.dtype.is_float else element


def product(left: Scalar, right: Scalar, sum_dtype: DTypeLike | None = None) -> Scalar:
    """Return `left * right`, both cast to `sum_dtype`; None: to the dtype of their sums.

    Raise LanguageError if their dtypes differ and `sum_dtype` is None.
    """
    if sum_dtype is not None:
        return left.astype(sum_dtype) * right.astype(sum_dtype)
    if left.dtype != right.dtype:
        return left * right  # which says what is wrong
    return widen(left) * widen(right)
