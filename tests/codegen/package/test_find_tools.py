"""Which compiler is taken for a target, what a wrong variable and a missing tool say."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ansorc.codegen.package import find_tools
from ansorc.codegen.package.find_tools import ARCHIVER, CXX, C, find_tool
from ansorc.codegen.package.toolchain import find_toolchain
from ansorc.errors import BuildError
from ansorc.target import Target, detect

ARM = Target.parse("aarch64-linux-gnu -mcpu=cortex-a53")
X86 = Target.parse("x86_64-linux-gnu -mcpu=znver4")
MAC = Target.parse("aarch64-apple-darwin -mcpu=apple-m1")
VARIABLES = [f"{prefix}{name}" for prefix in ("", "ANSORC_") for name in ("CC", "CXX", "AR")]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An x86-64 machine without tools or the ziglang package; PATH is this empty directory."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(find_tools, "detect", lambda: X86)
    set_ziglang(monkeypatch, found=False)
    return tmp_path


def set_ziglang(monkeypatch: pytest.MonkeyPatch, *, found: bool) -> None:
    def find_spec(name: str) -> object:
        assert name == "ziglang"
        return object() if found else None

    monkeypatch.setattr(find_tools, "find_spec", find_spec)


def program(path: Path, machine: str = "") -> Path:
    """A program that answers -dumpmachine as a compiler for `machine` does."""
    path.write_text(f"#!/bin/sh\necho {machine}\n" if machine else "#!/bin/sh\nexit 1\n")
    path.chmod(0o755)
    return path


def test_a_missing_compiler(tools: Path) -> None:
    words = (
        r"no C compiler for x86_64-linux-gnu was found \(tried cc, gcc, clang, and Python's "
        r"ziglang\); install one \(pip install 'ansorc\[cross\]'; .* apt install g\+\+.* or set CC "
        r"or ANSORC_CC"
    )
    with pytest.raises(BuildError, match=words):
        find_toolchain(X86)
    program(tools / "gcc")
    with pytest.raises(BuildError, match=r"no C\+\+ compiler .* \(tried c\+\+, g\+\+, clang\+\+"):
        find_toolchain(X86)


def test_a_missing_cross_compiler(tools: Path) -> None:
    program(tools / "gcc", "x86_64-linux-gnu")
    words = (
        r"aarch64-linux-gnu was found \(tried aarch64-linux-gnu-gcc, and Python's ziglang\); "
        r"install one \(Debian/Ubuntu: apt install gcc-aarch64-linux-gnu g\+\+-aarch64-linux-gnu; "
        r"or anywhere: pip install 'ansorc\[cross\]'\), or save an object file \(.o\)"
    )
    with pytest.raises(BuildError, match=words):
        find_tool(C, ARM)


def test_the_usual_names(tools: Path) -> None:
    for name in ("clang", "g++", "ar", "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++",
                 "aarch64-linux-gnu-ar"):  # fmt: skip
        program(tools / name)
    found = find_toolchain(X86)
    assert [found.cc, found.cxx, found.ar] == [
        (str(tools / name),) for name in ("clang", "g++", "ar")
    ]
    found = find_toolchain(ARM)
    assert found.cxx == (str(tools / "aarch64-linux-gnu-g++"),)
    assert found.ar == (str(tools / "aarch64-linux-gnu-ar"),)


def test_an_arm_host_takes_a_cross_compiler_for_x86(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find_tools, "detect", lambda: ARM)
    program(tools / "gcc")
    assert find_tool(C, ARM) == (str(tools / "gcc"),)
    with pytest.raises(BuildError, match="apt install gcc-x86-64-linux-gnu g"):
        find_tool(C, X86)
    program(tools / "x86_64-linux-gnu-gcc")
    assert find_tool(C, X86) == (str(tools / "x86_64-linux-gnu-gcc"),)


def test_the_variables_in_their_order(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = program(tools / "one"), program(tools / "two")
    monkeypatch.setenv("CXX", f"{one} -O1")
    assert find_tool(CXX, X86) == (str(one), "-O1")
    monkeypatch.setenv("ANSORC_CXX", f"{two} '-I/a b'")
    assert find_tool(CXX, X86) == (str(two), "-I/a b")
    monkeypatch.setenv("AR", str(one))
    assert find_tool(ARCHIVER, ARM) == (str(one),)


def test_a_variable_that_names_nothing(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tools / "g++")
    monkeypatch.setenv("CXX", "no-such-c++ -O1")
    with pytest.raises(
        BuildError, match=r"CXX is 'no-such-c\+\+ -O1', but there is no program 'no-such-c"
    ):
        find_tool(CXX, X86)


def test_a_compiler_for_another_machine_is_passed_over(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = program(tools / "host-cc", "x86_64-pc-linux-gnu")
    cross = program(tools / "cross-cc", "aarch64-unknown-linux-gnu.2.28")
    monkeypatch.setenv("CC", str(host))
    assert find_tool(C, X86) == (str(host),)
    with pytest.raises(BuildError, match=r"; CC is '.*host-cc', which is for x86_64-pc-linux-gnu"):
        find_tool(C, ARM)
    monkeypatch.setenv("ANSORC_CC", str(cross))
    assert find_tool(C, ARM) == (str(cross),)
    assert find_tool(C, X86) == (str(host),)


def test_the_compiler_of_the_ziglang_package_comes_last(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_ziglang(monkeypatch, found=True)
    zig = (sys.executable, "-m", "ziglang")
    assert find_tool(CXX, ARM) == (*zig, "c++", "-target", "aarch64-linux-gnu")
    assert find_tool(C, X86) == (*zig, "cc", "-target", "x86_64-linux-gnu")
    assert find_tool(ARCHIVER, ARM) == (*zig, "ar")
    gcc = program(tools / "aarch64-linux-gnu-gcc")
    assert find_tool(C, ARM) == (str(gcc),)


def test_another_system_gets_object_files(tools: Path) -> None:
    program(tools / "gcc")
    with pytest.raises(BuildError, match=r"this linux-gnu machine .* aarch64-apple-darwin; save"):
        find_tool(C, MAC)


def test_this_machine_has_tools_that_know_their_machine() -> None:
    command = find_tool(C, detect())
    assert os.access(command[0], os.X_OK)
    assert find_tools.machine_of(command).startswith(detect().triple.split("-")[0])
