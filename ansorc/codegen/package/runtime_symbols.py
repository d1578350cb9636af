"""The runtime in this process: where in-process kernels find the functions that they call."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import lru_cache

from ansorc.codegen.package.runtime_library import runtime_library
from ansorc.errors import BuildError

_NAMES = (
    "ansorc_parallel_for", "ansorc_parallel_for_dynamic", "ansorc_num_threads",
    "ansorc_set_num_threads",
)  # fmt: skip


@lru_cache(maxsize=1)
def runtime_symbols() -> Mapping[str, int]:
    """Return the addresses of the runtime's functions by name, compiling it if need be.

    Raises BuildError if there is no compiler or the library cannot be loaded.
    """
    path = runtime_library()
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildError(f"the runtime cannot be loaded: {error}; delete {path.parent}") from error
    return {name: _address(library, name) for name in _NAMES}


def _address(library: ctypes.CDLL, name: str) -> int:
    address = ctypes.cast(library[name], ctypes.c_void_p).value
    if address is None:
        raise BuildError(f"the runtime has no '{name}'")
    return address
