"""Values that a program checks when it runs: places in tensors, and what it asserts."""

from __future__ import annotations

from ansorc.errors import LanguageError
from ansorc.ir.dtype import INT64
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Cast,
    Checked,
    CompareOp,
    Expr,
    ExprLike,
    Operand,
    as_expr,
    compare,
    const,
    dtype_of,
)
from ansorc.ir.fault import MOST_ARGUMENTS, FaultKind


def place_in(
    index: Expr, extent: int, about: str, dimension: int = 0, *, from_end: bool = False
) -> Expr:
    """Return `index` as an int64 that is a place of a dimension, or the call fails.

    `about` names the tensor. With `from_end` -1 is the last place, and -extent the first; the index
    stays negative.
    """
    value = index if dtype_of(index) == INT64 else Cast(INT64, index)
    return number_in(value, (-extent if from_end else 0, extent - 1), about, dimension)


def number_in(value: Expr, ends: tuple[int, int], about: str, dimension: int = 0) -> Expr:
    """Return `value`, an int64 that is one of `ends` or between them, or the call fails."""
    low, high = map(const, ends)
    inside = Binary(
        BinaryOp.AND, compare(CompareOp.GE, value, low), compare(CompareOp.LE, value, high)
    )
    return Checked(
        value, inside, FaultKind.INDEX, _named(about), (value, low, high, const(dimension))
    )


def checked(
    value: ExprLike,
    condition: ExprLike,
    about: str,
    *args: ExprLike,
    kind: FaultKind = FaultKind.ASSERTION,
) -> Expr:
    """Return `value`, where `condition` holds; where it does not, the call fails.

    `about` says in words what holds, or for another `kind` which tensor it is about; `args` are up
    to four integers for the message. Where the value is not evaluated, nothing is checked. Raise
    LanguageError unless the condition is a bool and the arguments are integers.
    """
    test, told = as_expr(condition), [as_expr(arg) for arg in args]
    if not isinstance(condition, Operand) or not dtype_of(test).is_bool:
        raise LanguageError(f"checked(…) takes a comparison of elements, not {condition!r}")
    if len(told) > MOST_ARGUMENTS or not all(dtype_of(arg).is_integer for arg in told):
        raise LanguageError(f"checked(…) tells up to {MOST_ARGUMENTS} integers; cast the others")
    wide = [arg if dtype_of(arg) == INT64 else Cast(INT64, arg) for arg in told]
    return Checked(as_expr(value), test, kind, _named(about), tuple(wide))


def _named(about: str) -> str:
    """Return words as the text of a program can have them."""
    words = about.replace('"', "'")
    return "".join(letter if letter.isprintable() else " " for letter in words)
