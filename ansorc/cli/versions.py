"""The versions that `ansorc --version` prints."""

from __future__ import annotations

import platform
from importlib import metadata

from ansorc.codegen.base import VersionedBackend, backend_of
from ansorc.codegen.package.toolchain import compiler_version, find_toolchain
from ansorc.errors import BuildError
from ansorc.target import Target


def version_lines() -> list[str]:
    """Return the versions of ansorc, of its compiler, and of the linker."""
    target = Target.parse("native")
    backend = backend_of(target)
    line = f"ansorc {metadata.version('ansorc')}"
    inside = backend.compiler if isinstance(backend, VersionedBackend) else "unknown"
    try:
        linker = compiler_version(find_toolchain(target).cxx).partition("\n")[0]
    except BuildError:
        linker = "none was found; see: ansorc doctor"
    return [line, f"compiler: {inside}", f"C++ compiler: {linker}",
            f"Python {platform.python_version()}"]  # fmt: skip
