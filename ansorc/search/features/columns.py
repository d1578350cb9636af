"""Columns: how the numbers of a feature group become columns of a matrix.

A feature group is a dataclass with one documented field for each number; a field holds an array
with one entry for each program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from operator import attrgetter
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ansorc.schedule.extent import BoolArray

FloatArray: TypeAlias = npt.NDArray[np.float32 | np.float64]
"""float32, which is exact for what is compared: counts and extents below 2^24."""

LOG = {"scale": "log"}
"""Field metadata: the number varies over decades and is stored as log2(x + 1), x ≥ 0."""


class Group(Protocol):
    """Any feature group."""

    __dataclass_fields__: ClassVar[dict[str, object]]


@dataclass(frozen=True)
class Column:
    """One feature: its name, `group.field`, and whether it is stored as log2(x + 1)."""

    name: str
    is_log: bool


def columns_of(group: type[Group], prefix: str) -> tuple[Column, ...]:
    """Return the columns of a feature group, in the order of its fields."""
    return tuple(
        Column(f"{prefix}.{field.name}", field.metadata.get("scale") == "log")
        for field in fields(group)  # pyright: ignore[reportArgumentType]
    )


def values_of(group: Group) -> tuple[FloatArray, ...]:
    """Return the arrays of a feature group, in the order of its fields."""
    return _reader(type(group))(group)


@lru_cache
def _reader(group: type[Group]) -> Callable[[Group], tuple[FloatArray, ...]]:
    first, *others = (field.name for field in fields(group))  # pyright: ignore[reportArgumentType]
    if others:
        return attrgetter(first, *others)
    return lambda columns: (getattr(columns, first),)


def stack(values: Iterable[FloatArray], is_log: BoolArray, rows: int) -> npt.NDArray[np.float32]:
    """Return the columns as a matrix [rows, columns], the log ones scaled."""
    # Transposed, columns that lie a power of two apart would share few sets of the cache.
    matrix = np.empty((len(is_log), rows + 16), dtype=np.float32)[:, :rows]
    for column, value, is_scaled in zip(matrix, values, is_log, strict=True):
        column[:] = value
        if is_scaled:
            np.log2(column + 1, out=column)
    return matrix.T
