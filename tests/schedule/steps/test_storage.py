"""Padded buffers: the stride is what was asked for, and nothing else changes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.ir.buffer import Buffer
from ansorc.ir.interpret import interpret
from ansorc.ir.node import walk
from ansorc.ir.stmt import Allocate, Function
from ansorc.schedule import Hole, Schedule, lower, replay, schedule
from ansorc.schedule.memory import memory_shape
from ansorc.schedule.steps import Split, StorageAlign


def chain(*shape: int) -> Schedule:
    a = ac.placeholder(shape, name="A")
    b = ac.compute(shape, lambda *i: a[i] + 1.0, name="B")
    c = ac.compute(shape, lambda *i: b[i] * 2.0, name="C")
    return schedule(ac.ComputeDAG([a, c]))


def packed(state: Schedule) -> Schedule:
    """B of a matmul, packed in panels of 16 columns."""
    state = state.split("C", "j", [16]).reorder("C", ["j.0", "i", "k", "j.1"])
    return state.cache_read("B", "local", ["C"]).compute_at("B.local", "C", "j.0")


def matmul() -> Schedule:
    a, b = ac.placeholder((6, 8), name="A"), ac.placeholder((8, 32), name="B")
    r = ac.reduce_axis(8, name="k")
    c = ac.compute((6, 32), lambda i, j: ac.sum(a[i, r] * b[r, j], axis=r), name="C")
    return schedule(ac.ComputeDAG([a, b, c]))


def allocated(function: Function) -> dict[str, Buffer]:
    return {n.buffer.name: n.buffer for n in walk(function.body) if isinstance(n, Allocate)}


def test_a_panel_is_padded() -> None:
    state = packed(matmul()).storage_align("B.local", "ax0", 32, 20)
    assert allocated(lower(state))["B.local"].shape == (8, 20)
    rng = np.random.default_rng(0)
    a, b = rng.random((6, 8), np.float32), rng.random((8, 32), np.float32)
    for threads in (1, 2):
        c = np.full((6, 32), np.nan, np.float32)
        ac.build(state.vectorize("C", "j.1"), name="kernel")(a, b, c, threads=threads)
        np.testing.assert_allclose(c, a.astype(np.float64) @ b, 1e-5)


def test_the_last_alignment_of_an_axis_counts() -> None:
    state = chain(4, 6).storage_align("B", "i0", 8).storage_align("B", "i0", 16, 1)
    assert allocated(lower(state))["B"].shape == (4, 17)


def test_inner_padding_counts_for_the_outer_stride() -> None:
    state = chain(3, 4, 6).storage_align("B", "i1", 8).storage_align("B", "i0", 64)
    buffer = allocated(lower(state))["B"]
    assert buffer.shape == (3, 8, 8)
    assert buffer.strides == (64, 8, 1)


@given(st.lists(st.integers(1, 5), min_size=2, max_size=3), st.integers(1, 9), st.integers(0, 8))
def test_the_stride_is_what_was_asked_for(shape: list[int], factor: int, offset: int) -> None:
    place = len(shape) - 2
    state = chain(*shape)
    axis = state.stage("B").op.axes[place].name
    state = state.storage_align("B", axis, factor, offset % factor)
    function = lower(state)
    buffer = allocated(function)["B"]
    stride = buffer.strides[place]
    assert stride % factor == offset % factor
    assert shape[-1] <= stride < shape[-1] + factor
    a, c = np.arange(np.prod(shape), dtype=np.float32).reshape(shape), np.empty(shape, np.float32)
    interpret(function, [a, c], fresh_outputs=True)
    np.testing.assert_array_equal(c, (a + 1) * 2)


def test_a_population_is_padded_row_by_row() -> None:
    lengths = np.array([[4, 8], [2, 16], [1, 32]])
    state = replay(matmul().dag, [Split("C", "j", (Hole("C.j", (1,)),))], {"C.j": lengths})
    state = state.reorder("C", ["j.0", "i", "k", "j.1"]).cache_read("B", "local", ["C"])
    state = state.compute_at("B.local", "C", "j.0").storage_align("B.local", "ax0", 16, 8)
    rows = memory_shape(state.stage("B.local"))[1]
    assert np.asarray(rows).tolist() == [8, 24, 40]
    alone = [memory_shape(packed_with(int(length)).stage("B.local"))[1] for length in lengths[:, 1]]
    assert alone == [8, 24, 40]


def packed_with(length: int) -> Schedule:
    state = matmul().split("C", "j", [length]).reorder("C", ["j.0", "i", "k", "j.1"])
    state = state.cache_read("B", "local", ["C"]).compute_at("B.local", "C", "j.0")
    return state.storage_align("B.local", "ax0", 16, 8)


def test_a_hole_is_padded_once_it_is_filled() -> None:
    steps = [Split("C", "j", (Hole("C.j", (1,)),)), *packed(matmul()).steps[1:]]
    state = replay(matmul().dag, [*steps, StorageAlign("B.local", "ax0", 16, 8)])
    assert memory_shape(state.stage("B.local")) == (8, None)
