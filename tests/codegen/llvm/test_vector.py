"""Vectors of elements a few steps apart: they are picked out of vectors of all between them."""

from __future__ import annotations

import numpy as np
import pytest

import ansorc as ac
from tests.support.guarded_memory import guarded

_LENGTH = 37


@pytest.mark.parametrize("step", [2, 3, 4, 5])
@pytest.mark.parametrize("start", [0, 1])
def test_nothing_beyond_the_last_element_is_read(step: int, start: int) -> None:
    size = start + (_LENGTH - 1) * step + 1
    x = ac.placeholder((size,), name="x")
    y = ac.compute((_LENGTH,), lambda i: x[i * step + start] + 1.0, name="y")
    kernel = ac.build(ac.schedule(ac.ComputeDAG([x, y])).vectorize("y", "i"))
    data = guarded(np.arange(size, dtype=np.float32))
    result = guarded(np.zeros(_LENGTH, np.float32))
    kernel(data, result)
    np.testing.assert_array_equal(result, data[start::step] + 1.0)


@pytest.mark.parametrize("window", [3, 5])
def test_a_border_is_not_read(window: int) -> None:
    """With channels first and step 2, where lanes lie before and after the image."""
    side, half = 18, window // 2
    x = ac.placeholder((1, 2, side, side), name="x")
    w = ac.placeholder((2, window, window), name="w")
    y = ac.ops.depthwise_conv2d(x, w, stride=2, padding=half, layout="NCHW", name="y")
    state = ac.schedule(ac.ComputeDAG([x, w, y])).compute_inline("y.pad")
    state = state.reorder("y", ["n", "c", "h", "rh", "rw", "w"]).vectorize("y", "w")
    kernel = ac.build(state)
    rng = np.random.default_rng(0)
    data, weight = (rng.standard_normal(t.shape).astype(np.float32) for t in (x, w))
    padded = np.pad(data, ((0, 0), (0, 0), (half, half), (half, half)))
    places = side // 2
    expected = sum(
        padded[:, :, i : i + side - 1 : 2, j : j + side - 1 : 2] * weight[:, i, j, None, None]
        for i in range(window)
        for j in range(window)
    )
    for at_end in (True, False):
        result = guarded(np.zeros((1, 2, places, places), np.float32))
        kernel(guarded(data, at_end=at_end), guarded(weight), result)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
