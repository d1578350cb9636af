"""One zygote for the tuning runs of many tests: each would import a compiler anew.

The tests of commands that are processes of their own, and those in `tests/search/measure`, start
zygotes as a user does.
"""

from __future__ import annotations

import os
import sys
import threading

from ansorc.search.measure.pool import ZygoteProcess

Circumstances = tuple[object, ...]


class SharedZygote(ZygoteProcess):
    """A zygote that goes on after `close`; `end` ends it."""

    def __init__(self, circumstances: Circumstances) -> None:
        super().__init__()
        self.circumstances = circumstances
        self.users = 0

    def close(self) -> None:
        """Note that a user has done with it."""
        self.users -= 1

    def end(self) -> None:
        """End it, and with it the workers that are left."""
        super().close()


class SharedZygotes:
    """Gives the same zygote to all who would start equal ones."""

    def __init__(self) -> None:
        self._zygote: SharedZygote | None = None

    def __call__(self) -> ZygoteProcess:
        """Return the zygote at hand, or a new one if that has another environment."""
        now = circumstances()
        if self._zygote is not None and self._zygote.circumstances != now:
            if self._zygote.users:
                return ZygoteProcess()
            self.close()
        if self._zygote is None:
            self._zygote = SharedZygote(now)
        self._zygote.users += 1
        return self._zygote

    def close(self) -> None:
        """End what is at hand."""
        if self._zygote is not None:
            self._zygote.end()
            self._zygote = None


def circumstances() -> Circumstances:
    """Return what a zygote has from the process that starts it, and the thread it dies with.

    The working directory is left out: each test of a command has one, and workers get full paths.
    """
    variables = {**os.environ}
    variables.pop("PYTEST_CURRENT_TEST", None)
    return (threading.get_ident(), tuple(sys.path), tuple(sorted(variables.items())))
