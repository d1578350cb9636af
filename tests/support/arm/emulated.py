"""Compile a kernel for aarch64, link it with a small C++ program and run that under QEMU."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import ansorc as ac
from ansorc.codegen.package.runtime_library import runtime_object

QEMU = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64") or ""
CXX = shutil.which("aarch64-linux-gnu-g++") or ""
ROOT = Path("/usr/aarch64-linux-gnu")
"""Where the cross compiler has the C library, for programs that are linked dynamically."""
DRIVER = Path(__file__).with_name("driver.cc")
FLAGS = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror")

needs_qemu = pytest.mark.skipif(
    not (QEMU and CXX),
    reason="needs qemu-aarch64 and aarch64-linux-gnu-g++ "
    "(apt install qemu-user-static gcc-aarch64-linux-gnu g++-aarch64-linux-gnu)",
)


def linked(module: ac.Module | ac.NetworkModule, directory: Path, suffix: str = ".a") -> Path:
    """The program that calls `module`, which is saved as a library with `suffix`."""
    signature = module.signature
    artifact = module.save(directory / f"{signature.name}{suffix}")
    files = [artifact.library]
    if suffix == ".o" and signature.parallel:
        files.append(runtime_object(module.target))
    program = directory / f"run_{signature.name}"
    defined = [f'-DHEADER="{artifact.header.name}"', f"-DKERNEL={signature.name}"]
    defined.append(f"-DARRAYS={len(signature.params)}")
    how = [f"-Wl,-rpath,{directory}"] if suffix == ".so" else ["-static"]
    command = [CXX, *FLAGS, *defined, f"-I{directory}", DRIVER, *files, *how, "-pthread", "-lm"]
    run([*command, "-o", program])
    return program


def emulated(
    program: Path, inputs: Sequence[NDArray[np.float32]], shape: tuple[int, ...],
    *, threads: int, cpu: str = "max",
) -> tuple[int, NDArray[np.float32]]:  # fmt: skip
    """Run `program` and return its exit code and the output array (empty if it failed)."""
    output, names = program.with_suffix(".out"), list[Path]()
    output.unlink(missing_ok=True)
    for number, array in enumerate(inputs):
        names.append(program.with_suffix(f".in{number}"))
        array.tofile(names[-1])
    size = 4 * int(np.prod(shape))
    command = [QEMU, "-cpu", cpu, "-L", ROOT, program, threads, output, size, *names]
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode != 0:
        assert not done.stderr, done.stderr
        return done.returncode, np.empty(0, np.float32)
    return 0, np.fromfile(output, np.float32).reshape(shape)


def run(command: Sequence[str | Path]) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout
