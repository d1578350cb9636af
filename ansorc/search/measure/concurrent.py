"""Doing something in another thread beside what this one does."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


def nothing() -> None:
    """Do nothing."""


@contextmanager
def concurrently(work: Callable[[], None]) -> Generator[None]:
    """Do `work` in another thread during the `with`, which ends when both have ended.

    What `work` raises is raised at the end.
    """
    if work is nothing:
        yield
        return
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        yield
        done.result()
