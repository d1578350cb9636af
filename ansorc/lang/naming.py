"""Check names of tensors and axes, and number those that need not be unique."""

from __future__ import annotations

import re
from collections.abc import Container

from ansorc.errors import LanguageError
from ansorc.ir.lexer import RESERVED
from ansorc.lang.literal import short_text

_AXIS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TENSOR = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*")


class AutoName(str):
    """A default name: if two tensors of a DAG have it, one gets a number."""

    __slots__ = ()


def stage_name(name: str, suffix: str) -> str:
    """Return the name of a stage of the operator `name`, as `conv.pad`; automatic if that is."""
    return type(name)(f"{name}.{suffix}")


def check_tensor_name(name: str) -> None:
    """Raise LanguageError unless `name` is an identifier, or several words joined by dots."""
    _require_text(name, "a tensor")
    if not _TENSOR.fullmatch(name) or name in RESERVED:
        raise LanguageError(
            f"'{name}' cannot name a tensor; use letters, digits and underscores, not starting "
            f"with a digit, dots between words, and none of {_reserve_name()}"
        )


def check_axis_name(name: str) -> None:
    """Raise LanguageError unless `name` is an identifier."""
    _require_text(name, "an axis")
    if not _AXIS.fullmatch(name) or name in RESERVED:
        raise LanguageError(
            f"'{name}' cannot name an axis; use letters, digits and underscores, not starting "
            f"with a digit, and none of {_reserve_name()}"
        )


def unique_name(name: str, taken: Container[str]) -> str:
    """Return `name`; if it is taken, append the first free number to its first word."""
    head, dot, rest = name.partition(".")
    candidate, count = str(name), 0
    while candidate in taken:
        count += 1
        candidate = f"{head}{count}{dot}{rest}"
    return candidate


def _require_text(name: object, what: str) -> None:
    if not isinstance(name, str):
        raise LanguageError(f"{short_text(name)} cannot name {what}; a name is text")


def _reserve_name() -> str:
    return ", ".join(sorted(RESERVED))
