"""Make expressions of the operands of an operator; a number takes the dtype of the other one."""

from __future__ import annotations

from ansorc.errors import LanguageError
from ansorc.ir.dim import MARK
from ansorc.ir.dtype import BOOL, FLOAT32, INT64, DType
from ansorc.ir.expr import Cast, Const, Expr, Load, Operand, dtype_of
from ansorc.ir.node import walk
from ansorc.ir.substitute import free_vars
from ansorc.lang.literal import literal, refuse_bool


def default_dtype(number: float) -> DType:
    return BOOL if isinstance(number, bool) else INT64 if isinstance(number, int) else FLOAT32


def bool_as_number(value: Expr | float, other: Expr | float) -> Expr | float:
    """Return a bool as a number if the other operand is a number; other values unchanged."""
    if not isinstance(value, Operand) or not dtype_of(value).is_bool:
        return value
    goal = dtype_of(other).element if isinstance(other, Operand) else default_dtype(other)
    return value if goal.is_bool else value.astype(goal)


def match_operands(symbol: str, left: Expr | float, right: Expr | float) -> tuple[Expr, Expr]:
    """Return both operands as expressions; a number gets the dtype of the other operand."""
    if isinstance(left, Operand) and isinstance(right, Operand):
        return _size_beside(left, right), _size_beside(right, left)
    if isinstance(left, Operand):
        return left, right if isinstance(right, Operand) else _beside(symbol, right, left)
    if isinstance(right, Operand):
        return _beside(symbol, left, right), right
    refuse_bool(left)
    refuse_bool(right)
    dtype = FLOAT32 if isinstance(left, float) or isinstance(right, float) else INT64
    return literal(left, dtype), literal(right, dtype)


def _size_beside(size: Expr, other: Expr) -> Expr:
    """Return a size of dimensions in the dtype of `other`, as a number would have it."""
    dtype = dtype_of(other).element
    if dtype == INT64 or dtype.is_bool or isinstance(size, Const) or dtype_of(size) != INT64:
        return size
    names = free_vars(size)
    is_size = bool(names) and all(name.startswith(MARK) for name in names)
    reads = any(isinstance(node, Load) for node in walk(size))
    return Cast(dtype, size) if is_size and not reads else size


def _beside(symbol: str, number: float, other: Expr) -> Expr:
    """Return `number` as a literal of the dtype of `other`."""
    dtype = dtype_of(other).element
    if isinstance(number, float) and not dtype.is_float:
        raise LanguageError(
            f"'{symbol}' on {dtype} and {number}: cast the {dtype} operand to a float dtype first"
        )
    return literal(number, dtype)
