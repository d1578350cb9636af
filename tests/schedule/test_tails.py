"""Tiles that do not divide: every value right, and no byte touched outside the arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.codegen.build import prepare
from ansorc.codegen.call.build import compile_module
from ansorc.ir.interpret import interpret
from ansorc.ir.stmt import Function
from ansorc.ir.verify import verify
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.operators import conv2d
from ansorc.lang.reference import evaluate
from ansorc.schedule import Schedule, lower, schedule
from tests.schedule.fenced import Fenced
from tests.schedule.meaning import keeps_the_meaning
from tests.support.assumed import executable
from tests.support.nightly import examples

TARGETS = [
    executable("native"),
    *(executable(f"x86_64-linux-gnu -mcpu={name}") for name in ("znver4", "znver3", "x86-64-v2")),
]
EXTENTS = (1, 2, 5, 7, 8, 13, 17, 29, 33)


@dataclass(frozen=True)
class Tile:
    rows: int
    columns: int
    depth: int
    is_fused: bool
    is_packed: bool


tiles = st.builds(
    Tile,
    st.sampled_from((1, 2, 5, 6, 7, 14)),
    st.sampled_from((3, 7, 8, 12, 16, 24, 32)),
    st.sampled_from((1, 4, 5, 16)),
    st.booleans(),
    st.booleans(),
)


def matmul(m: int, n: int, k: int, dtype: str) -> ComputeDAG:
    a, b = (
        ac.placeholder((m, k), name="A", dtype=dtype),
        ac.placeholder((k, n), name="B", dtype=dtype),
    )
    r = ac.reduce_axis(k, name="k")
    c = ac.compute((m, n), lambda i, j: ac.sum(a[i, r] * b[r, j], axis=r), name="C")
    return ComputeDAG([a, b, c])


def tiled(dag: ComputeDAG, tile: Tile) -> Schedule:
    state = ac.schedule(dag)
    if tile.is_fused:
        state = state.cache_write("C", "local")
        state = state.split("C", "i", [tile.rows]).split("C", "j", [tile.columns])
        state = state.reorder("C", ["i.0", "j.0", "i.1", "j.1"]).fuse("C", ["i.0", "j.0"])
        state = state.compute_at("C.local", "C", "i.0@j.0").split("C.local", "k", [tile.depth])
        state = state.reorder("C.local", ["k.0", "k.1", "i", "j"])
        state = state.unroll("C.local", "i").vectorize("C.local", "j").vectorize("C", "j.1")
        return state.parallel("C", "i.0@j.0")
    for name, length in (("i", tile.rows), ("j", tile.columns), ("k", tile.depth)):
        state = state.split("C", name, [length])
    state = state.reorder("C", ["j.0", "k.0", "i.0", "k.1", "i.1", "j.1"])
    if tile.is_packed:
        state = state.cache_read("B", "local", ["C"]).compute_at("B.local", "C", "k.0")
        state = state.vectorize("B.local", "ax1")
    return state.unroll("C", "i.1").vectorize("C", "j.1")


def random_arrays(dag: ComputeDAG, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-4, 5, b.shape).astype(b.dtype.numpy) for b in dag.inputs]


def assert_right(dag: ComputeDAG, function: Function, seed: int) -> None:
    """Small integers: every order of additions gives the same bits."""
    verify(function)
    inputs = random_arrays(dag, seed)
    expected = evaluate(dag, [x.astype(np.float64) for x in inputs])[0]
    for target in TARGETS:
        prepared = prepare(function, target)
        found = [*inputs, np.full(expected.shape, 99, dag.params[-1].dtype.numpy)]
        interpret(prepared, found, fresh_outputs=True)
        np.testing.assert_array_equal(found[-1], expected, err_msg=str(target))
        module = compile_module(function, target, "kernel")
        for at_end in (True, False):
            fenced = [Fenced(p.shape, p.dtype.numpy, at_end=at_end) for p in dag.params]
            for fence, values in zip(fenced, found, strict=True):
                fence.array[...] = values
            fenced[-1].array.fill(99)
            module(*(fence.array for fence in fenced), threads=2)
            np.testing.assert_array_equal(fenced[-1].array, expected, err_msg=str(target))
            assert all(fence.is_intact() for fence in fenced)
            for fence, values in zip(fenced[:-1], inputs, strict=True):
                np.testing.assert_array_equal(fence.array, values)


extents = st.sampled_from(EXTENTS)


@examples(4, nightly=15)
@given(extents, extents, extents, tiles, st.sampled_from(("float32", "float64", "int32", "int8")))
@example(2, 5, 5, Tile(2, 3, 4, True, False), "float32")  # a held tile and one in memory
def test_products_of_any_size_in_any_tile(m: int, n: int, k: int, tile: Tile, dtype: str) -> None:
    dag = matmul(m, n, k, dtype)
    assert_right(dag, lower(tiled(dag, tile)), seed=m + n + k)


@dataclass(frozen=True)
class Window:
    size: int
    filter: int
    stride: int
    padding: int
    channels: int
    tile: int
    where: str


windows = st.builds(
    Window,
    st.sampled_from((5, 7, 12)),
    st.sampled_from((1, 3, 5)),
    st.integers(1, 2),
    st.integers(0, 2),
    st.sampled_from((1, 5, 16, 23)),
    st.sampled_from((1, 2, 3, 5, 7)),
    st.sampled_from(("inline", "attach", "root")),
)


def convolved(window: Window) -> tuple[ComputeDAG, Schedule]:
    x = ac.placeholder((1, window.size, window.size, 3), name="X")
    w = ac.placeholder((window.filter, window.filter, 3, window.channels), name="W")
    y = conv2d(x, w, stride=window.stride, padding=window.padding)
    dag = ComputeDAG([x, w, y])
    state = ac.schedule(dag)
    has_pad = window.padding > 0
    if has_pad and window.where == "inline":
        state = state.compute_inline("conv2d.pad")
    state = state.split("conv2d", "c", [16]).split("conv2d", "w", [window.tile])
    order = ["n", "c.0", "h", "w.0", "rh", "rw", "rc", "w.1", "c.1"]
    state = state.reorder("conv2d", order)
    if has_pad and window.where == "attach":
        state = state.compute_at("conv2d.pad", "conv2d", "h").vectorize("conv2d.pad", "w")
    if window.where != "attach":
        state = state.fuse("conv2d", ["n", "c.0", "h"]).parallel("conv2d", "n@c.0@h")
    return dag, state.unroll("conv2d", "w.1").vectorize("conv2d", "c.1")


@examples(4, nightly=8)
@given(windows)
def test_padded_windows_in_any_tile(window: Window) -> None:
    if window.size + 2 * window.padding >= window.filter:
        dag, state = convolved(window)
        assert_right(dag, lower(state), seed=window.size)


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize(("rows", "lengths"), [(1, [5]), (4, [3]), (5, [2, 2])])
def test_nothing_is_read_past_the_end_of_what_is_held(
    rows: int, lengths: list[int], *, is_kept: bool
) -> None:
    """Q is computed in a loop of R that runs past the rows of R, for which P is held."""
    a = ac.placeholder((24, 3), name="A")
    p = ac.compute((24, 3), lambda i, j: a[i, j] * 2.0, name="P")
    q = ac.compute((22, 3), lambda i, j: p[i, j] + p[i + 2, j], name="Q")
    r = ac.compute((20, 3), lambda i, j: q[i, j] + q[i + 2, j], name="R")
    s = ac.compute((20, 3), lambda i, j: r[i, j] * 2.0, name="S")
    state = schedule(ComputeDAG([a, s])).split("S", "i", [rows]).compute_at("R", "S", "i.0")
    state = state.split("R", "i", lengths)
    last = len(lengths)
    state = state.compute_at("Q", "R", f"i.{last}").compute_at("P", "S", "i.0")
    keeps_the_meaning(state.store_at("Q", "R", f"i.{last - 1}") if is_kept else state)
