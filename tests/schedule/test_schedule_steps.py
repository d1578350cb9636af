"""Each step: what it does to the loops, in pictures, and each refusal by its words."""

from __future__ import annotations

from collections.abc import Callable

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
    state = state.pragma("C", "auto_unroll_max_step", 16)
    data = steps_to_json(state.steps)
    assert data[0] == ["Split", {"stage": "C", "iterator": "i", "lengths": [2]}]
    assert str(replay(state.dag, steps_from_json(data))) == str(state)


def test_a_sketch_cannot_be_lowered() -> None:
    with pytest.raises(ValueError, match="not one program"):
        lower(replay(matmul().dag, [Split("C", "i", (Hole("C.i", (1,)),))]))


REFUSALS: dict[str, Callable[[Schedule], Schedule]] = {
    "there is no stage 'X'; the stages are 'C', 'D'": lambda s: s.split("X", "i", [2]),
    "stage 'C' has no iterator 'z'; it has 'i', 'j', 'k'": lambda s: s.split("C", "z", [2]),
    "give at least one length, each 1 or more": lambda s: s.split("C", "i", [0]),
    "'i' is already marked parallel; split it before that": lambda s: s.parallel("D", "i").split(
        "D", "i", [2]
    ),
    "stage 'C' is inlined and has no loops": lambda s: (
        s.cache_write("C").compute_inline("C").split("C", "i", [2])
    ),
    "give two iterators or more": lambda s: s.fuse("C", ["i"]),
    "not direct neighbours, outermost first; reorder before": lambda s: s.fuse("C", ["j", "i"]),
    "space and reduce iterators cannot be fused": lambda s: s.fuse("C", ["j", "k"]),
    "'C' is computed at 'i', between the two loops": lambda s: s.compute_at("C", "D", "i").fuse(
        "D", ["i", "j"]
    ),
    "an iterator is named twice": lambda s: s.reorder("C", ["i", "i"]),
    "'D' is an output and must be computed whole": lambda s: s.compute_at("D", "C", "i"),
    "computed inside it": lambda s: s.compute_at("C", "D", "i").compute_at("C", "C", "i"),
    "'C.local' reads 'C' outside that loop": lambda s: s.cache_read("C", "local", ["D"]).compute_at(
        "C", "D", "i"
    ),
    "use compute_at before that": lambda s: s.split("C", "i", [2]).compute_at("C", "D", "i"),
    "'j' is vectorized; choose a loop outside it": lambda s: s.vectorize("D", "j").compute_at(
        "C", "D", "j"
    ),
    "use compute_root before that": lambda s: s.split("C", "i", [2]).compute_root("C"),
    "'C' is a reduction; use compute_at instead": lambda s: s.compute_inline("C"),
    "'D' is an output and must be stored": lambda s: s.compute_inline("D"),
    "inline it before that": lambda s: s.cache_write("C").split("C", "i", [2]).compute_inline("C"),
    "'C.local' is computed inside its loops": lambda s: (
        s.cache_write("C").compute_at("C.local", "C", "i").compute_inline("C")
    ),
    "use cache_write before that": lambda s: s.split("C", "i", [2]).cache_write("C"),
    "there is no memory scope 'fast'; use 'local'": lambda s: s.cache_write("C", "fast"),
    "there is no tensor 'Z' to read": lambda s: s.cache_read("Z", "local", ["C"]),
    "'D' does not read 'A'": lambda s: s.cache_read("A", "local", ["D"]),
    "name one reader or more": lambda s: s.cache_read("A", "local", []),
    "'i' is not a loop of a reduction": lambda s: s.rfactor("C", "i"),
    "use rfactor first": lambda s: s.split("C", "i", [2]).rfactor("C", "k"),
    "'k' is a reduction and its steps depend on each other, so it cannot be parallel; rfactor": (
        lambda s: s.parallel("C", "k")
    ),
    "cannot be vectorized; rfactor it first": lambda s: s.vectorize("C", "k"),
    "'i' is already parallel, and threads do not nest": lambda s: s.parallel("C", "i").parallel(
        "C", "j"
    ),
    "'C' is computed inside 'i'; vectorize a loop further inside": lambda s: s.compute_at(
        "C", "D", "j"
    ).vectorize("D", "i"),
    "there is no thread index 'warp'; use one of blockIdx.x": lambda s: s.bind("C", "i", "warp"),
    "there is no pragma 'fast'": lambda s: s.pragma("C", "fast", 1),
    "-1 is below 0": lambda s: s.pragma("C", "auto_unroll_max_step", -1),
    "would change the region of 'C', whose loops were already changed": lambda s: (
        s.split("D", "i", [4])
        .compute_at("C", "D", "i.0")
        .split("C", "i", [2])
        .reorder("D", ["j", "i.1", "i.0"])
    ),
}


@pytest.mark.parametrize("words", REFUSALS)
def test_refusals(words: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        REFUSALS[words](matmul())
    assert words in str(caught.value)


def test_a_refusal_shows_the_step_and_the_loops() -> None:
    with pytest.raises(ScheduleError) as caught:
        matmul().parallel("C", "k")
    text = str(caught.value)
    assert text.startswith("Parallelize(stage='C', iterator='k') does not fit this program:\n")
    assert "for i in 0..8" in text
