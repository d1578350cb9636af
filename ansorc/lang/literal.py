"""Read numbers and dtypes that users give: those of Python, NumPy and ml_dtypes."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, cast

import ml_dtypes
import numpy as np

from ansorc.errors import LanguageError
from ansorc.ir.dtype import SCALARS, DType
from ansorc.ir.dtype import dtype as dtype_named
from ansorc.ir.expr import Const
from ansorc.ir.interpret_math import integer_range
from ansorc.lang.complex_dtype import COMPLEX, ComplexType

DTypeLike: TypeAlias = str | DType | ComplexType | np.dtype[Any] | type[Any]
"""A dtype: its name, or a dtype of NumPy or ml_dtypes."""
_COMPLEX_TYPES = (complex, np.complex64, np.complex128)
_NO_BOOL = (
    "a Python bool is not a condition of the program: it is decided while the program is being "
    "defined; write a condition like A[i] == 0.0, or choose by Python's own if between two "
    'definitions; a constant is ac.const({value}, "bool")'
)


def as_dtype(given: object) -> DType:
    """Return the dtype that `given` names; raise LanguageError unless it is one of ansorc."""
    if isinstance(given, DType):
        return given
    if isinstance(given, str):
        return dtype_named(given)
    dtype_ = given
    if isinstance(given, type) and (issubclass(given, np.generic) or given in (bool, int, float)):
        dtype_ = np.dtype(cast("type[Any]", given))
    if isinstance(dtype_, np.dtype):
        named = cast("np.dtype[Any]", dtype_)
        if named.isnative and named.name in SCALARS:
            return SCALARS[named.name]
    text, known = short_text(cast(object, given)), ", ".join(SCALARS)
    raise LanguageError(f"{text} is not a dtype; use one of {known}, or NumPy's of these names")


def as_any_dtype(given: object) -> DType | ComplexType:
    """Return the dtype that `given` names, a complex one too.

    Raise LanguageError unless it is one of ansorc.
    """
    if isinstance(given, ComplexType):
        return given
    name = given
    if any(given is kind for kind in _COMPLEX_TYPES):
        name = np.dtype(cast("type[Any]", given)).name
    elif isinstance(given, np.dtype) and given.isnative:
        name = cast("np.dtype[Any]", given).name
    pair = COMPLEX.get(name) if isinstance(name, str) else None
    return as_dtype(cast(object, given)) if pair is None else pair


def as_number(value: object) -> float | None:
    """Return `value` as a Python bool, int or float; None if it is not a number.

    Scalars of NumPy and ml_dtypes are numbers, and so are arrays without dimensions.
    """
    kind = type(value)
    if kind is int or kind is float or kind is bool:
        return cast(float, value)
    if isinstance(value, np.ndarray) and not cast("np.ndarray[Any, Any]", value).ndim:
        value = cast("np.ndarray[Any, Any]", value)[()]
    if isinstance(value, np.bool_):
        return bool(cast(bool, value))
    if isinstance(value, (int, np.integer)) and not isinstance(value, np.timedelta64):
        return int(cast(int, value))
    if isinstance(value, (float, np.floating, ml_dtypes.bfloat16)):
        return float(cast(float, value))
    return None


def as_list(value: object) -> list[Any] | None:
    """Return the members of a list, a tuple, an array or another sequence.

    Return None for text, for dicts and sets (their members have no order), and for other values.
    """
    if isinstance(value, np.ndarray):
        return cast("np.ndarray[Any, Any]", value).tolist() if value.ndim == 1 else None
    if isinstance(value, (str, bytes, dict, set, frozenset)) or not isinstance(value, Iterable):
        return None
    try:
        return list(cast("Iterable[Any]", value))
    except (TypeError, LanguageError):  # tensors and elements
        return None


def as_integer(value: object, what: str) -> int:
    """Return `value` as an int; raise LanguageError, naming it `what`, for other values."""
    number = as_number(value)
    if isinstance(number, int) and not isinstance(number, bool):
        return int(number)
    raise LanguageError(f"{what} is {short_text(value)} ({type(value).__name__}), not an integer")


def as_truth(value: object, what: str) -> bool:
    """Return `value` as a bool; raise LanguageError, naming it `what`, for other values."""
    number = as_number(value)
    if isinstance(number, bool):
        return number
    raise LanguageError(f"{what} is {short_text(value)} ({type(value).__name__}): True or False")


def literal(value: float, dtype: DType) -> Const:
    """Return a Python number as a literal of `dtype`.

    Raise LanguageError for values that do not fit: a fraction or a number out of range as an
    integer, a finite number that would be infinite as a float, a bool as a number, and numbers
    other than 0 and 1 as a bool.
    """
    if isinstance(value, bool):
        if not dtype.is_bool:
            raise LanguageError(f"{value} on {dtype}: {_NO_BOOL.format(value=value)}")
        return Const(value, dtype)
    if dtype.is_bool:
        if value not in (0, 1):
            raise LanguageError(f"{value} on bool: a bool is True or False; compare the number")
        return Const(bool(value), dtype)
    if dtype.is_float:
        return Const(_round(value, dtype), dtype)
    if isinstance(value, float) and not value.is_integer():
        raise LanguageError(f"{value} on {dtype}: cast the {dtype} operand to a float dtype first")
    low, high = integer_range(dtype)
    if not low <= value <= high:
        raise LanguageError(
            f"{int(value)} does not fit into {dtype}, which holds {low}..{high}: "
            f'cast the {dtype} operand to a wider dtype first, like x.astype("{_wider(value)}")'
        )
    return Const(int(value), dtype)


def refuse_bool(value: object) -> None:
    """Raise LanguageError for a bool of Python or NumPy."""
    if isinstance(as_number(value), bool):
        raise LanguageError(f"{value}: {_NO_BOOL.format(value=value)}")


def takes(function: Callable[..., object], count: int) -> bool:
    """Return whether a function accepts `count` arguments; False if that is unknown."""
    try:
        inspect.signature(function).bind(*range(count))
    except (TypeError, ValueError):
        return False
    return not isinstance(function, type)


def short_text(value: object) -> str:
    """Return a text for `value` of at most one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def _round(value: float, dtype: DType) -> float:
    """Return `value` as a float; raise LanguageError if it is finite but infinite in `dtype`."""
    try:
        number = float(value)
        with np.errstate(over="ignore"):
            is_held = math.isinf(number) or math.isfinite(
                float(cast(float, dtype.numpy.type(number)))
            )
    except OverflowError:
        is_held, number = False, math.inf
    if math.isnan(number) or is_held:
        return number
    raise LanguageError(
        f"{short_text(value)} is infinite as a {dtype}: write float('inf') where that is meant, or "
        'cast the operand first, like x.astype("float64")'
    )


def _wider(value: float) -> str:
    """Return the name of an integer dtype that can hold `value`, or float64."""
    names = ("int16", "int32", "int64", "uint64")
    ranges = ((name, integer_range(SCALARS[name])) for name in names)
    return next((n for n, (low, high) in ranges if low <= value <= high), "float64")
