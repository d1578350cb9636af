"""Reductions over ranges that are data: schedules, programs, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ansorc as ac
from ansorc.errors import OutOfRangeError, ScheduleError
from ansorc.ir.aligned import Array
from ansorc.ir.printer import to_text
from ansorc.lang.scalar_type import Scalar
from ansorc.schedule import Schedule, lower, replay, schedule
from ansorc.schedule.stage import Mark
from ansorc.search.default import default_steps
from ansorc.target import Target
from tests.schedule.meaning import keeps_the_meaning
from tests.support.dag_strategies import Chain, elementwise, ragged, reduction
from tests.support.nightly import examples
from tests.support.schedule_strategies import schedules

OPTIONS = settings(
    deadline=None, database=None,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)  # fmt: skip


@st.composite
def ragged_dags(draw: st.DrawFn) -> ac.ComputeDAG:
    """A reduction over ranges, of what is computed before, and perhaps what reads it."""
    chain = Chain(draw, draw(st.sampled_from(["float32", "float64", "int32"])))
    chain.tensors.append(chain.input(draw(st.sampled_from([(13,), (7, 5), (4, 3, 6), (1, 8)]))))
    if draw(st.booleans()):
        chain.tensors.append(elementwise(chain))
    chain.tensors.append(ragged(chain))
    if draw(st.booleans()):
        chain.tensors.append(draw(st.sampled_from([elementwise, reduction]))(chain))
    return ac.ComputeDAG([*chain.inputs, chain.last])


@examples(24, nightly=1500, options=OPTIONS)
@given(schedules(ragged_dags(), most=12))
def test_any_legal_schedule_keeps_the_meaning(state: Schedule) -> None:
    keeps_the_meaning(state)


def spmm(rows: int = 4, terms: int = 12, columns: int = 40, depth: int = 6) -> ac.ComputeDAG:
    """A sparse matrix [rows, depth] of `terms` elements times a dense one."""
    pointers = ac.placeholder(rows + 1, "P", "int32", sorted=True)
    places, values = ac.placeholder(terms, "J", "int32"), ac.placeholder(terms, "V")
    dense = ac.placeholder((depth, columns), "B")

    def element(i: Scalar, j: Scalar) -> ac.Reduction:
        k = ac.reduce_axis((pointers[i], pointers[i + 1]), "k")
        return ac.sum(values[k] * dense[places[k], j], axis=k)

    return ac.ComputeDAG(
        [pointers, places, values, dense, ac.compute((rows, columns), element, "C")]
    )


def test_bounds_are_there_before_the_loop() -> None:
    state = ac.schedule(spmm()).cache_read("P", "local", ["C"])
    with pytest.raises(ScheduleError, match=r"'C' reads 'P\.local' outside that loop"):
        state.compute_at("P.local", "C", "k")


def arrays_of(dag: ac.ComputeDAG, pointers: list[int]) -> list[Array]:
    rng = np.random.default_rng(0)
    terms, dense = dag.inputs[1].shape[0], dag.inputs[3].shape
    places = rng.integers(0, dense[0], terms).astype(np.int32)
    return [
        np.array(pointers, np.int32), places, rng.random(terms, np.float32),
        rng.random(dense, np.float32),
    ]  # fmt: skip


def product(arrays: list[Array]) -> Array:
    pointers, places, values, dense = arrays
    result = np.zeros((len(pointers) - 1, dense.shape[1]))
    for row in range(len(result)):
        for k in range(pointers[row], pointers[row + 1]):
            result[row] += float(values[k]) * dense[places[k]]
    return result


@pytest.mark.parametrize("target", ["native", "cuda-emulated -arch=sm_80"])
def test_empty_rows_full_rows_and_rows_in_another_order(target: str) -> None:
    dag = spmm()
    module = ac.build(dag, target)
    for pointers in ([0, 0, 12, 12, 12], [0, 3, 3, 7, 12], [12, 5, 9, 0, 0]):
        arrays = arrays_of(dag, pointers)
        out = np.full((4, 40), np.nan, np.float32)
        module(*arrays, out)
        np.testing.assert_allclose(out, product(arrays), rtol=1e-5)
        np.testing.assert_allclose(dag.interpret(*arrays), product(arrays), rtol=1e-5)


@pytest.mark.parametrize("target", ["native", "cuda-emulated -arch=sm_80"])
def test_ranges_that_go_too_far_are_refused(target: str) -> None:
    dag = spmm()
    module, out = ac.build(dag, target), np.empty((4, 40), np.float32)
    for pointers, wrong in (([0, 3, 3, 7, 13], 13), ([-1, 3, 3, 7, 12], -1)):
        with pytest.raises(OutOfRangeError, match=f"index {wrong} .* of 'the range of k'"):
            module(*arrays_of(dag, pointers), out)


@pytest.mark.parametrize("threads", [("vthread", "threadIdx.x"), ("threadIdx.x", "vthread")])
def test_rows_of_virtual_threads(threads: tuple[str, str]) -> None:
    """Each virtual thread has a range of its own, so the loop is written once for each."""
    dag = spmm()
    rows, columns = threads
    state = schedule(dag).reorder("C", ["i", "j", "k"]).bind("C", "i", rows)
    module = ac.build(state.bind("C", "j", columns), "cuda-emulated -arch=sm_80")
    arrays, out = arrays_of(dag, [0, 3, 3, 7, 12]), np.empty((4, 40), np.float32)
    module(*arrays, out)
    np.testing.assert_allclose(out, product(arrays), rtol=1e-5)


def test_threads_take_some_rows_at_a_time() -> None:
    dag = spmm(2048, 40_000, 64, 2048)
    target = Target.parse("x86_64-linux-gnu -mcpu=znver3 -cores=2")
    (rows, *_) = replay(dag, default_steps(dag, target)).stage("C").iterators
    assert (rows.axis, rows.mark, rows.chunk) == ("i", Mark.PARALLEL, 64)


def test_few_trials(tmp_path: Path) -> None:
    dag, records = spmm(30, 200, 48, 40), str(tmp_path / "ragged.db")
    pointers = np.linspace(0, 200, 31).astype(np.int32)
    arrays, out = arrays_of(dag, pointers.tolist()), np.empty((30, 48), np.float32)
    inputs = {"P": pointers, "J": arrays[1]}
    assert ac.tune(ac.Task(dag), trials=2, records=records, inputs=inputs).best is not None
    ac.build(dag, records=records)(*arrays, out)
    np.testing.assert_allclose(out, product(arrays), rtol=1e-5)


def test_a_range_is_checked_once_for_each_row() -> None:
    state = schedule(spmm()).split("C", "j", [8]).reorder("C", ["i", "j.0", "k", "j.1"])
    text = to_text(lower(state.parallel("C", "i").vectorize("C", "j.1")))
    assert "ragged k in min(max(checked(cast(int64, P[i])" in text
    assert (
        str(state).splitlines()[2].strip() == "for k in cast(int64, P[i]) .. cast(int64, P[i + 1])"
    )
    keeps_the_meaning(state)


REFUSALS: list[tuple[Callable[[Schedule], Schedule], str]] = [
    (lambda s: s.split("C", "k", [4]), "runs over a range that is data, .* cannot be split"),
    (lambda s: s.vectorize("C", "k"), "cannot be vectorized"),
    (lambda s: s.unroll("C", "k"), "cannot be unrolled"),
    (lambda s: s.bind("C", "k", "threadIdx.x"), "cannot be bound to a thread"),
    (lambda s: s.tensorize("C", "k", "dot4"), "'k'"),
    (lambda s: s.rfactor("C", "k"), "make no partial results of one shape"),
    (lambda s: s.parallel("C", "k"), "is a reduction and its steps depend on each other"),
    (lambda s: s.reorder("C", ["k", "i"]), "a range that is data follows 'i', which would be"),
    (lambda s: s.split("C", "i", [2]).reorder("C", ["i.0", "k", "i.1"]), "follows 'i.1'"),
]


@pytest.mark.parametrize(("make", "words"), REFUSALS)
def test_refusals(make: Callable[[Schedule], Schedule], words: str) -> None:
    with pytest.raises(ScheduleError, match=words):
        make(schedule(spmm()))
