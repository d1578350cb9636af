"""Memory that notices stray writes."""

import ctypes
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from ansorc.search.measure.kernel import ALIGNMENT, GuardedArray, copy_guarded


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5, 11), (1024,), (1025,), (1 << 20,)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
def test_a_guarded_array_is_an_aligned_writable_array(shape: tuple[int, ...], dtype: str) -> None:
    memory = GuardedArray(shape, np.dtype(dtype))
    assert memory.array.shape == shape
    assert memory.array.ctypes.data % ALIGNMENT == 0
    memory.array[...] = 1
    assert (memory.array == 1).all()
    assert memory.is_intact()


@pytest.mark.parametrize("offset", [-1, 7 * 4])
def test_a_write_next_to_the_array_is_found(offset: int) -> None:
    memory = GuardedArray((7,), np.dtype("float32"))
    ctypes.memset(memory.array.ctypes.data + offset, 0, 1)
    assert not memory.is_intact()


def test_poison_is_nan_and_a_value_no_kernel_leaves() -> None:
    floats = GuardedArray((5,), np.dtype("float32"))
    integers = GuardedArray((5,), np.dtype("uint8"))
    floats.poison()
    integers.poison()
    assert np.isnan(floats.array.astype(np.float64)).all()
    assert (integers.array == 0xCD).all()
    assert floats.is_intact()


def test_a_copy_has_the_content_and_refuses_numpy_writes() -> None:
    source = np.arange(12, dtype=np.float32).reshape(3, 4)
    copy = copy_guarded(source)
    assert (copy.array == source).all()
    with pytest.raises(ValueError, match="read-only"):
        copy.array[0, 0] = 1


STRAY = """
import ctypes, numpy as np
from ansorc.search.measure.kernel import GuardedArray, copy_guarded
memory = {memory}
ctypes.memset(memory.array.ctypes.data + {offset}, 0, 1)
"""


@pytest.mark.parametrize(
    ("memory", "offset"),
    [
        ("copy_guarded(np.zeros(1000, np.float32))", 0),
        ("GuardedArray((1024,), np.dtype('float32'))", 4096),
        ("GuardedArray((1024,), np.dtype('float32'))", -1),
    ],
)
def test_native_writes_to_inputs_and_far_outside_are_signals(memory: str, offset: int) -> None:
    source = STRAY.format(memory=memory, offset=offset)
    done = subprocess.run([sys.executable, "-c", source], check=False, env=dict(os.environ))
    assert done.returncode == -signal.SIGSEGV
