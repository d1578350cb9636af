"""Values that are not scalars, and refuse arithmetic with a helpful message."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NoReturn

from ansorc.errors import LanguageError


class Whole(ABC):
    """A value of many elements: arithmetic on it raises LanguageError with advice."""

    __slots__ = ()

    @abstractmethod
    def advice(self) -> str:
        """Return a description of the value and what to do instead of arithmetic on it."""

    def _refuse(self, *_: object) -> NoReturn:
        raise LanguageError(self.advice())

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refuse
    __pow__ = __rpow__ = __matmul__ = __rmatmul__ = __divmod__ = __rdivmod__ = _refuse
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = _refuse
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __pos__ = __abs__ = __round__ = _refuse
    __neg__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __int__ = __float__ = __complex__ = __index__ = __trunc__ = __floor__ = __ceil__ = _refuse
    __bool__ = __len__ = __call__ = _refuse

    def __eq__(self, other: object) -> Any:
        """Refuse to be compared: elements are, inside of a compute."""
        self._refuse()

    def __ne__(self, other: object) -> Any:
        """Refuse to be compared: elements are, inside of a compute."""
        self._refuse()

    __hash__ = object.__hash__

    def __getitem__(self, indices: Any) -> Any:
        """Refuse to be indexed; Tensor overrides it."""
        self._refuse()

    def __iter__(self) -> Iterator[NoReturn]:
        self._refuse()

    def __array__(self, *_: object, **__: object) -> NoReturn:
        """Refuse to become an array: NumPy would make one of objects."""
        self._refuse()

    def __array_ufunc__(self, *_: object, **__: object) -> NoReturn:
        """Refuse functions of NumPy, and operators with a number of NumPy on the left."""
        self._refuse()
