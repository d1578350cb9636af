"""Values that a program checks when it runs: indices into tensors, and assertions."""

from __future__ import annotations

from ansorc.errors import LanguageError
from ansorc.ir.dtype import INT64
from ansorc.ir.expr import Checked
from ansorc.ir.fault import MOST_ARGUMENTS, FaultKind
from ansorc.lang.literal import short_text
from ansorc.lang.scalar import all_of, const
from ansorc.lang.scalar_type import Scalar, ScalarLike, as_condition, as_scalar


def index_in_range(
    index: Scalar, extent: int, about: str, dimension: int = 0, *, from_end: bool = False
) -> Scalar:
    """Return `index` as an int64; the call fails unless it is inside a dimension of `extent`.

    `about` names the tensor. With `from_end`, -1 is the last index and -extent the first; the
    returned index stays negative.
    """
    ends = -extent if from_end else 0, extent - 1
    return value_in_range(index.astype(INT64), ends, about, dimension)


def value_in_range(value: Scalar, ends: tuple[int, int], about: str, dimension: int = 0) -> Scalar:
    """Return `value`, an int64; the call fails unless it is in `ends`, both included."""
    low, high = (const(end, INT64) for end in ends)
    inside = all_of(value >= low, value <= high)
    told = (value, low, high, const(dimension, INT64))
    return _make_check(value, inside, FaultKind.INDEX, about, told)


def checked(
    value: ScalarLike,
    condition: ScalarLike,
    about: str,
    *args: ScalarLike,
    kind: FaultKind = FaultKind.ASSERTION,
) -> Scalar:
    """Return `value`; when the program runs, the call fails unless `condition` holds.

    `about` states the condition in words, or for another `kind` names the tensor. `args` are up to
    four integers for the message. Where the value is not evaluated, nothing is checked. Raise
    LanguageError unless the condition is a bool and the arguments are integers.
    """
    if not isinstance(about, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LanguageError(
            f"checked(…) takes a text that states the condition, not {short_text(about)}"
        )
    test, details = as_condition("checked", condition), [as_scalar(arg) for arg in args]
    if len(details) > MOST_ARGUMENTS or not all(arg.dtype.is_integer for arg in details):
        raise LanguageError(f"checked(…) reports up to {MOST_ARGUMENTS} integers; cast the others")
    return _make_check(
        as_scalar(value), test, kind, about, tuple(arg.astype(INT64) for arg in details)
    )


def _make_check(
    value: Scalar, condition: Scalar, kind: FaultKind, about: str, details: tuple[Scalar, ...]
) -> Scalar:
    args = tuple(arg.expr for arg in details)
    return Scalar(Checked(value.expr, condition.expr, kind, _quote(about), args))


def _quote(about: str) -> str:
    """Return `about` without quotes and control characters, for the text of a program."""
    words = about.replace('"', "'")
    return "".join(letter if letter.isprintable() else " " for letter in words)
