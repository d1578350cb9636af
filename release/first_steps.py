"""What a newcomer does first, with the `ansorc` that is installed: tune, run, call, build.

    python first_steps.py no-compiler|ziglang|compiler

It needs nothing but ansorc itself. Ends with an error where something differs from what it expects.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import ansorc as ac
from ansorc.codegen.call.module import Module

WORKLOAD = """
import ansorc as ac


@ac.workload
def matmul(n: int = 256, m: int = 256, k: int = 256):
    A = ac.placeholder((n, k), name="A")
    B = ac.placeholder((k, m), name="B")
    return [A, B, ac.ops.matmul(A, B, name="C")]
"""
ANSORC = (sys.executable, "-c", "from ansorc.cli.main import main; main()")


def ansorc(*words: str, fails: str = "") -> str:
    """Run a command; it must succeed, or fail with `fails` in one line of error."""
    done = subprocess.run([*ANSORC, *words], capture_output=True, text=True, check=False)
    print(f"$ ansorc {' '.join(words)}\n{done.stdout}{done.stderr}", flush=True)
    assert (done.returncode == 0) is (not fails), done.returncode
    assert "Traceback" not in done.stderr
    assert fails in done.stderr
    return done.stdout


def product() -> ac.ComputeDAG:
    """The definition in `WORKLOAD`."""
    left, right = ac.placeholder((256, 256), name="A"), ac.placeholder((256, 256), name="B")
    return ac.ComputeDAG([left, right, ac.ops.matmul(left, right, name="C")])


def main(tools: str) -> None:
    """Take the steps; `tools` says what there is to link with."""
    begun = time.monotonic()
    Path("gemm.py").write_text(WORKLOAD)
    ansorc("--version")
    ansorc("tune", "gemm.py:matmul", "--trials", "8")
    print(f"the first tuned kernel after {time.monotonic() - begun:.0f} s")
    ansorc("run", "gemm.py:matmul")
    ansorc("build", "gemm.py:matmul", "-o", "matmul.o")
    a, b = (np.random.default_rng(0).random((256, 256), np.float32) for _ in range(2))
    expected = a.astype(np.float64) @ b.astype(np.float64)
    kernel = ac.build(product(), records="tune.db")
    assert np.allclose(kernel(a, b), expected, rtol=1e-4, atol=1e-4)
    assert tools != "compiler" or Path(os.environ["XDG_CACHE_HOME"], "ansorc").is_dir()
    if tools == "no-compiler":
        ansorc("build", "gemm.py:matmul", fails="pip install 'ansorc[cross]'")
        return
    ansorc("build", "gemm.py:matmul", "-o", "matmul.so")
    loaded = ac.load_library("matmul.so")
    assert isinstance(loaded, Module)
    assert np.allclose(loaded(a, b), expected, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    (which,) = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="ansorc-first-") as place:
        os.chdir(place)
        main(which)
