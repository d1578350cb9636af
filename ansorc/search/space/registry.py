"""The search space of a target: the one that its back end names, or that of its platform."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module

from ansorc.codegen.base import SearchedBackend, backend_of
from ansorc.search.space.protocol import SearchSpace
from ansorc.target import Target
from ansorc.target.platforms import PLATFORMS


@lru_cache(maxsize=64)
def search_space(target: Target) -> SearchSpace:
    """Return the space in which programs for `target` are searched.

    Raise TargetError if the target names a back end that there is not.
    """
    backend = backend_of(target)
    module = backend.space if isinstance(backend, SearchedBackend) else target.platform.space
    return _space_in(module)


def platform_spaces() -> Iterator[SearchSpace]:
    """Yield the spaces that come with ansorc."""
    for platform in PLATFORMS.values():
        yield _space_in(platform.space)


def _space_in(module: str) -> SearchSpace:
    space: SearchSpace = import_module(module).SPACE
    return space
