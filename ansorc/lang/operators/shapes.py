"""Checks and small arithmetic on shapes that all operators share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ansorc.errors import LanguageError
from ansorc.lang.scalar import const
from ansorc.lang.scalar_type import Scalar, ScalarLike, as_scalar
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


def axis_numbers(operator: str, tensor: Tensor, axis: int | Sequence[int] | None) -> list[int]:
    """Return the axes counted from the front, in order; all axes for None.

    Raise LanguageError on an unknown axis, and if one is named twice.
    """
    if axis is None:
        return list(range(len(tensor.shape)))
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    numbers = sorted(axis_number(operator, tensor, number) for number in given)
    is_once = len(set(numbers)) == len(numbers)
    require(is_once, operator, tensor, need=f"an axis is named twice in {given}")
    return numbers


def broadcast_shape(operator: str, *tensors: Tensor) -> tuple[int, ...]:
    """Return the shape that NumPy broadcasts `tensors` to; raise LanguageError if there is none."""
    shape = broadcast_extents(*(tensor.shape for tensor in tensors))
    need = "extents must be equal, or 1, from the last one on"
    require(shape is not None, operator, *tensors, need=need)
    return shape or ()


def broadcast_extents(*shapes: Sequence[int]) -> tuple[int, ...] | None:
    """Return the shape to which NumPy broadcasts `shapes`, or None."""
    rank = max(len(shape) for shape in shapes)
    columns = zip(*((1,) * (rank - len(shape)) + tuple(shape) for shape in shapes), strict=True)
    result: list[int] = []
    for column in columns:
        result.append(max(column))
        if not set(column) <= {1, result[-1]}:
            return None
    return tuple(result)


def broadcast_indices(shape: Sequence[int], indices: Sequence[ScalarLike]) -> tuple[Scalar, ...]:
    """Return the indices into `shape` that broadcasting reads for `indices` of a result."""
    inner = indices[len(indices) - len(shape) :]
    pairs = zip(shape, inner, strict=True)
    return tuple(const(0, "int64") if extent == 1 else as_scalar(i) for extent, i in pairs)


def refuse_unknown(operator: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Raise LanguageError for an option that `operator` does not have."""
    allowed = sorted(known)
    for option in options:
        if option not in allowed:
            raise LanguageError(f"{operator} has no option '{option}'; it has {', '.join(allowed)}")


def each(operator: str, name: str, value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """Return `value` for each of `rank` dimensions; raise LanguageError on a wrong number."""
    values = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(values) != rank:
        raise LanguageError(f"{operator}: {name} is {values}; give one number, or {rank}")
    return values


def scale_index(index: Scalar, factor: int) -> Scalar:
    """Return `index * factor`, or `index` itself if the factor is 1."""
    return index if factor == 1 else index * factor
