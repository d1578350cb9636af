"""Readers in the loops of what they read, and where reductions begin: pictures and refusals."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import ansorc as ac
from ansorc.errors import ScheduleError
from ansorc.ir.printer import to_text
from ansorc.schedule import Schedule, schedule
from ansorc.schedule.stage import At
from tests.schedule.meaning import keeps_the_meaning
from tests.schedule.steps.test_steps import loops, matmul


def test_a_reader_takes_the_loops_of_its_source() -> None:
    state = matmul().split("C", "i", [3]).split("C", "j", [4])
    state = state.reorder("C", ["i.0", "j.0", "i.1", "j.1"]).fuse("C", ["i.0", "j.0"])
    state = state.parallel("C", "i.0@j.0", sharing="dynamic", chunk=2)
    state = state.reverse_compute_at("D", "C", "i.0@j.0")
    assert str(state).splitlines() == [
        "parallel i.0@j.0 in 0..9 dynamic 2",
        "  for i in 0..3",
        "    for j in 0..4",
        "      for k in 0..16",
        "        C sum= ...",
        "  for i.1 in 0..3",
        "    for j.1 in 0..4",
        "      D = ...",
    ]
    keeps_the_meaning(state.vectorize("C", "j").vectorize("D", "j.1"))


def test_what_was_inside_the_source_moves_with_its_loops() -> None:
    a = ac.placeholder((9, 7), name="A")
    p = ac.compute((9, 7), lambda i, j: a[i, j] + 1.0, name="P")
    q = ac.compute((9, 7), lambda i, j: p[i, j] * p[i, 0], name="Q")
    r = ac.compute((7, 9), lambda x, y: q[y, x] - q[y, x] * 2.0, name="R")
    state = schedule(ac.ComputeDAG([a, r])).reverse_compute_at("Q", "P", "i")
    assert state.stage("P").attach == At("Q", "i")
    state = state.reverse_compute_at("R", "Q", "i")
    assert state.stage("P").attach == At("R", "y")
    assert state.stage("Q").attach == At("R", "y")
    assert loops(state, "R") == [("y", 9), ("x", 7)]
    keeps_the_meaning(state)


def test_a_reduction_follows_the_rows_of_what_it_reads() -> None:
    a, w = ac.placeholder((6, 10), name="A"), ac.placeholder((10, 4), name="W")
    k = ac.reduce_axis(10, name="k")
    p = ac.compute((6, 10), lambda i, j: ac.exp(a[i, j]), name="P")
    c = ac.compute((6, 4), lambda i, j: ac.sum(p[i, k] * w[k, j], axis=k), name="C")
    state = schedule(ac.ComputeDAG([a, w, c])).split("P", "i", [2])
    state = state.reverse_compute_at("C", "P", "i.0")
    assert loops(state, "P") == [("i", 2), ("j", 10)]
    assert loops(state, "C") == [("i.0", 3), ("i.1", 2), ("j", 4), ("k", 10)]
    keeps_the_meaning(state)


@pytest.mark.parametrize("loop", ["i", "j", "k", "k.0", "k.1", "i.1"])
def test_a_reduction_begins_before_any_of_its_loops(loop: str) -> None:
    state = matmul().split("C", "k", [3]) if loop.startswith("k.") else matmul()
    state = state.split("C", "i", [3]) if loop == "i.1" else state
    state = state.reorder("C", ["k", "j"]) if loop == "j" else state
    state = state.decompose_reduction("C", loop)
    assert "C = identity" in str(state)
    keeps_the_meaning(state)


def test_the_place_follows_splits_and_fusions() -> None:
    state = matmul().decompose_reduction("C", "i").split("C", "i", [2])
    assert state.stage("C").initial == "i.0"
    assert matmul().decompose_reduction("C", "i").fuse("C", ["i", "j"]).stage("C").initial == "i@j"
    state = state.parallel("C", "i.0").vectorize("C", "j")
    text = to_text(ac.lower(state))
    assert text.count("parallel i.0") == 2
    assert text.count("vectorized j") == 2
    keeps_the_meaning(state)


def ragged() -> Schedule:
    p, a = ac.placeholder((7,), name="P", dtype="int32"), ac.placeholder((30,), name="A")

    def total(i: ac.Scalar, j: ac.Scalar) -> ac.Scalar:
        k = ac.reduce_axis((p[i], p[i + 1]), "k")
        return ac.sum(a[k] * j.astype("float32"), axis=k)

    return schedule(ac.ComputeDAG([p, a, ac.compute((6, 4), total, name="C")]))


def rows() -> Schedule:
    a = ac.placeholder((10, 8), name="A")
    p = ac.compute((10, 8), lambda i, j: a[i, j] + 1.0, name="P")
    c = ac.compute((8, 8), lambda i, j: p[i, j] + p[i + 2, j], name="C")
    return schedule(ac.ComputeDAG([a, c]))


def blurred() -> Schedule:
    a = ac.placeholder((10, 8), name="A")
    p = ac.compute((10, 8), lambda i, j: a[i, j] + 1.0, name="P")
    c = ac.compute((8, 8), lambda i, j: p[i, j] + p[i + 2, j], name="C")
    d = ac.compute((8, 8), lambda i, j: c[i, j] * p[i, j], name="D")
    return schedule(ac.ComputeDAG([a, d]))


def histogram() -> Schedule:
    index = ac.placeholder((9,), name="I", dtype="int32")
    ones = ac.compute((9,), lambda n: ac.const(1, "int32") + 0 * index[n], name="O")
    return schedule(ac.ComputeDAG([index, ac.scatter((4,), index, ones, name="H")]))


REFUSALS: dict[str, tuple[Callable[[Schedule], Schedule], Callable[[], Schedule]]] = {
    "'C' does not read 'D'": (lambda s: s.reverse_compute_at("C", "D", "i"), matmul),
    "'D' is computed inside another stage, or stages inside it; use reverse_compute_at before": (
        lambda s: s.cache_read("A", "local", ["C"]).compute_at("C", "D", "i")
        .reverse_compute_at("D", "C", "i"),
        matmul,
    ),
    "'D' reads 'P', too, and would be outside its loops; use compute_at": (
        lambda s: s.reverse_compute_at("C", "P", "i"), blurred,
    ),
    "the loops of 'D' were already changed; use reverse_compute_at before": (
        lambda s: s.parallel("D", "i").reverse_compute_at("D", "C", "i"), matmul,
    ),
    "'C' has no whole results inside 'k', which is no loop over results": (
        lambda s: s.reverse_compute_at("D", "C", "k"), matmul,
    ),
    "'j' is vectorized; choose a loop outside it": (
        lambda s: s.vectorize("C", "j").reverse_compute_at("D", "C", "j"), matmul,
    ),
    "the loops of 'C' inside 'i' were already changed; use reverse_compute_at before": (
        lambda s: s.reorder("C", ["i", "k", "j"]).reverse_compute_at("D", "C", "i"), matmul,
    ),
    "'C' reads 'P' along 'i' elsewhere than at its own place": (
        lambda s: s.reverse_compute_at("C", "P", "i"), rows,
    ),
    "'k' runs over a range that is data and may be empty, and then nothing would be stored": (
        lambda s: s.reorder("C", ["i", "k", "j"]).decompose_reduction("C", "j"), ragged,
    ),
    "the terms of 'H' go to places, so all its results are stored before": (
        lambda s: s.decompose_reduction("H", s.stage("H").iterators[0].name), histogram,
    ),
    "'C' is not a reduction, so it begins with nothing": (
        lambda s: s.decompose_reduction("C", "i"), blurred,
    ),
    "'C' stores its identities before 'j', between the loops; fuse them before that": (
        lambda s: s.decompose_reduction("C", "j").fuse("C", ["i", "j"]), matmul,
    ),
    "a loop that is bound to threads cannot be there twice; use a loop inside it": (
        lambda s: s.decompose_reduction("C", "i").bind("C", "i", "blockIdx.x"), matmul,
    ),
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSALS)
def test_refusals(words: str) -> None:
    change, make = REFUSALS[words]
    with pytest.raises(ScheduleError) as caught:
        change(make())
    assert words in str(caught.value)
