"""Without a compiler: the runtime that a wheel brings is taken, and all but linking works."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import ansorc
from ansorc.codegen.package import runtime_library
from ansorc.codegen.package.runtime_library import prebuilt_directory, precompile
from ansorc.codegen.package.toolchain import find_toolchain
from ansorc.target import detect

PACKAGE = Path(ansorc.__file__).parent
FIRST_STEPS = PACKAGE.parent / "release/first_steps.py"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the runtime compiled in, as a wheel has it."""
    root = tmp_path_factory.mktemp("wheel")
    leave_out = shutil.ignore_patterns("runtime_prebuilt")
    shutil.copytree(PACKAGE, root / "ansorc", ignore=leave_out)
    here = detect()
    precompile(root / "ansorc", here, find_toolchain(here))
    return root


@pytest.mark.nightly  # `make wheel` takes these steps with the wheel itself
def test_a_newcomers_first_steps_without_a_compiler(wheel: Path, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    tools = "no-compiler" if find_spec("ziglang") is None else "ziglang"
    done = subprocess.run(
        [sys.executable, str(FIRST_STEPS), tools],
        env={
            "PATH": str(nothing),
            "PYTHONPATH": str(wheel),
            "HOME": str(tmp_path),
            "TMPDIR": str(tmp_path),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the first tuned kernel after" in done.stdout
    assert "none was found" in done.stdout or tools == "ziglang"
    assert not list((tmp_path / "cache").glob("ansorc/runtime-*"))


def test_what_was_compiled_from_other_sources_is_not_taken(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sources = tmp_path / "ansorc/runtime_sources"
    shutil.copytree(wheel / "ansorc", sources.parent, ignore=shutil.ignore_patterns("*.py"))
    monkeypatch.setattr(runtime_library, "runtime_sources", lambda: sources)
    prebuilt = prebuilt_directory(sources.parent, detect())
    assert runtime_library.runtime_object(detect()).parent == prebuilt
    with (sources / "src/pool.h").open("a") as file:
        file.write("// changed\n")
    taken = runtime_library.runtime_object(detect())
    assert taken.parent.parent == tmp_path / "cache/ansorc"
