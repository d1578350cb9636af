"""How types, literals and emitted values are spelled in LLVM IR."""

from __future__ import annotations

import math
import struct
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ansorc.ir.dtype import UINT8, DType, Kind


class Value(NamedTuple):
    """The operand `text` (a name or a literal) of type `dtype`; a bool is an `i1`."""

    text: str
    dtype: DType

    @property
    def typed(self) -> str:
        """The operand with its type in front: `float %t3`."""
        return f"{register_type(self.dtype)} {self.text}"


@lru_cache(maxsize=256)
def register_type(dtype: DType) -> str:
    """Return the LLVM type of a value of `dtype`."""
    return _with_lanes(_scalar(dtype, "i1"), dtype.lanes)


@lru_cache(maxsize=256)
def memory_type(dtype: DType) -> str:
    """Return the LLVM type that `dtype` has in memory, where a bool is a byte of 0 or 1."""
    return _with_lanes(_scalar(dtype, "i8"), dtype.lanes)


def in_memory(dtype: DType) -> DType:
    """Return the type of the bytes that hold `dtype`: those of bools are numbers."""
    return with_lanes(UINT8, dtype.lanes) if dtype.is_bool else dtype


@lru_cache(maxsize=256)
def suffix(dtype: DType) -> str:
    """Return the ending of overloaded intrinsics: `f32`, `v8f32`, `i64`; bfloat16 is an `i16`."""
    lanes = f"v{dtype.lanes}" if dtype.lanes > 1 else ""
    return f"{lanes}{'f' if dtype.kind is Kind.FLOAT else 'i'}{dtype.bits}"


def literal(value: float, dtype: DType) -> Value:
    """Return `value` as a literal of `dtype`, in each lane if it is a vector."""
    text = _scalar_literal(value, dtype)
    if dtype.lanes > 1:
        text = f"splat ({register_type(dtype.element)} {text})"
    return Value(text, dtype)


@lru_cache(maxsize=256)
def with_lanes(dtype: DType, lanes: int) -> DType:
    """Return the vector type of `lanes` elements like those of `dtype`."""
    return dtype.vector(lanes)


def wrap_signed(value: int, bits: int) -> int:
    """Return the signed number that the lowest `bits` of `value` stand for."""
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def _scalar(dtype: DType, boolean: str) -> str:
    if dtype.is_bool:
        return boolean
    if dtype.kind is Kind.FLOAT:
        return {16: "half", 32: "float", 64: "double"}[dtype.bits]
    return f"i{dtype.bits}"


def _with_lanes(scalar: str, lanes: int) -> str:
    return f"<{lanes} x {scalar}>" if lanes > 1 else scalar


def _scalar_literal(value: float, dtype: DType) -> str:
    if dtype.is_bool:
        return "true" if value else "false"
    if not dtype.is_float:
        return str(wrap_signed(int(value), dtype.bits))
    with np.errstate(over="ignore"):
        rounded = dtype.numpy.type(value)
    if dtype.bits == 16:
        bits = int.from_bytes(rounded.tobytes(), "little")
        return str(wrap_signed(bits, 16)) if dtype.is_bfloat else f"0xH{bits:04X}"
    number = math.nan if math.isnan(value) else float(rounded)
    return f"0x{int.from_bytes(struct.pack('<d', number), 'little'):016X}"
