"""Run `ansorc` in this process, or in one of its own, as a user does."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from ansorc.cli.main import main

WORKLOADS = """
import ansorc as ac

@ac.workload
def product(n: int = 64, m: int = 64):
    a = ac.placeholder((n, 32), name="A")
    b = ac.placeholder((32, m), name="B")
    return [a, b, ac.ops.matmul(a, b, name="C")]

@ac.workload
def single():
    a = ac.placeholder((1,), name="A")
    return [a, ac.compute((1,), lambda i: a[i] * 2.0, name="B")]

@ac.workload
def broken(n: int = 4):
    return [1 // (n - 4)]

@ac.workload
def layer(n: int = 64):
    a = ac.placeholder((n, 32), name="A")
    b = ac.placeholder((32, n), name="B", constant=True)
    return [a, b, ac.ops.matmul(a, b, name="C")]
"""


@dataclass(frozen=True)
class Ended:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    def refused(self, code: int = 1) -> str:
        """Return the error line; there must be nothing else, in particular no traceback."""
        assert (self.code, self.out) == (code, ""), self
        lines = [line for line in self.err.splitlines() if " GFLOP a call, " not in line]
        assert len(lines) == 1, self.err
        assert lines[0].startswith("error: ")
        return lines[0]


class CommandLine:
    """`ansorc` in a directory that has the file ops.py."""

    def __init__(self, directory: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self._capture = capture
        (directory / "ops.py").write_text(WORKLOADS)

    def run(self, *arguments: str) -> Ended:
        """Run a command in this process."""
        self._capture.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out, err = self._capture.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return Ended(code, out, err)

    def start(
        self,
        *arguments: str,
        out: IO[str] | int = subprocess.PIPE,
        before: str = "",
    ) -> subprocess.Popen[str]:
        """Start a command as a process of its own, which runs the code `before` first."""
        code = f"{before}\nfrom ansorc.cli.main import main; main()"
        return subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            cwd=self.directory,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        )
