"""Values that a program checks when it runs: places in tensors, and what it asserts."""

from __future__ import annotations

from ansorc.errors import LanguageError
from ansorc.ir.dtype import INT64
from ansorc.ir.expr import Checked
from ansorc.ir.fault import MOST_ARGUMENTS, FaultKind
from ansorc.lang.literal import short_text
from ansorc.lang.scalar import all_of, const
from ansorc.lang.scalar_type import Scalar, ScalarLike, as_condition, as_scalar


def place_in(
    index: Scalar, extent: int, about: str, dimension: int = 0, *, from_end: bool = False
) -> Scalar:
    """Return `index` as an int64 that is a place of a dimension, or the call fails.

    `about` names the tensor. With `from_end` -1 is the last place, and -extent the first; the index
    stays negative.
    """
    ends = -extent if from_end else 0, extent - 1
    return number_in(index.astype(INT64), ends, about, dimension)


def number_in(value: Scalar, ends: tuple[int, int], about: str, dimension: int = 0) -> Scalar:
    """Return `value`, an int64 that is one of `ends` or between them, or the call fails."""
    low, high = (const(end, INT64) for end in ends)
    inside = all_of(value >= low, value <= high)
    told = (value, low, high, const(dimension, INT64))
    return _checked(value, inside, FaultKind.INDEX, about, told)


def checked(
    value: ScalarLike,
    condition: ScalarLike,
    about: str,
    *args: ScalarLike,
    kind: FaultKind = FaultKind.ASSERTION,
) -> Scalar:
    """Return `value`, where `condition` holds; where it does not, the call fails.

    `about` says in words what holds, or for another `kind` which tensor it is about; `args` are up
    to four integers for the message. Where the value is not evaluated, nothing is checked. Raise
    LanguageError unless the condition is a bool and the arguments are integers.
    """
    if not isinstance(about, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LanguageError(f"checked(…) says in words what holds, not {short_text(about)}")
    test, told = as_condition("checked", condition), [as_scalar(arg) for arg in args]
    if len(told) > MOST_ARGUMENTS or not all(arg.dtype.is_integer for arg in told):
        raise LanguageError(f"checked(…) tells up to {MOST_ARGUMENTS} integers; cast the others")
    return _checked(as_scalar(value), test, kind, about, tuple(arg.astype(INT64) for arg in told))


def _checked(
    value: Scalar, condition: Scalar, kind: FaultKind, about: str, told: tuple[Scalar, ...]
) -> Scalar:
    args = tuple(arg.expr for arg in told)
    return Scalar(Checked(value.expr, condition.expr, kind, _named(about), args))


def _named(about: str) -> str:
    """Return words as the text of a program can have them."""
    words = about.replace('"', "'")
    return "".join(letter if letter.isprintable() else " " for letter in words)
