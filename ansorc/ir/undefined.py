"""What memory holds that nobody wrote: a value of which nothing may come out.

Arithmetic on it gives it again, 0 times it too. To choose by it, or to go where it says, is an
error; not to choose it is none.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ansorc.ir.buffer import Buffer


class UndefinedUseError(Exception):
    """A program depends on what nobody wrote; `interpret` says where."""

    def __init__(self, source: Buffer) -> None:
        super().__init__(source.name)
        self.source = source


class Undefined:
    """An element of `source` before anything is stored to it, and all that is computed from it."""

    __slots__ = ("source",)
    __array_ufunc__ = None
    """Lets a NumPy scalar on the left leave its operators to this class."""

    def __init__(self, source: Buffer) -> None:
        self.source = source

    def _kept(self, other: Any = None) -> Undefined:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _kept
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _kept
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _kept
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _kept
    __lt__ = __le__ = __gt__ = __ge__ = _kept
    __eq__ = __ne__ = _kept  # pyright: ignore[reportAssignmentType]
    __hash__ = object.__hash__
    __neg__ = __pos__ = __invert__ = __abs__ = _kept

    def _refuse(self) -> NoReturn:
        raise UndefinedUseError(self.source)

    __bool__ = __index__ = __int__ = __float__ = _refuse

    def __repr__(self) -> str:
        return f"undefined({self.source.name})"


def first_undefined(*values: Any) -> Undefined | None:
    """Return the first of `values` that is undefined, None if all are numbers."""
    for value in values:
        if value.__class__ is Undefined:
            return value
    return None
