"""Runners of this machine and, where QEMU and cross compilers are, of emulated ones."""

from __future__ import annotations

import platform
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest

from ansorc.fleet.board_runner import ArgumentKind, BoardProgram, BoardTrial
from ansorc.search.measure import RunOptions

HERE = Path(__file__).parent
BUILD = HERE.parents[2] / "runtime/runner/build.sh"
SIZE = 1000
"""Bytes of the arrays of `kernels.c`."""
QUICK = RunOptions(threads=2, min_total_s=0.001, max_total_s=0.002)


@dataclass(frozen=True)
class Machine:
    """How programs for a machine are compiled, and what runs them here."""

    name: str
    compiler: str
    emulator: str = ""

    @property
    def is_here(self) -> bool:
        programs = (self.compiler + "g++", self.compiler + "gcc", self.emulator or "env")
        return all(map(shutil.which, programs))


MACHINES = {
    one.name: one
    for one in (
        Machine("native", ""),
        Machine("aarch64", "aarch64-linux-gnu-", "qemu-aarch64-static"),
        Machine("armv7", "arm-linux-gnueabihf-", "qemu-arm-static"),
    )
}
each_machine = pytest.mark.parametrize(
    "machine",
    [
        pytest.param(
            one,
            marks=pytest.mark.skipif(
                not one.is_here, reason=f"needs {one.compiler}g++ and {one.emulator}"
            ),
            id=one.name,
        )
        for one in MACHINES.values()
    ],
)
needs_aarch64 = pytest.mark.skipif(
    not MACHINES["aarch64"].is_here and platform.machine() != "aarch64",
    reason="needs aarch64-linux-gnu-g++ and qemu-aarch64-static",
)


@lru_cache
def runner_of(machine: Machine, directory: Path) -> str:
    """The command that starts a runner for `machine`, which is compiled."""
    program = directory / f"ansorc-runner-{machine.name}"
    run(str(BUILD), f"{machine.compiler}g++", str(program))
    return f"{machine.emulator} {program}".strip()


@lru_cache
def object_of(machine: Machine, directory: Path, *defined: str) -> bytes:
    """The object code of `kernels.c`."""
    output = directory / f"{machine.name}{'-'.join(defined)}.o"
    flags = ["-O1", "-fPIC", "-Wall", f"-DSIZE={SIZE}", *(f"-D{name}" for name in defined)]
    flags += ["-marm"] if machine.name == "armv7" else []
    run(f"{machine.compiler}gcc", *flags, "-c", str(HERE / "kernels.c"), "-o", str(output))
    return output.read_bytes()


def trial(array: int, *, workspace: int = 0, limit_s: float = 20.0) -> BoardTrial:
    """One call of a function of `kernels.c`, loaded as code 0, and its timing."""
    arguments = ((ArgumentKind.INPUT, array), (ArgumentKind.OUTPUT, 0))
    return BoardTrial((BoardProgram(0, workspace, arguments),), ((SIZE, 0xCD),), QUICK, limit_s)


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
