"""Compile the C++ of an emulated program with the system's compiler."""

from __future__ import annotations

import hashlib
import tempfile
from functools import lru_cache
from pathlib import Path

from ansorc.codegen.cuda.disk_cache import DiskCache
from ansorc.codegen.cuda.emulation.source import HEADERS, emulation_source
from ansorc.codegen.package.find_tools import CXX, find_tool
from ansorc.codegen.package.runtime_library import cache_directory
from ansorc.codegen.package.toolchain import compiler_version, run_tool
from ansorc.codegen.program.device_program import DeviceProgram
from ansorc.target import detect

_FLAGS = ("-std=gnu++17", "-w", "-fno-exceptions", "-fno-rtti", "-fwrapv", "-ffp-contract=off")
_LIBRARY_FLAGS = ("-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-U_FORTIFY_SOURCE")
"""With -O2 a text takes half as long again to compile, and most are run once."""


def compile_library(program: DeviceProgram) -> bytes:
    """Return a program as a shared library (see `emulation_source`); raise BuildError."""
    return compile_cxx_text(emulation_source(program), *_LIBRARY_FLAGS)


def compile_cxx_text(source: str, *flags: str) -> bytes:
    """Return what the C++ compiler makes of `source`, kept on the disk; raise BuildError."""
    compiler = find_tool(CXX, detect())
    options = (*_FLAGS, *flags, f"-I{HEADERS}")

    def make() -> bytes:
        with tempfile.TemporaryDirectory(prefix="ansorc-") as directory:
            path, output = Path(directory, "kernel.cc"), Path(directory, "kernel")
            path.write_text(source)
            run_tool([*compiler, *options, str(path), "-o", str(output), "-lm", "-pthread"])
            return output.read_bytes()

    key = ["c++", *compiler, compiler_version(compiler), _headers(), *options, source]
    return DiskCache(cache_directory() / "cuda").get("\0".join(key), make)


@lru_cache(maxsize=1)
def _headers() -> str:
    contents = b"".join(path.read_bytes() for path in sorted(HEADERS.glob("*.h")))
    return hashlib.sha256(contents).hexdigest()
