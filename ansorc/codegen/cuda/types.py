"""How types, literals and expressions are spelled in CUDA C."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ansorc.ir.dtype import INT64, DType, Kind

ATOM, UNARY, PRODUCT, SUM, ORDER, EQUALITY, CONJUNCTION, DISJUNCTION, CHOICE = range(9, 0, -1)
"""How strongly the outermost operator of an expression binds, the strongest first."""

_INTEGERS = {8: "signed char", 16: "short", 32: "int", 64: "long long"}
_INT32 = (-(1 << 31), (1 << 31) - 1)


class CExpr(NamedTuple):
    """The text of a value of `dtype`, a scalar."""

    text: str
    dtype: DType
    level: int = ATOM
    low: int = 0
    high: int = 0
    """Bounds of an integer."""
    is_wide: bool = False
    """Whether an int64 is a `long long`; most are indices that are known to fit into an `int`."""

    def at(self, level: int) -> str:
        """Return the text, in parentheses where its operator binds less than `level`."""
        return self.text if self.level >= level else f"({self.text})"


def fits_int(low: int, high: int) -> bool:
    """Whether an `int` holds every number from `low` to `high`."""
    return _INT32[0] <= low and high <= _INT32[1]


def is_narrow(dtype: DType) -> bool:
    """Whether it is a float of 16 bits, which is computed in float32."""
    return dtype.is_float and dtype.bits == 16


def c_type(dtype: DType) -> str:
    """Return the C type of one element."""
    if dtype.is_bool:
        return "bool"
    if dtype.is_bfloat:
        return "bfloat16"
    if dtype.is_float:
        return {16: "half", 32: "float", 64: "double"}[dtype.bits]
    name = _INTEGERS[dtype.bits]
    if dtype.kind is not Kind.UINT:
        return name
    return "unsigned" if name == "int" else f"unsigned {name.removeprefix('signed ')}"


def literal(value: float, dtype: DType) -> CExpr:
    """Return `value` as a literal of `dtype`; 16-bit floats are literals of float.

    An int64 is an `int` where it fits.
    """
    if dtype.is_bool:
        return CExpr("true" if value else "false", dtype)
    if dtype.is_float:
        text = _float_literal(value, dtype)
        return CExpr(text, dtype, UNARY if text.startswith("-") else ATOM)
    number = int(value)
    suffix = "u" if dtype.kind is Kind.UINT and dtype.bits >= 32 else ""
    if dtype.bits == 64 and (suffix or not fits_int(number, number)):
        suffix += "ll"
    text = f"{number}{suffix}"
    if number == -(1 << 63):
        return CExpr(f"(-{(1 << 63) - 1}ll - 1)", dtype, ATOM, number, number, dtype == INT64)
    if number == -(1 << 31):
        text = f"(-{(1 << 31) - 1} - 1)"
    level = UNARY if text.startswith("-") else ATOM
    is_wide = dtype == INT64 and text.endswith("ll")
    return CExpr(text, dtype, level, number, number, is_wide)


def _float_literal(value: float, dtype: DType) -> str:
    is_double = dtype.bits == 64
    with np.errstate(over="ignore"):
        rounded = float(dtype.numpy.type(value))
    ending = "" if is_double else "f"
    if math.isnan(rounded):
        return f"nan_{ending or 'd'}()"
    if math.isinf(rounded):
        return f"{'-' if rounded < 0 else ''}infinity_{ending or 'd'}()"
    text = repr(rounded) if is_double else repr(np.float32(rounded).item())
    if not is_double:
        text = np.format_float_positional(np.float32(rounded), trim="0")
        if len(text) > 12:
            text = np.format_float_scientific(np.float32(rounded), trim="0")
    return f"{text}{ending}"
