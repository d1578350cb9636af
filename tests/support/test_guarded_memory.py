"""The memory that other tests give to kernels: what leaves an array ends the process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.guarded_memory import guarded

ROOT = Path(__file__).parents[2]
LEAVES = """
import ctypes, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from tests.support.guarded_memory import guarded
array = guarded(np.arange(5, dtype=np.float32), at_end=sys.argv[2] == "end")
inside = 16 if sys.argv[2] == "end" else 0
ctypes.memset(array.ctypes.data + inside, 0, 4)
print("inside", flush=True)
outside = 20 if sys.argv[2] == "end" else -4
if sys.argv[3] == "reads":
    ctypes.string_at(array.ctypes.data + outside, 4)
else:
    ctypes.memset(array.ctypes.data + outside, 0, 4)
"""


@pytest.mark.parametrize("side", ["end", "begin"])
@pytest.mark.parametrize("does", ["reads", "writes"])
def test_what_leaves_an_array_ends_the_process(side: str, does: str) -> None:
    command = [sys.executable, "-c", LEAVES, str(ROOT), side, does]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.stdout == "inside\n"
    assert ended.returncode == -signal.SIGSEGV


@pytest.mark.parametrize("shape", [(), (0, 3), (3, 5), (1024,), (33, 63)])
def test_the_copy_is_an_array_like_any_other(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for at_end in (False, True):
        copy = guarded(array, at_end=at_end)
        np.testing.assert_array_equal(copy, array)
        assert copy.flags.writeable
        assert copy.flags.c_contiguous
        assert copy.flags.aligned
