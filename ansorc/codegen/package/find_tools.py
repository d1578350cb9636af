"""Find the programs that compile, link and archive for a target: this machine's or a cross one's.

In order: ANSORC_CC, ANSORC_CXX, ANSORC_AR; CC, CXX, AR; the usual names, for another architecture
those of Debian's cross compilers; the compiler in the Python package ziglang. A compiler in a
variable is for one architecture, the one that it says itself; for others it is passed over.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec

from ansorc.errors import BuildError
from ansorc.target import Target, detect

Command = tuple[str, ...]

_NATIVE_INSTALL = (
    "install one (pip install 'ansorc[cross]'; Debian/Ubuntu: apt install g++; Fedora: dnf install "
    "gcc-c++)"
)


@dataclass(frozen=True)
class Role:
    """A tool: the ends of its variables, its names here, its name after a cross prefix."""

    what: str
    variable: str
    names: tuple[str, ...]
    cross_name: str
    zig_command: str


C = Role("C compiler", "CC", ("cc", "gcc", "clang"), "gcc", "cc")
CXX = Role("C++ compiler", "CXX", ("c++", "g++", "clang++"), "g++", "c++")
ARCHIVER = Role("archiver", "AR", ("ar",), "ar", "ar")


def find_tool(role: Role, target: Target) -> Command:
    """Return the command of a tool for `target`; its first word is a program that exists.

    Raises BuildError saying what was tried and how to get one, or which variable is wrong.
    """
    target = target.real
    _require_same_system(role, target)
    passed_over: list[str] = []
    for variable, command in _variables(role):
        machine = "" if role is ARCHIVER else machine_of(command)
        if not machine or _architecture(machine) == _architecture(target.triple):
            return command
        passed_over.append(f"{variable} is '{' '.join(command)}', which is for {machine}")
    names = tool_names(role, target)
    for name in names:
        if (program := shutil.which(name)) is not None:
            return (program,)
    if find_spec("ziglang") is not None:
        return _zig(role, target)
    tried = "; ".join([f"tried {', '.join(names)}, and Python's ziglang", *passed_over])
    raise BuildError(
        f"no {role.what} for {target.triple} was found ({tried}); {_advice(target)}, or set "
        f"{role.variable} or ANSORC_{role.variable}"
    )


def tool_names(role: Role, target: Target) -> tuple[str, ...]:
    """Return the names that the tool has on this machine."""
    if is_native(target):
        return role.names
    return (f"{_architecture(target.triple)}-linux-gnu-{role.cross_name}",)


def is_native(target: Target) -> bool:
    """Whether `target` has this machine's architecture."""
    return _architecture(target.triple) == _architecture(detect().triple)


@lru_cache(maxsize=16)
def machine_of(command: Command) -> str:
    """Return the triple that a compiler says it makes code for; `""` if it does not say."""
    try:
        done = subprocess.run(
            [*command, "-dumpmachine"],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise BuildError(f"'{command[0]}' cannot be run: {error}") from error
    words = done.stdout.split()
    return words[0] if len(words) == 1 and "-" in words[0] else ""


def _variables(role: Role) -> Iterator[tuple[str, Command]]:
    """The commands that the environment names; raise BuildError for one that does not exist."""
    for variable in (f"ANSORC_{role.variable}", role.variable):
        words = shlex.split(os.environ.get(variable, ""))
        if words and shutil.which(words[0]) is None:
            raise BuildError(
                f"{variable} is '{' '.join(words)}', but there is no program '{words[0]}'; "
                f"correct {variable} or unset it"
            )
        if words:
            yield variable, tuple(words)


def _zig(role: Role, target: Target) -> Command:
    """The compiler of the ziglang package, which brings the headers and stubs of the C library."""
    command = (sys.executable, "-m", "ziglang", role.zig_command)
    if role is ARCHIVER:
        return command
    return (*command, "-target", f"{_architecture(target.triple)}-linux-gnu")


def _require_same_system(role: Role, target: Target) -> None:
    """Raise BuildError if `target` runs another operating system: nothing here links for it."""
    here, other = (triple.partition("-")[2] for triple in (detect().triple, target.triple))
    if here != other:
        raise BuildError(
            f"no {role.what} on this {here} machine makes libraries for {target.triple}; "
            "save an object file (.o) and link it there"
        )


def _advice(target: Target) -> str:
    if is_native(target):
        return _NATIVE_INSTALL
    name = _architecture(target.triple).replace("_", "-")
    return (
        f"install one (Debian/Ubuntu: apt install gcc-{name}-linux-gnu g++-{name}-linux-gnu; or "
        "anywhere: pip install 'ansorc[cross]'), or save an object file (.o)"
    )


def _architecture(triple: str) -> str:
    word = triple.partition("-")[0].lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(word, word)
