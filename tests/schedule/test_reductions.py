"""Sums in lanes and in shares: every size, combiner and dtype against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.codegen.build import prepare
from ansorc.errors import ScheduleError
from ansorc.ir.node import walk
from ansorc.ir.stmt import For, LoopKind
from ansorc.schedule import Schedule, lower, schedule
from ansorc.target import Target
from tests.support.assumed import executable
from tests.support.nightly import examples, sampled_pairs

SIZES = (1, 2, 7, 15, 16, 17, 1000, 1001)
ROWS = 3
X86 = "x86_64-linux-gnu -mcpu="
TARGETS = [executable(text) for text in (f"{X86}znver3", f"{X86}znver4", "native")]
COMBINERS: dict[str, tuple[Callable[..., ac.Reduction], Any]] = {
    "sum": (ac.sum, np.sum), "max": (ac.max, np.max), "min": (ac.min, np.min),
    "prod": (ac.prod, np.prod),
}  # fmt: skip
DTYPES = {"float32": "float32", "float64": "float64", "int32": "int32", "int8": "int32"}
"""The dtype that is read, and that of the result."""


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.startswith("float"):
        return (rng.uniform(0.85, 1.15, shape) * rng.choice([-1, 1], shape)).astype(dtype)
    return rng.integers(-100, 100, shape).astype(dtype)


def expected(data: np.ndarray, combiner: str, axis: int | tuple[int, ...]) -> np.ndarray:
    wide = np.float64 if data.dtype.kind == "f" else np.int32
    return COMBINERS[combiner][1](data.astype(wide), axis=axis)


def check(found: np.ndarray, data: np.ndarray, combiner: str, axis: int | tuple[int, ...]) -> None:
    """Integers exactly; sums to a few roundings of the sum of the absolute values."""
    wanted = expected(data, combiner, axis)
    if found.dtype.kind != "f" or combiner in ("max", "min"):
        np.testing.assert_array_equal(found, wanted.astype(found.dtype))
        return
    rounding = 8 * float(np.finfo(found.dtype).eps)
    size = expected(np.abs(data), combiner, axis)
    terms = data.size // found.size if combiner == "prod" else 1
    assert np.all(np.abs(found - wanted) <= rounding * terms * size)


def poisoned(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.full(shape, np.nan if dtype.startswith("float") else 77, dtype)


@pytest.mark.parametrize(
    ("reduction", "target"), sampled_pairs([*product(COMBINERS, DTYPES)], TARGETS)
)
def test_rows_of_every_size(reduction: tuple[str, str], target: Target) -> None:
    """One kernel with a row reduction of each size."""
    combiner, dtype = reduction
    reduce, result = COMBINERS[combiner][0], DTYPES[dtype]
    inputs = [ac.placeholder((ROWS, size), f"A{size}", dtype) for size in SIZES]
    outputs = [_rows(data, reduce, result) for data in inputs]
    state = schedule(ac.ComputeDAG([*inputs, *outputs]))
    for data in inputs:
        state = state.vectorize(f"S{data.shape[1]}", "k")
    arrays = [values(data.shape, dtype, seed=data.shape[1]) for data in inputs]
    results = [poisoned((ROWS,), result) for _ in SIZES]
    ac.build(state, target)(*arrays, *results)
    for found, data in zip(results, arrays, strict=True):
        check(found, data, combiner, 1)


def _rows(data: ac.Tensor, reduce: Callable[..., ac.Reduction], result: str) -> ac.Tensor:
    k = ac.reduce_axis(data.shape[1], "k")
    name = f"S{data.shape[1]}"
    return ac.compute((ROWS,), lambda i: reduce(ac.cast(data[i, k], result), axis=k), name)


@dataclass(frozen=True)
class Case:
    """A reduction of A[rows, n, m] over its last axes, and how it is run."""

    rows: int
    n: int
    m: int
    combiner: str
    split: int
    is_fused: bool
    is_outer: bool
    axis: int

    def state(self) -> Schedule:
        """Return the reduction in shares: of the outer loop in parallel, or of the inner one."""
        data = ac.placeholder((self.rows, self.n, self.m), "A")
        j, k = ac.reduce_axis(self.n, "j"), ac.reduce_axis(self.m, "k")
        reduce = COMBINERS[self.combiner][0]
        total = ac.compute((self.rows,), lambda i: reduce(data[i, j, k], axis=[j, k]), "S")
        state = schedule(ac.ComputeDAG([data, total]))
        loop = "j@k" if self.is_fused else "j" if self.is_outer else "k"
        state = state.fuse("S", ["j", "k"]) if self.is_fused else state
        state = state.split("S", loop, [self.split])
        if self.is_outer:
            state = state.rfactor("S", f"{loop}.0", self.axis).parallel("S.rf", f"{loop}.0")
            last = state.stage("S.rf").iterators[-1].name
            return state.vectorize("S.rf", last).vectorize("S", f"{loop}.0")
        state = state.rfactor("S", f"{loop}.1")
        order = [it.name for it in state.stage("S.rf").iterators if it.name != f"{loop}.1"]
        state = state.reorder("S.rf", [*order, f"{loop}.1"]).vectorize("S.rf", f"{loop}.1")
        return state.vectorize("S", f"{loop}.1")


cases = st.builds(
    Case, st.integers(1, 3), st.sampled_from([1, 3, 8, 13]), st.sampled_from([1, 7, 16, 33, 100]),
    st.sampled_from(sorted(COMBINERS)), st.sampled_from([1, 2, 5, 16, 64]), st.booleans(),
    st.booleans(), st.sampled_from([0, 1, -1]),
)  # fmt: skip


@examples(9, nightly=40)
@given(cases)
def test_shares_add_up_with_any_number_of_threads(case: Case) -> None:
    state = case.state()
    kernel = ac.build(state, TARGETS[-1] if case.rows > 1 else TARGETS[0])
    data = values((case.rows, case.n, case.m), "float32", seed=case.m)
    for threads in range(1, 5):
        found = poisoned((case.rows,), "float32")
        kernel(data, found, threads=threads)
        check(found, data, case.combiner, (1, 2))


@pytest.mark.parametrize("combiner", ["max", "min"])
@pytest.mark.parametrize("place", [0, 16, 999, 1000])
def test_a_nan_anywhere_is_the_result(combiner: str, place: int) -> None:
    data = ac.placeholder((ROWS, 1001), "A")
    state = schedule(ac.ComputeDAG([data, _rows(data, COMBINERS[combiner][0], "float32")]))
    array, found = values(data.shape, "float32"), poisoned((ROWS,), "float32")
    array[1, place] = np.nan
    array[2] = np.inf
    ac.build(state.vectorize("S1001", "k"))(array, found)
    assert [bool(x) for x in np.isnan(found)] == [False, True, False]
    assert found[2] == np.inf


def test_sums_in_lanes_are_close_to_the_exact_sum() -> None:
    """Many partial sums lose less than one: a million terms, to a few roundings."""
    data = ac.placeholder((1, 1 << 20), "A")
    k = ac.reduce_axis(1 << 20, "k")
    total = ac.compute((1,), lambda i: ac.sum(data[i, k], axis=k), "S")
    array = np.random.default_rng(0).uniform(0, 1, data.shape).astype(np.float32)
    found = poisoned((1,), "float32")
    ac.build(schedule(ac.ComputeDAG([data, total])).vectorize("S", "k"))(array, found)
    np.testing.assert_allclose(found, array.astype(np.float64).sum(axis=1), rtol=1e-5)


def test_a_reduction_in_lanes_has_no_serial_loop_of_terms() -> None:
    """The rows of a tile share the loop over the terms, in vectors."""
    a, b = ac.placeholder((8, 256), "A"), ac.placeholder((256,), "B")
    k = ac.reduce_axis(256, "k")
    y = ac.compute((8,), lambda i: ac.sum(a[i, k] * b[k], axis=k), "Y")
    state = schedule(ac.ComputeDAG([a, b, y])).split("Y", "i", [4]).split("Y", "k", [16])
    state = (
        state.reorder("Y", ["i.0", "k.0", "i.1", "k.1"]).unroll("Y", "i.1").vectorize("Y", "k.1")
    )

    prepared = prepare(lower(state), TARGETS[0])
    serial = [p for p in walk(prepared) if isinstance(p, For) and p.kind is LoopKind.SERIAL]
    assert [loop.var.name for loop in serial] == ["i.0", "k.0"]
    arrays = values((8, 256), "float32"), values((256,), "float32")
    found = poisoned((8,), "float32")
    ac.build(state)(*arrays, found)
    np.testing.assert_allclose(found, arrays[0].astype(float) @ arrays[1].astype(float), atol=1e-4)


def test_threads_that_reduce_together_fill_warps() -> None:
    a = ac.placeholder((4, 48), name="A")
    k = ac.reduce_axis(48, name="k")
    s = ac.schedule(
        ac.ComputeDAG([a, ac.compute((4,), lambda i: ac.sum(a[i, k], axis=k), name="C")])
    )
    with pytest.raises(ScheduleError, match="a multiple of it up to 1024, not 48"):
        s.bind("C", "k", "threadIdx.x")
