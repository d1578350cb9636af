"""Terms that go to places: schedules, what they are lowered to, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ansorc as ac
from ansorc.errors import OutOfRangeError, ScheduleError
from ansorc.ir.interpret import interpret
from ansorc.ir.parser import parse
from ansorc.ir.printer import to_text
from ansorc.lang.reference import evaluate
from ansorc.schedule import Schedule, lower, schedule
from tests.schedule.meaning import keeps_the_meaning
from tests.support.dag_strategies import Chain, elementwise, reduction, scattered
from tests.support.nightly import examples
from tests.support.schedule_strategies import schedules

OPTIONS = settings(
    deadline=None, database=None,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)  # fmt: skip


@st.composite
def scatters(draw: st.DrawFn) -> ac.ComputeDAG:
    """A scatter of an input or of what is computed from it, and perhaps what reads the result."""
    chain = Chain(draw, draw(st.sampled_from(["float32", "float64", "int32"])))
    chain.tensors.append(chain.input(draw(st.sampled_from([(13,), (7, 5), (4, 3, 6), (1, 8)]))))
    if draw(st.booleans()):
        chain.tensors.append(elementwise(chain))
    chain.tensors.append(scattered(chain))
    if draw(st.booleans()):
        chain.tensors.append(draw(st.sampled_from([elementwise, reduction]))(chain))
    return ac.ComputeDAG([*chain.inputs, chain.last])


@examples(24, nightly=1500, options=OPTIONS)
@given(schedules(scatters(), most=12))
def test_any_legal_schedule_keeps_the_meaning(state: Schedule) -> None:
    keeps_the_meaning(state)


def sums(extent: int = 100, bins: int = 7, *rest: int) -> ac.ComputeDAG:
    index = ac.placeholder(extent, "I", "int32")
    value = ac.placeholder((extent, *rest), "V")
    return ac.ComputeDAG([index, value, ac.scatter((bins, *rest), index, value, name="S")])


def test_private_copies() -> None:
    """Shares of the terms in parallel, each with four copies of the results."""
    state = schedule(sums()).split("S", "n", [7, 4]).reorder("S", ["n.0", "n.2", "n.1"])
    state = state.fuse("S", ["n.0", "n.2"]).rfactor("S", "n.0@n.2", 0)
    state = state.split("S.rf", "n.0@n.2", [4])
    outer, copy, terms = (it.name for it in state.stage("S.rf").iterators)
    state = state.reorder("S.rf", [outer, terms, copy])
    state = state.parallel("S.rf", outer).unroll("S.rf", copy)
    keeps_the_meaning(state)
    assert state.stage("S").op.places == ()


def test_all_terms_at_one_place_and_none_at_others() -> None:
    dag = sums(50, 9, 3)
    arrays = [np.full(50, 4, np.int32), np.ones((50, 3), np.float32)]
    out = np.full((9, 3), np.nan, np.float32)
    ac.build(schedule(dag))(*arrays, out)
    np.testing.assert_array_equal(out, np.outer(np.where(np.arange(9) == 4, 50, 0), np.ones(3)))


def test_atomic_updates_have_a_kernel_for_what_they_begin_with() -> None:
    state = schedule(sums(100, 7, 8)).split("S", "n", [16]).reorder("S", ["n.0", "n.1", "d0"])
    state = state.bind("S", "n.0", "blockIdx.x").bind("S", "n.1", "threadIdx.y")
    function = lower(state.bind("S", "d0", "threadIdx.x"))
    assert parse(to_text(function)) == function
    assert "atomic S[cast(int64, I[n.0 * 16 + n.1]), d0] = " in to_text(function)
    rng = np.random.default_rng(0)
    index = rng.integers(0, 7, 100).astype(np.int32)
    arrays = [index, rng.random((100, 8), np.float32)]
    out = np.empty((7, 8), np.float32)
    interpret(function, [*arrays, out], fresh_outputs=True)  # which refuses races
    np.testing.assert_allclose(out, evaluate(state.dag, arrays)[0], rtol=1e-5)


@pytest.mark.parametrize("target", ["native", "cuda-emulated -arch=sm_80"])
def test_places_outside_are_refused(target: str) -> None:
    dag = sums(20, 7, 2)
    module = ac.build(dag, target)
    index = np.zeros(20, np.int32)
    for wrong in (-1, 7):
        index[13] = wrong
        with pytest.raises(OutOfRangeError, match=f"'S' got the index {wrong}|index {wrong}"):
            module(index, np.ones((20, 2), np.float32), np.empty((7, 2), np.float32))


def in_lanes(s: Schedule) -> Schedule:
    return s.split("S", "n", [4]).tensorize("S", "n.1", "dot4")


def inside(s: Schedule) -> Schedule:
    return s.compute_at("S", "R", "i").bind("S", "n", "threadIdx.x")


REFUSALS: list[tuple[Callable[[Schedule], Schedule], str]] = [
    (lambda s: s.parallel("S", "n"), "is a reduction and its steps depend on each other"),
    (lambda s: s.vectorize("S", "n"), "the lanes of 'n' may go to one element of 'S'"),
    (lambda s: s.rfactor("S", "n"), "only loop over terms that are scattered"),
    (in_lanes, "go to places"),
    (lambda s: s.bind("S", "n", "vthread"), "bind it to a block or a thread"),
    (lambda s: s.parallel("S", "s0"), "has no iterator 's0'; it has 'n'"),
    (lambda s: s.compute_inline("S"), "'S'"),
    (inside, "another kernel stores what the sums of 'S' begin with"),
]


@pytest.mark.parametrize(("make", "words"), REFUSALS)
def test_refusals(make: Callable[[Schedule], Schedule], words: str) -> None:
    index = ac.placeholder(16, "I", "int32")
    total = ac.scatter(7, index, index, name="S")
    read = ac.compute(7, lambda i: total[i] * 2, "R")
    with pytest.raises(ScheduleError, match=words):
        make(schedule(ac.ComputeDAG([index, read])))
