"""Where plain stages are computed, which loops are marked, and which choices stay open."""

from dataclasses import replace

import pytest

import ansorc.lang as ac
from ansorc.schedule import replay
from ansorc.schedule.stage import Mark
from ansorc.search.cpu.rules import RULES
from ansorc.search.options import SearchOptions
from ansorc.search.sketch import ParallelLoops, Sketch, UnrollLimit, generate, place_stages
from ansorc.search.space import design_space
from tests.search.small_dags import DAGS, ZEN3, conv_layer, matmul, softmax

OPTIONS = SearchOptions()


def places(sketch: Sketch, stage: str) -> str:
    return next(words for words in sketch.name.split(", ") if stage in words.split())


def marks(sketch: Sketch, stage: str) -> dict[str, Mark]:
    iterators = replay(sketch.dag, sketch.steps).stage(stage).iterators
    return {it.name: it.mark for it in iterators if it.mark is not Mark.NONE}


def test_padding_is_tried_in_all_sensible_places() -> None:
    derived = generate(conv_layer(56, 64, 64), ZEN3, RULES)
    found = [places(s, "conv.pad") for s in place_stages(derived[2], 8)]
    assert found == [
        "conv.pad at root",
        "conv.pad at conv.rc.0",
        "conv.pad at conv.c.1",
        "conv.pad at conv.c.0",
        "inline conv.pad",
    ]


def test_padding_may_be_computed_in_the_loops_around_a_fused_stage() -> None:
    derived = generate(conv_layer(56, 64, 64), ZEN3, RULES)
    found = [places(s, "conv.pad") for s in place_stages(derived[1], 8)]
    assert "conv.pad at conv.rc.0" in found
    assert [name for name in found if "at relu." in name] == [
        "conv.pad at relu.i3.1",
        "conv.pad at relu.i3.0",
    ]


def test_row_stages_are_computed_in_the_rows_of_their_reader() -> None:
    best = design_space(softmax(64, 64), ZEN3).sketches[0]
    state = replay(best.dag, best.steps)
    inner = {s.name for s in state.stages_inside("soft")}
    assert inner == {"soft.max", "soft.exp", "soft.sum"}


def test_the_number_of_sketches_is_bounded() -> None:
    derived = generate(DAGS["attention"], ZEN3, RULES)
    assert [len(place_stages(derived[0], most)) for most in (1, 5)] == [1, 5]
    plain = [s for s in design_space(DAGS["attention"], ZEN3).sketches if "pack" not in s.name]
    assert len(derived) < len(plain) <= OPTIONS.max_locations
    few = design_space(DAGS["attention"], ZEN3, replace(OPTIONS, max_locations=1)).sketches
    assert len([s for s in few if "pack" not in s.name]) == len(derived)


def test_the_register_tile_is_marked() -> None:
    whole = place_stages(generate(matmul(64, 64, 64), ZEN3, RULES)[2], 1)[0]
    assert marks(whole, "C") == {"i.3": Mark.UNROLL, "j.3": Mark.VECTORIZE}


def test_a_copy_is_vectorised_as_a_whole() -> None:
    fused = place_stages(generate(matmul(64, 64, 64), ZEN3, RULES)[0], 1)[0]
    assert marks(fused, "C") == {"j.1": Mark.VECTORIZE}


def test_a_column_of_results_is_vectorised_along_the_column() -> None:
    found = {sketch.name: sketch for sketch in generate(DAGS["matvec"], ZEN3, RULES)}
    assert marks(place_stages(found["tile C"], 1)[0], "C") == {"i.3": Mark.VECTORIZE}


@pytest.mark.parametrize(
    ("length", "expected"), [(64, {"k": Mark.VECTORIZE}), (3, {"i0.1": Mark.UNROLL})]
)
def test_long_rows_are_summed_in_lanes_and_short_ones_side_by_side(
    length: int, expected: dict[str, Mark]
) -> None:
    sketches = design_space(softmax(64, length), ZEN3).sketches
    rows = [s for s in sketches if "max at root" in s.name]
    assert marks(rows[0], "soft.max") == expected


def test_the_axis_along_which_terms_adjoin_goes_inside() -> None:
    data = ac.placeholder((4, 6, 16), "A")
    j, k = ac.reduce_axis(6, "j"), ac.reduce_axis(16, "k")
    sums = ac.compute((4,), lambda i: ac.sum(data[i, j, k], axis=[k, j]), "S")
    whole = place_stages(generate(ac.ComputeDAG([data, sums]), ZEN3, RULES)[0], 1)[0]
    loops = [it.name for it in replay(whole.dag, whole.steps).stage("S").iterators]
    assert loops == ["i", "j", "k"]
    assert marks(whole, "S") == {"k": Mark.VECTORIZE}


def test_sums_of_columns_are_vectorised() -> None:
    columns = design_space(DAGS["max_pool"], ZEN3).sketches[0]
    stage = replay(columns.dag, columns.steps).stage("pool")
    last = stage.iterators[-1]
    assert last.mark is Mark.VECTORIZE
    assert [it.kind.value for it in stage.iterators[-3:-1]] == ["reduce", "reduce"]


def test_choices() -> None:
    fused = place_stages(generate(matmul(64, 64, 64), ZEN3, RULES)[0], 1)[0]
    assert fused.choices == (
        UnrollLimit("C.local", (0, 16, 64, 512)),
        ParallelLoops("C", ("i.0", "j.0")),
    )
    assert fused.columns == (
        "C.local.i", "C.local.j", "C.local.k", "unroll:C.local", "parallel:C",
    )  # fmt: skip


def test_parallel_loops_end_where_a_stage_is_attached() -> None:
    for sketch in design_space(conv_layer(56, 64, 64), ZEN3).sketches:
        state = replay(sketch.dag, sketch.steps)
        for choice in sketch.choices:
            if isinstance(choice, ParallelLoops):
                inside = [bool(state.stages_inside(choice.stage, it)) for it in choice.iterators]
                assert not any(inside[:-1])


def test_annotation_steps() -> None:
    loops = ParallelLoops("C", ("i", "j"))
    assert loops.steps(0) == ()
    assert [str(type(s).__name__) for s in loops.steps(1)] == ["Parallelize"]
    assert [str(type(s).__name__) for s in loops.steps(2)] == ["Fuse", "Parallelize"]
    assert UnrollLimit("C", (0, 16)).steps(0) == ()
