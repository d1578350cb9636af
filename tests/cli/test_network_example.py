"""The C++ example that embeds a network, as `make demo` builds and runs it, and by CMake."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RUNTIME = Path(__file__).parents[2] / "runtime"
EXAMPLE = RUNTIME / "examples" / "network"
EXPECTED = (
    r"(this is a \d \(\d+ %\); it is a \d\n){3}digits: 2\d\d of 297 right\n"
    r"( +[\d.]+ us  [\w +]+\n){3}"
)


def run(*command: str | Path) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the network as .so, and the images."""
    directory = tmp_path_factory.mktemp("digits")
    run(sys.executable, EXAMPLE / "digits.py", directory)
    build(directory, ".so")
    return directory


def build(directory: Path, suffix: str) -> None:
    command = [sys.executable, "-c", "from ansorc.cli.main import main; main()", "build"]
    more = ["--input", "image=1x1x8x8", "--default", "-o", directory / f"digits{suffix}"]
    run(*command, directory / "digits.onnx", *more)


def test_the_network_example(saved: Path, tmp_path: Path) -> None:
    command = ["c++", "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    command += [f"-I{RUNTIME}/include", f"-I{saved}", f"{EXAMPLE}/classify.cpp", f"-L{saved}"]
    command += ["-l:digits.so", "-pthread", f"-Wl,-rpath,{saved}"]
    run(*command, "-o", tmp_path / "classify")
    assert re.fullmatch(EXPECTED, run(tmp_path / "classify", saved / "digits.bin"))
    missing = subprocess.run(tmp_path / "classify", cwd=tmp_path, capture_output=True, check=False)
    assert (missing.returncode, missing.stderr) == (1, b"there are no images in digits.bin\n")


@pytest.mark.nightly  # kernels are linked by CMake in the default suite
@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
def test_the_network_example_builds_with_cmake(saved: Path, tmp_path: Path) -> None:
    build(saved, ".a")
    settings = (f"-DKERNEL_DIR={saved}", "-DKERNEL_SUFFIX=.a", "-DCMAKE_BUILD_TYPE=Debug")
    run("cmake", "-S", EXAMPLE, "-B", tmp_path, *settings)
    run("cmake", "--build", tmp_path)
    assert re.fullmatch(EXPECTED, run(tmp_path / "classify", saved / "digits.bin"))
