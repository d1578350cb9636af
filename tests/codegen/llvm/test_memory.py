"""Loading code where free addresses are few and far apart, as in a process with large arrays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import ctypes, sys
import numpy as np
import ansorc as ac

a = ac.placeholder((4, 16), "a")
dag = ac.ComputeDAG([a, ac.compute((4, 16), lambda i, j: ac.exp(a[i, j]) * 2.5, "b")])
kernel = ac.build(dag)
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

def reserve(size):
    return libc.mmap(None, size, 0, 0x4022, -1, 0)

block, size = reserve(5 << 30), 5 << 30
for piece in (1 << 22, 1 << 18, 1 << 14, 1 << 12):  # what is free above the block
    while reserve(piece) > block:
        pass
libc.munmap(block + size - (1 << 20), int(sys.argv[1]) << 12)
x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(4, 16)
np.testing.assert_allclose(kernel(x), np.exp(x) * 2.5, rtol=1e-6)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for addresses")
@pytest.mark.parametrize("pages", [1, 2])
def test_code_and_its_constants_are_loaded_near_each_other(pages: int, tmp_path: Path) -> None:
    """The first section finds room in a hole, the next not within 2 GiB, what code can reach."""
    command = [sys.executable, "-c", PROGRAM, str(pages)]
    subprocess.run(command, check=True, cwd=tmp_path, timeout=100)
