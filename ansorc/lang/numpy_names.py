"""What functions of NumPy are called here."""

from __future__ import annotations

from ansorc.ir.operator import MATH_FUNCTIONS


def instead_of(name: str) -> str:
    """Return what to write instead of a function of NumPy."""
    name_ = _NAMES.get(name, name)
    if name in _WRITTEN:
        return f"write {_WRITTEN[name]}"
    return f"write ac.{name_}" if name_ in _OWN else "write it by the operators of Python and ac"


OPERATORS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv",
    "floor_divide": "floordiv", "remainder": "mod", "power": "pow", "equal": "eq",
    "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
    "bitwise_and": "and_", "bitwise_or": "or_", "bitwise_xor": "xor", "left_shift": "lshift",
    "right_shift": "rshift", "matmul": "matmul",
}  # fmt: skip
"""The function that NumPy calls for each operator with one of its numbers on the left."""
_NAMES = {
    "absolute": "abs", "rint": "round", "logical_and": "all_of", "logical_or": "any_of",
    "float_power": "power", "bitwise_count": "popcount",
}  # fmt: skip
_WRITTEN = {
    "isnan": "x != x", "isinf": "abs(x) == float('inf')", "isfinite": "abs(x) < float('inf')",
    "square": "x * x", "negative": "-x", "reciprocal": "1.0 / x",
    "sign": "ac.if_then_else(x > 0.0, 1.0, ac.if_then_else(x < 0.0, -1.0, 0.0))",
}  # fmt: skip
"""Functions of NumPy that are written as operators."""
_OWN = {
    *MATH_FUNCTIONS,
    "all_of",
    "any_of",
    "logical_not",
    "maximum",
    "minimum",
    "popcount",
    "power",
} - {"fma"}
