"""Networks for a GPU, emulated: which kernel met a place that there is not."""

from __future__ import annotations

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import OutOfRangeError
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import FLOAT32, INT64


def filled(array: Array) -> Array:
    copy = ac.aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def test_which_kernel_it_was() -> None:
    builder = GraphBuilder("picks")
    table = builder.input("table", TensorType(FLOAT32, (50, 8)))
    first = builder.input("first", TensorType(INT64, (40,)))
    second = builder.input("second", TensorType(INT64, (7,)))
    rows = builder.add("take", [table, first], axis=0)
    sums = builder.add("softmax", [rows], axis=0)
    graph = builder.graph([builder.add("take", [sums, second], "found", axis=0)])
    module = ac.build(graph, "cuda-emulated -arch=sm_80", name="picks")
    t = np.random.default_rng(0).random((50, 8)).astype(np.float32)
    i, j = np.arange(40), np.arange(7) * 5
    taken = np.exp(t[i].astype(np.float64))
    wanted = (taken / taken.sum(0))[j]
    for _ in range(2):
        np.testing.assert_allclose(module(*map(filled, (t, i, j))), wanted, rtol=1e-4)
        for places, wrong, extent in ((i, 50, 50), (j, -1, 40)):
            kept, places[3] = places[3], wrong
            words = rf"picks got the index {wrong} for dimension 0 .* the extent {extent} .*\(in '"
            with pytest.raises(OutOfRangeError, match=words):
                module(*map(filled, (t, i, j)))
            places[3] = kept
