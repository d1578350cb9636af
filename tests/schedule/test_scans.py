"""Scans as loop programs: any legal schedule keeps the meaning, and others are refused in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given

import ansorc as ac
from ansorc.codegen.build import prepare
from ansorc.errors import ScheduleError
from ansorc.ir.buffer import Scope
from ansorc.ir.stmt import Allocate, statements
from ansorc.schedule import Schedule, lower, schedule
from ansorc.target import Target
from tests.codegen.cuda.proof import Experiment, complaint_of
from tests.schedule.meaning import keeps_the_meaning
from tests.support.dag_strategies import dags, mixing_scan, scan
from tests.support.nightly import examples
from tests.support.schedule_strategies import schedules

A = ac.placeholder((6, 20), "A")
START = ac.placeholder((6,), "start")


def rows(*, reverse: bool = False) -> Schedule:
    y = ac.compute(
        (6, 20),
        lambda i, t: ac.scan(START[i], lambda s: s * 0.5 + A[i, t], axis=t, reverse=reverse),
        "y",
    )
    return schedule(ac.ComputeDAG([A, START, y]))


def in_a_chain() -> Schedule:
    before = ac.compute((6, 20), lambda i, t: ac.exp(A[i, t]), "before")
    first = ac.compute((6,), lambda i: START[i] * 2.0, "first")
    y = ac.compute((6, 20), lambda i, t: ac.scan(first[i], lambda s: s + before[i, t], axis=t), "y")
    z = ac.compute((6, 20), lambda i, t: y[i, t] * 2.0, "z")
    return schedule(ac.ComputeDAG([A, START, z]))


@examples(8, nightly=300)
@given(schedules(dags(always=scan), most=12))
def test_random_schedules_keep_the_meaning(state: Schedule) -> None:
    keeps_the_meaning(state)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [5, 7])
def test_what_a_scan_reads_is_computed_in_its_loops(length: int, *, reverse: bool) -> None:
    """Parts of the steps that do not divide them, from either end."""
    before = ac.compute((6, 20), lambda i, t: ac.exp(A[i, t]), "before")
    y = ac.compute(
        (6, 20),
        lambda i, t: ac.scan(0.0, lambda s: s * 0.5 + before[i, t], axis=t, reverse=reverse),
        "y",
    )
    state = schedule(ac.ComputeDAG([A, y])).split("y", "t", [length])
    for loop in ("i", "t.0", "t.1"):
        keeps_the_meaning(state.compute_at("before", "y", loop))
    keeps_the_meaning(state.reorder("y", ["t.0", "i", "t.1"]).compute_at("before", "y", "t.0"))


def test_rows_that_advance_together_are_in_registers() -> None:
    state = rows().split("y", "i", [3]).reorder("y", ["i.0", "t", "i.1"]).unroll("y", "i.1")
    keeps_the_meaning(state)
    made = prepare(lower(state), Target.parse("native"))
    held = [part.buffer for part in statements(made.body) if isinstance(part, Allocate)]
    assert ("y.state.reg", (3,), Scope.REGISTER) in [(b.name, b.shape, b.scope) for b in held]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "int64", "uint16"])
@pytest.mark.parametrize("along", [0, 1])
def test_every_dtype(dtype: str, along: int) -> None:
    x = ac.placeholder((5, 19), "x", dtype)
    y = ac.compute((5, 19), lambda *i: ac.scan(1, lambda s: s + x[i], axis=i[along]), "y")
    numpy_type = np.dtype(getattr(ml_dtypes, dtype, dtype))
    data = np.random.default_rng(0).integers(0, 4, (5, 19)).astype(numpy_type)
    found = np.full(data.shape, 77).astype(numpy_type)
    ac.build(ac.ComputeDAG([x, y]))(data, found)
    wide = np.float64 if numpy_type.kind in "fV" else numpy_type
    wanted = np.cumsum(data.astype(wide), along, dtype=wide) + 1
    np.testing.assert_array_equal(found.astype(wide), wanted.astype(wide))


def test_bools_are_scanned() -> None:
    x = ac.placeholder((4, 9), "x", "bool")
    seen = ac.compute((4, 9), lambda i, t: ac.scan(False, lambda s: s | x[i, t], axis=t), "seen")
    data = np.random.default_rng(1).random((4, 9)) < 0.2
    found = np.ones_like(data)
    ac.build(ac.ComputeDAG([x, seen]))(data, found)
    np.testing.assert_array_equal(found, np.logical_or.accumulate(data, 1))


@pytest.mark.parametrize("state", [rows(), rows(reverse=True), in_a_chain()], ids=str)
def test_a_gpu_computes_them(state: Schedule) -> None:
    last = state.stages[-1].name
    bound = state.split(last, "i", [3]).bind(last, "i.0", "blockIdx.x")
    bound = bound.bind(last, "i.1", "threadIdx.x")
    assert complaint_of(lower(bound), Experiment.of(state.dag)) == ""


BREAKING: list[tuple[Callable[[Schedule], Any], str]] = [
    (lambda s: s.vectorize("y", "t"), "so it cannot be vectorized; use another loop"),
    (lambda s: s.parallel("y", "t"), "so it cannot be parallel; use another loop"),
    (lambda s: s.bind("y", "t", "threadIdx.x"), "so it cannot be bound to a thread"),
    (lambda s: s.split("y", "t", [4]).vectorize("y", "t.1"), "cannot be vectorized"),
    (lambda s: s.fuse("y", ["i", "t"]), "loops along a scan cannot be fused with others"),
    (lambda s: s.split("y", "t", [4]).reorder("y", ["t.1", "t.0"]),
     "would come in another order; keep the loops along it in theirs, from the outside t.0"),
    (lambda s: s.compute_inline("y"), "is a scan, each element of which needs the one before"),
    (lambda s: s.rfactor("y", "t"), "is not a loop of a reduction"),
    (lambda s: s.compute_at("first", "y", "t"), "reads 'first' outside that loop"),
]  # fmt: skip


def of_vectors() -> Schedule:
    """Independent recurrences along b, whose steps read all states along j."""
    x, w = ac.placeholder((3, 9, 6), "x"), ac.placeholder((6, 6), "w")
    k = ac.reduce_axis(6, "k")
    h = ac.compute(
        (3, 9, 6),
        lambda b, t, j: ac.scan(
            0.5, lambda h: ac.sum(h[b, k] * w[k, j], axis=k) * 0.5 + x[b, t, j], axis=t
        ),
        "h",
    )
    return schedule(ac.ComputeDAG([x, w, h]))


@examples(5, nightly=300)
@given(schedules(dags(always=mixing_scan), most=12))
def test_random_schedules_of_mixing_scans(state: Schedule) -> None:
    keeps_the_meaning(state)


def test_all_states_of_a_step_come_before_the_next_one() -> None:
    state = of_vectors()
    for made in (
        state.vectorize("h", "j").parallel("h", "b"),
        state.split("h", "t", [4]).split("h", "j", [4]).unroll("h", "j.1"),
        state.reorder("h", ["t", "b", "j"]),
        state.split("h", "t", [4]).reorder("h", ["t.0", "b", "t.1"]),
    ):
        keeps_the_meaning(made)
    bound = state.bind("h", "b", "threadIdx.x")
    assert complaint_of(lower(bound), Experiment.of(state.dag)) == ""
    with pytest.raises(ScheduleError, match="reads states of all places along j"):
        state.reorder("h", ["b", "j", "t"])
    with pytest.raises(ScheduleError, match="would wait for each other at each step"):
        state.bind("h", "j", "threadIdx.x")


@pytest.mark.parametrize(("change", "words"), BREAKING)
def test_what_breaks_the_order_of_steps_is_refused(
    change: Callable[[Schedule], Any], words: str
) -> None:
    with pytest.raises(ScheduleError) as refusal:
        change(in_a_chain())
    assert words in str(refusal.value)


def test_a_place_that_comes_too_late_is_refused_after_reordering() -> None:
    state = in_a_chain().compute_at("first", "y", "i")
    with pytest.raises(ScheduleError, match="reads 'first' outside the loop"):
        state.reorder("y", ["t", "i"])


def _of_weights(w: ac.Tensor, *, reverse: bool) -> Schedule:
    y = ac.compute(
        (6, 20),
        lambda i, t: ac.scan(0.0, lambda s: s + w[i, t], axis=t, reverse=reverse),
        "y",
    )
    return schedule(ac.ComputeDAG([w, y]))


def test_layouts_do_not_follow_a_scan_from_the_end() -> None:
    w = ac.placeholder((6, 20), "w", constant=True)
    for reverse in (False, True):
        state = _of_weights(w, reverse=reverse).split("y", "i", [3])
        state = state.reorder("y", ["i.0", "t", "i.1"])
        if reverse:
            with pytest.raises(ScheduleError, match="is a scan that begins at the end"):
                state.rewrite_layout("y", "w")
        else:
            keeps_the_meaning(state.rewrite_layout("y", "w"))
