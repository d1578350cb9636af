"""Element types: their names, sizes and NumPy counterparts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, lru_cache

import ml_dtypes
import numpy as np

from ansorc.errors import LanguageError


class Kind(Enum):
    """The meaning of the bits of an element."""

    FLOAT = "float"
    BFLOAT = "bfloat"
    """The upper half of a float32: its range, eight bits of precision."""
    INT = "int"
    UINT = "uint"
    BOOL = "bool"


@dataclass(frozen=True)
class DType:
    """An element type, e.g. `float32`, or a vector of `lanes` such elements, e.g. `float32x8`."""

    kind: Kind
    bits: int
    lanes: int = 1

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.kind.value, self.bits, self.lanes))

    @cached_property
    def name(self) -> str:
        """The printed form: `float32`, `bool`, `float32x8`."""
        base = "bool" if self.kind is Kind.BOOL else f"{self.kind.value}{self.bits}"
        return base if self.lanes == 1 else f"{base}x{self.lanes}"

    @property
    def bytes(self) -> int:
        """The bytes of one element in memory (a bool takes one), times the lanes."""
        return max(1, self.bits // 8) * self.lanes

    @property
    def is_float(self) -> bool:
        """Whether arithmetic on it rounds."""
        return self.kind in (Kind.FLOAT, Kind.BFLOAT)

    @property
    def is_bfloat(self) -> bool:
        """Whether it is bfloat16."""
        return self.kind is Kind.BFLOAT

    @property
    def is_integer(self) -> bool:
        """Whether it is a signed or unsigned integer (not bool)."""
        return self.kind in (Kind.INT, Kind.UINT)

    @property
    def is_bool(self) -> bool:
        """Whether it is a truth value."""
        return self.kind is Kind.BOOL

    @property
    def element(self) -> DType:
        """The type of one lane."""
        return self if self.lanes == 1 else _with_lanes(self, 1)

    def vector(self, lanes: int) -> DType:
        """Return the vector type with `lanes` such elements."""
        return _with_lanes(self, lanes)

    @cached_property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy type of one lane; that of bfloat16 comes from the package ml_dtypes."""
        if self.is_bfloat:
            return np.dtype(ml_dtypes.bfloat16)
        return np.dtype("bool" if self.is_bool else f"{self.kind.value}{self.bits}")

    @cached_property
    def epsilon(self) -> float:
        """The distance from 1 to the next number of a float dtype."""
        fraction, _ = _FLOAT_BITS[self.kind, self.bits]
        return 2.0**-fraction

    @cached_property
    def smallest(self) -> float:
        """The least number above 0 of a float dtype, a subnormal one."""
        fraction, exponent = _FLOAT_BITS[self.kind, self.bits]
        return 2.0 ** -(exponent + fraction)

    @cached_property
    def largest(self) -> float:
        """The largest finite number of a float dtype."""
        fraction, exponent = _FLOAT_BITS[self.kind, self.bits]
        return (2.0 - 2.0**-fraction) * 2.0 ** (exponent + 1)

    def __str__(self) -> str:
        return self.name


@lru_cache(maxsize=1024)
def _with_lanes(dtype: DType, lanes: int) -> DType:
    return replace(dtype, lanes=lanes)


_FLOAT_BITS = {
    (Kind.FLOAT, 16): (10, 14),
    (Kind.BFLOAT, 16): (7, 126),
    (Kind.FLOAT, 32): (23, 126),
    (Kind.FLOAT, 64): (52, 1022),
}
"""Bits of the fraction, and the exponent of the least normal number (negated)."""

FLOAT16 = DType(Kind.FLOAT, 16)
FLOAT32 = DType(Kind.FLOAT, 32)
FLOAT64 = DType(Kind.FLOAT, 64)
BFLOAT16 = DType(Kind.BFLOAT, 16)
INT8 = DType(Kind.INT, 8)
INT16 = DType(Kind.INT, 16)
INT32 = DType(Kind.INT, 32)
INT64 = DType(Kind.INT, 64)
UINT8 = DType(Kind.UINT, 8)
UINT16 = DType(Kind.UINT, 16)
UINT32 = DType(Kind.UINT, 32)
UINT64 = DType(Kind.UINT, 64)
BOOL = DType(Kind.BOOL, 1)

SCALARS = {
    t.name: t
    for t in (
        FLOAT16, FLOAT32, FLOAT64, BFLOAT16, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32,
        UINT64, BOOL,
    )
}  # fmt: skip


@lru_cache(maxsize=256)
def dtype(name: str) -> DType:
    """Return the type named `name` (`float32`, `float32x8`); raise LanguageError if unknown."""
    base, _, lanes = name.partition("x")
    if base not in SCALARS or (lanes and not lanes.isdigit()):
        known = ", ".join(SCALARS)
        raise LanguageError(f"'{name}' is not a dtype; use one of {known}")
    return SCALARS[base].vector(int(lanes)) if lanes else SCALARS[base]
