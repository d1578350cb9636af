"""Memory for tensors on cache lines."""

import numpy as np
import pytest

import ansorc as ac


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.bool_])
@pytest.mark.parametrize("shape", [(), 7, (3, 5), (1 << 20, 5)])
def test_begins_on_a_cache_line(shape: int | tuple[int, ...], dtype: type[np.generic]) -> None:
    arrays = [ac.aligned_empty(shape, dtype) for _ in range(4)]
    for array in arrays:
        assert array.ctypes.data % 64 == 0
        assert array.shape == np.empty(shape).shape
        assert array.dtype == dtype
        assert array.flags.c_contiguous
        array.fill(1)
