"""Values that are not scalars, and so refuse arithmetic with a helpful word."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NoReturn

from ansorc.errors import LanguageError


class Whole(ABC):
    """A value of many elements: arithmetic on it raises LanguageError saying what to do."""

    __slots__ = ()

    @abstractmethod
    def advice(self) -> str:
        """Say what the value is and what to do instead of arithmetic on it."""

    def _refuse(self, *_: object) -> NoReturn:
        raise LanguageError(self.advice())

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refuse
    __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _refuse
    __neg__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse

    __bool__ = _refuse

    def __iter__(self) -> Iterator[NoReturn]:
        self._refuse()
