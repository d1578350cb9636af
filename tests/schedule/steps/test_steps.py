"""Each step: what it does to the loops, in pictures."""

from __future__ import annotations

import pytest

import ansorc as ac
from ansorc.errors import ScheduleError
from ansorc.schedule import Hole, Schedule, lower, replay, schedule, steps_from_json, steps_to_json
from ansorc.schedule.stage import At
from ansorc.schedule.steps import Split


def matmul(n: int = 8, m: int = 12, k: int = 16) -> Schedule:
    a = ac.placeholder((n, k), name="A")
    b = ac.placeholder((k, m), name="B")
    r = ac.reduce_axis(k, name="k")
    c = ac.compute((n, m), lambda i, j: ac.sum(a[i, r] * b[r, j], axis=r), name="C")
    d = ac.compute((n, m), lambda i, j: ac.maximum(c[i, j], 0.0), name="D")
    return schedule(ac.ComputeDAG([a, b, d]))


def loops(state: Schedule, stage: str) -> list[tuple[str, object]]:
    return [(iterator.name, iterator.extent) for iterator in state.stage(stage).iterators]


def test_split_names_the_parts_and_rounds_up() -> None:
    state = matmul().split("C", "i", [3]).split("C", "k", [4, 2])
    assert loops(state, "C") == [
        ("i.0", 3), ("i.1", 3), ("j", 12), ("k.0", 2), ("k.1", 4), ("k.2", 2),
    ]  # fmt: skip


def test_fuse_and_reorder() -> None:
    state = matmul().fuse("D", ["i", "j"]).reorder("C", ["k", "i"])
    assert loops(state, "D") == [("i@j", 96)]
    assert loops(state, "C") == [("k", 16), ("j", 12), ("i", 8)]


def test_compute_at_takes_only_the_region() -> None:
    state = matmul().split("D", "i", [4]).compute_at("C", "D", "i.0")
    assert loops(state, "C") == [("i", 4), ("j", 12), ("k", 16)]


def test_a_split_loop_keeps_what_is_computed_in_it() -> None:
    state = matmul().compute_at("C", "D", "i").split("D", "i", [2])
    assert loops(state, "C") == [("i", 1), ("j", 12), ("k", 16)]
    assert state.stage("C").attach == At("D", "i.1")


def test_cache_write_and_rfactor_add_a_stage_before() -> None:
    state = matmul().cache_write("C")
    assert [stage.name for stage in state.stages] == ["C.local", "C", "D"]
    state = matmul().split("C", "k", [4]).rfactor("C", "k.1")
    assert [stage.name for stage in state.stages] == ["C.rf", "C", "D"]
    assert loops(state, "C.rf") == [("i", 8), ("j", 12), ("k.1", 4), ("k.0", 4)]
    assert loops(state, "C") == [("i", 8), ("j", 12), ("k.1", 4)]


def test_the_factored_loop_becomes_the_dimension_that_is_asked_for() -> None:
    state = matmul().split("C", "k", [4]).rfactor("C", "k.0", axis=0)
    assert loops(state, "C.rf") == [("k.0", 4), ("i", 8), ("j", 12), ("k.1", 4)]
    assert state.stage("C.rf").op.buffer.shape == (4, 8, 12)
    assert loops(state, "C") == [("i", 8), ("j", 12), ("k.0", 4)]


def test_a_reduce_loop_may_be_vectorized() -> None:
    assert "vectorize k in 0..16" in str(matmul().vectorize("C", "k"))


def test_cache_read_packs_the_region_a_loop_needs() -> None:
    state = matmul().split("C", "j", [4]).cache_read("B", "local", ["C"])
    state = state.reorder("C", ["j.0", "i", "j.1"]).compute_at("B.local", "C", "j.0")
    assert loops(state, "B.local") == [("ax0", 16), ("ax1", 4)]


def test_a_step_that_comes_twice_finds_a_free_name() -> None:
    state = matmul().rfactor("C", "k").rfactor("C", "k")
    assert [stage.name for stage in state.stages] == ["C.rf", "C.rf.1", "C", "D"]


def test_a_state_prints_as_nested_loops() -> None:
    state = matmul().compute_at("C", "D", "i").parallel("D", "i").vectorize("C", "j")
    assert str(state) == (
        "parallel i in 0..8\n"
        "  for i in 0..1\n"
        "    vectorize j in 0..12\n"
        "      for k in 0..16\n"
        "        C sum= ...\n"
        "  for j in 0..12\n"
        "    D = ..."
    )


def test_steps_go_to_json_and_back() -> None:
    state = matmul().split("C", "i", [2]).parallel("C", "i.0")
    state = state.pragma("C", "auto_unroll_max_step", 16).storage_align("C", "i", 32, 16)
    state = state.parallel("D", "i", sharing="dynamic", chunk=2)
    data = steps_to_json(state.steps)
    assert data[:2] == [
        ["Split", {"stage": "C", "iterator": "i", "lengths": [2]}],
        ["Parallelize", {"stage": "C", "iterator": "i.0"}],
    ]
    assert data[3:] == [
        ["StorageAlign", {"stage": "C", "axis": "i", "factor": 32, "offset": 16}],
        ["Parallelize", {"stage": "D", "iterator": "i", "sharing": "dynamic", "chunk": 2}],
    ]
    assert str(replay(state.dag, steps_from_json(data))) == str(state)


def test_a_sketch_cannot_be_lowered() -> None:
    with pytest.raises(ValueError, match="not one program"):
        lower(replay(matmul().dag, [Split("C", "i", (Hole("C.i", (1,)),))]))


def test_a_refusal_shows_the_step_and_the_loops() -> None:
    with pytest.raises(ScheduleError) as caught:
        matmul().parallel("C", "k")
    assert str(caught.value) == (
        "Parallelize(stage='C', iterator='k') does not fit this program:\n"
        "  'k' is a reduction and its steps depend on each other, so it cannot be parallel; "
        "rfactor it first\n"
        "\n"
        "  for i in 0..8\n"
        "    for j in 0..12\n"
        ">     for k in 0..16  <-- here\n"
        "        C sum= ...\n"
        "  for i in 0..8\n"
        "    for j in 0..12\n"
        "      D = ..."
    )
