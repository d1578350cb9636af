"""Names of functions of NumPy in this language."""

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
_OF_THE_LANGUAGE = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "clip", "cosh", "hypot",
    "isfinite", "isinf", "isnan", "log10", "rint", "sign", "sinh", "tan",
)  # fmt: skip
"""The functions of `ansorc/lang/functions.py` with names of NumPy, made of other operations."""
_NAMES = {
    "absolute": "abs", "logical_and": "all_of", "logical_or": "any_of",
    "float_power": "power", "bitwise_count": "popcount", "arccos": "acos", "arccosh": "acosh",
    "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2",
    "arctanh": "atanh",
}  # fmt: skip
_WRITTEN = {
    "square": "x * x", "negative": "-x", "reciprocal": "1.0 / x",
}  # fmt: skip
"""Functions of NumPy that are written as operators."""
_OWN = {
    *MATH_FUNCTIONS,
    *_OF_THE_LANGUAGE,
    "all_of",
    "any_of",
    "logical_not",
    "maximum",
    "minimum",
    "popcount",
    "power",
} - {"fma"}
