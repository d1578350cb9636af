"""The asynchronous stores of a GPU thread that the interpreter runs."""

from __future__ import annotations

from typing import Any


class AsyncStores:
    """The asynchronous stores of a thread; each is done as late as possible."""

    def __init__(self) -> None:
        self._groups: list[list[tuple[list[Any], int, Any]]] = [[]]

    def begin(self, memory: list[Any], offset: int, value: Any) -> None:
        """Begin to store `value`."""
        self._groups[-1].append((memory, offset, value))

    def wait(self, pending: int) -> None:
        """Do all stores except those of the latest `pending` groups."""
        while len(self._groups) > pending:
            for memory, offset, value in self._groups.pop(0):
                memory[offset] = value
        self._groups.append([])
