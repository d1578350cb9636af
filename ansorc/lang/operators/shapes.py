"""Checks and small arithmetic on shapes that all operators share."""

from __future__ import annotations

from collections.abc import Sequence

from ansorc.errors import LanguageError
from ansorc.ir.expr import Expr
from ansorc.lang.tensor import Tensor


def require(condition: bool, operator: str, *tensors: Tensor, need: str) -> None:  # noqa: FBT001
    """Raise LanguageError, naming the operator and the shapes of `tensors`, unless `condition`."""
    if not condition:
        given = " and ".join(f"{tensor.name} {list(tensor.shape)}" for tensor in tensors)
        raise LanguageError(f"{operator} of {given}: {need}")


def require_rank(operator: str, rank: int, *tensors: Tensor) -> None:
    """Raise LanguageError unless each of `tensors` has `rank` dimensions."""
    is_right = all(len(tensor.shape) == rank for tensor in tensors)
    require(is_right, operator, *tensors, need=f"each must have {rank} dimensions")


def axis_number(operator: str, tensor: Tensor, axis: int) -> int:
    """Return `axis` counted from the front; raise LanguageError where there is no such axis."""
    rank = len(tensor.shape)
    is_there = -rank <= axis < rank
    require(is_there, operator, tensor, need=f"there is no axis {axis}; use -{rank}..{rank - 1}")
    return axis % rank


def each(operator: str, name: str, value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """Return `value` for each of `rank` dimensions; raise LanguageError on a wrong number."""
    values = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(values) != rank:
        raise LanguageError(f"{operator}: {name} is {values}; give one number, or {rank}")
    return values


def scaled(index: Expr, factor: int) -> Expr:
    """Return `index * factor`, plainly `index` for 1."""
    return index if factor == 1 else index * factor
