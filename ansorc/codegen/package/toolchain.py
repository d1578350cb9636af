"""Run the C and C++ compilers and the archiver: the only subprocesses of code generation."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ansorc.codegen.package.find_tools import ARCHIVER, CXX, C, find_tool
from ansorc.errors import BuildError
from ansorc.target import Target

_CXX_FLAGS = (
    "-std=c++17", "-O2", "-fPIC", "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden",
    "-ffunction-sections", "-fdata-sections",
)  # fmt: skip
_LINK_FLAGS = (
    "-shared", "-nostartfiles", "-Wl,--gc-sections", "-Wl,--as-needed",
    "-Wl,-z,defs,-z,now,-z,relro,-z,noexecstack",
)  # fmt: skip


@dataclass(frozen=True)
class Toolchain:
    """The command lines of the tools; the first word is a program that exists."""

    cc: tuple[str, ...]
    cxx: tuple[str, ...]
    ar: tuple[str, ...]

    @property
    def identity(self) -> str:
        """Return all that the output depends on besides sources: compiler, version, flags."""
        return "\n".join([*self.cxx, compiler_version(self.cxx), *_CXX_FLAGS, *_LINK_FLAGS])


def find_toolchain(target: Target) -> Toolchain:
    """Return the tools that make code for `target`; raise BuildError saying how to get them."""
    return Toolchain(find_tool(C, target), find_tool(CXX, target), find_tool(ARCHIVER, target))


def compile_cxx(tools: Toolchain, source: Path, include: Path, output: Path) -> None:
    """Compile one C++ file of the runtime to an object file."""
    run_tool([*tools.cxx, *_CXX_FLAGS, f"-I{include}", "-c", str(source), "-o", str(output)])


def compile_c(tools: Toolchain, source: Path, output: Path, options: Sequence[str] = ()) -> None:
    """Compile a C file of the user's to an object file whose functions no library shows."""
    flags = ("-O2", "-fPIC", "-fvisibility=hidden", *options)
    run_tool([*tools.cc, *flags, "-c", str(source), "-o", str(output)])


def assemble(tools: Toolchain, source: Path, output: Path) -> None:
    """Assemble a file, which may include others of its directory, to an object file."""
    run_tool([*tools.cc, "-c", source.name, "-o", str(output.absolute())], source.parent)


def link_relocatable(tools: Toolchain, objects: Sequence[Path], output: Path) -> None:
    """Put object files together into one."""
    run_tool([*tools.cc, "-r", "-nostdlib", *map(str, objects), "-o", str(output)])


def link_shared(
    tools: Toolchain,
    objects: Sequence[Path],
    output: Path,
    exports: Sequence[str],
    *,
    stays_loaded: bool,
    build_id: str = "",
) -> None:
    """Link `objects` to a shared library that shows only `exports` (names, `*` allowed).

    One that `stays_loaded` ignores dlclose, for threads that run its code. `build_id` is what its
    note of that name says, in hexadecimal digits.
    """
    script = output.with_name("exports.map")
    script.write_text("{ global: " + " ".join(f"{name};" for name in exports) + " local: *; };\n")
    keep = ["-Wl,-z,nodelete"] if stays_loaded else []
    keep += [f"-Wl,--build-id=0x{build_id}"] if build_id else []
    names = [f"-Wl,--version-script={script}", f"-Wl,-soname,{output.name}"]
    files = [str(path) for path in objects]
    run_tool([*tools.cc, *_LINK_FLAGS, *keep, *names, *files, "-o", str(output), "-lm", "-pthread"])


def archive(tools: Toolchain, objects: Sequence[Path], output: Path) -> None:
    """Put `objects` into a static library, each a member under its file name."""
    run_tool([*tools.ar, "rcsD", str(output), *map(str, objects)])


@lru_cache(maxsize=8)
def compiler_version(command: tuple[str, ...]) -> str:
    """Return what a compiler says of itself."""
    return run_tool([*command, "--version"])


def run_tool(command: Sequence[str], directory: Path | None = None) -> str:
    """Run a tool and return what it printed; raise BuildError with that if it failed."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env=environment,
            cwd=directory,
        )
    except OSError as error:
        raise BuildError(f"'{command[0]}' cannot be run: {error}") from error
    if done.returncode != 0:
        text = f"{done.stdout}{done.stderr}".strip()
        raise BuildError(
            f"'{Path(command[0]).name}' failed with status {done.returncode}:\n{text}\n"
            f"the command was: {' '.join(command)}"
        )
    return done.stdout
