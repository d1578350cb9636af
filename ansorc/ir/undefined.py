"""The value of memory that was never written; no result may depend on it.

Arithmetic on it gives an undefined value again, even 0 times it. A condition or an index that
depends on it is an error. A Select may have it in the arm that is not chosen.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ansorc.ir.buffer import Buffer


class UndefinedUseError(Exception):
    """A program depends on memory that was never written; `interpret` reports where."""

    def __init__(self, source: Buffer) -> None:
        super().__init__(source.name)
        self.source = source


class Undefined:
    """An element of `source` before it is stored, and any value computed from it."""

    __slots__ = ("source",)
    __array_ufunc__ = None
    """Makes a NumPy scalar on the left use the operators of this class."""

    def __init__(self, source: Buffer) -> None:
        self.source = source

    def _keep(self, other: Any = None) -> Undefined:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _keep
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _keep
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _keep
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _keep
    __lt__ = __le__ = __gt__ = __ge__ = _keep
    __eq__ = __ne__ = _keep  # pyright: ignore[reportAssignmentType]
    __hash__ = object.__hash__
    __neg__ = __pos__ = __invert__ = __abs__ = _keep

    def _refuse(self) -> NoReturn:
        raise UndefinedUseError(self.source)

    __bool__ = __index__ = __int__ = __float__ = _refuse

    def __repr__(self) -> str:
        return f"undefined({self.source.name})"


def first_undefined(*values: Any) -> Undefined | None:
    """Return the first of `values` that is undefined; None if all are numbers."""
    for value in values:
        if value.__class__ is Undefined:
            return value
    return None
