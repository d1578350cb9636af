"""The C++ runtime: from the wheel, or compiled once for each user and compiler and kept in a cache.

A wheel has it compiled for `PREBUILT` architectures, so that no compiler is needed to tune and run.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path

from ansorc.codegen.package.toolchain import Toolchain, compile_cxx, find_toolchain, link_shared
from ansorc.errors import BuildError
from ansorc.target import Target, detect

_LIBRARY, _OBJECT = "libansorc_runtime.so", "ansorc_thread_pool.o"
_WEIGHTS_FILE = "ansorc_weights_file.o"
PREBUILT = ("x86_64", "aarch64")
"""The architectures that `make wheel` compiles for, with the GNU C library."""
_NAMES = (
    "ansorc_parallel_for", "ansorc_parallel_for_dynamic", "ansorc_num_threads",
    "ansorc_set_num_threads", "ansorc_team_begin", "ansorc_team_end",
)  # fmt: skip


def runtime_sources() -> Path:
    """Return the directory with the runtime's `include/` and `src/`."""
    path = Path(str(resources.files("ansorc"))) / "runtime_sources"
    if not (path / "src" / "thread_pool.cc").is_file():
        raise BuildError(f"the runtime's sources are missing from {path}; install ansorc again")
    return path


def runtime_library() -> Path:
    """Return the runtime as a shared library for this machine."""
    return _directory_of_compiled(detect()) / _LIBRARY


def runtime_object(target: Target) -> Path:
    """Return the runtime as an object file for `target`."""
    return _directory_of_compiled(target) / _OBJECT


def weights_file_object(target: Target) -> Path:
    """Return what opens the weights of a network for `target`, as an object file."""
    return _directory_of_compiled(target) / _WEIGHTS_FILE


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


def cache_directory() -> Path:
    """Return this user's directory for what can be made again: `$XDG_CACHE_HOME/ansorc`."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "ansorc"


def prebuilt_directory(package: Path, target: Target) -> Path:
    """Return where a wheel of the package in `package` has the runtime for `target`.

    Its name is a hash of the sources too: what was compiled from others is not taken.
    """
    architecture = target.real.triple.partition("-")[0]
    key = _key(package / "runtime_sources", architecture)
    return package / "runtime_prebuilt" / f"{architecture}-{key}"


def precompile(package: Path, target: Target, linker: Toolchain) -> Path:
    """Compile the runtime for a wheel of the package in `package`; return the directory made.

    `linker` links the shared library, against as old a C library as the wheel promises to need.
    Raises BuildError if there is no compiler for `target`, or if it or the linker fails.
    """
    directory = prebuilt_directory(package, target)
    directory.mkdir(parents=True)
    _compile(package / "runtime_sources", find_toolchain(target), linker, directory)
    return directory


def _directory_of_compiled(target: Target) -> Path:
    """Return the directory with the compiled runtime, which is made if it is not there.

    Its name is a hash of all that it depends on. It is renamed into place when complete, so that
    several processes may do this at once.
    """
    sources = runtime_sources()
    prebuilt = prebuilt_directory(sources.parent, target)
    if target.real.triple.endswith("-linux-gnu") and prebuilt.is_dir():
        return prebuilt
    tools = find_toolchain(target)
    directory = cache_directory() / f"runtime-{_key(sources, tools.identity)}"
    if directory.is_dir():
        return directory
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix="making-", dir=directory.parent))
    except OSError as error:
        raise BuildError(
            f"the compiled runtime cannot be kept in {directory.parent}: {error.strerror}; "
            "set XDG_CACHE_HOME to a directory that can be written"
        ) from error
    try:
        _compile(sources, tools, tools, made)
        _publish(made, directory)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return directory


def _key(sources: Path, compiler: str) -> str:
    digest = hashlib.sha256(compiler.encode())
    for path in sorted([*(sources / "src").iterdir(), *(sources / "include/ansorc").iterdir()]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _compile(sources: Path, tools: Toolchain, linker: Toolchain, directory: Path) -> None:
    thread_pool = directory / _OBJECT
    include = sources / "include"
    compile_cxx(tools, sources / "src/thread_pool.cc", include, thread_pool)
    compile_cxx(tools, sources / "src/weights_file.cc", include, directory / _WEIGHTS_FILE)
    link_shared(linker, [thread_pool], directory / _LIBRARY, ["ansorc_*"], stays_loaded=True)


def _publish(made: Path, directory: Path) -> None:
    try:
        made.rename(directory)
    except OSError as error:
        if not directory.is_dir():  # else another process was first, with the same content
            raise BuildError(f"{directory} cannot be written: {error.strerror}") from error


def _address(library: ctypes.CDLL, name: str) -> int:
    address = ctypes.cast(library[name], ctypes.c_void_p).value
    if address is None:
        raise BuildError(f"the runtime has no '{name}'")
    return address
