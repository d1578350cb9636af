"""The derivation rules: how many sketches there are, what they look like, what a bad rule costs."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

import ansorc.lang as ac
from ansorc.graph.api import build
from ansorc.lang import operators as ops
from ansorc.schedule import replay
from ansorc.schedule.stage import At
from ansorc.search.cpu.rules import RULES, cpu_rules
from ansorc.search.sketch import (
    PartialSketch,
    RuleFailure,
    Tiling,
    Verdict,
    generate,
)
from tests.search.small_dags import (
    DAGS,
    ZEN3,
    conv_layer,
    dag,
    matmul,
    max_pool,
    two_matmuls,
)


@pytest.mark.parametrize(
    ("computation", "count"),
    [
        (matmul(512, 512, 512), 3),
        (conv_layer(56, 64, 64), 3),
        (two_matmuls(64), 9),
        (max_pool(56, 64), 1),
    ],
    ids=["matmul", "conv_layer", "two_matmuls", "max_pool"],
)
def test_counts_of_the_paper(computation: ac.ComputeDAG, count: int) -> None:
    assert len(generate(computation, ZEN3, RULES)) == count


def test_matmul_sketches() -> None:
    names = [sketch.name for sketch in generate(matmul(512, 512, 512), ZEN3, RULES)]
    assert names == [
        "cache write C, tile C.local in C at 1",
        "cache write C, tile C.local in C at 2",
        "tile C",
    ]


def test_fused_loops() -> None:
    fused = generate(matmul(512, 512, 512), ZEN3, RULES)[0]
    lines = str(replay(fused.dag, fused.steps)).splitlines()
    loops = [line.split(" in ")[0].strip() for line in lines]
    assert loops == [
        "for i.0", "for j.0",
        "for i.0", "for j.0", "for k.0", "for i.1", "for j.1", "for k.1", "for i.2", "for j.2",
        "C.local sum= ...",
        "for i.1", "for j.1",
        "C = ...",
    ]  # fmt: skip


def test_a_layer_is_fused_through_what_is_inlined() -> None:
    names = [sketch.name for sketch in generate(conv_layer(56, 64, 64), ZEN3, RULES)]
    assert names == [
        "inline bn, tile conv in relu at 1",
        "inline bn, tile conv in relu at 2",
        "inline bn, tile conv",
    ]


def pointwise(ci: int, co: int) -> ac.ComputeDAG:
    return dag([(1, 8, 8, ci), (1, 1, ci, co)], lambda t: ops.conv2d(t[0], t[1], name="conv"))


def test_few_channels_are_tiled_along_the_terms_too() -> None:
    found = [s for s in generate(pointwise(32, 3), ZEN3, RULES) if "conv.rf" in s.name]
    assert [s.name for s in found] == ["tile conv.rf in conv at 1", "tile conv.rf in conv at 2"]
    lines = str(replay(found[0].dag, found[0].steps)).splitlines()
    loops = [line.split(" in ")[0].strip() for line in lines]
    assert loops[-5:] == ["for h.1", "for w.1", "for c.1", "for rc.1", "conv sum= ..."]
    lanes = next(v for v in found[0].variables if (v.stage, v.axis) == ("conv.rf", "rc.1"))
    assert (lanes.extent, lanes.whole) == (8, 3)


@pytest.mark.parametrize(("ci", "co"), [(32, 4), (7, 3)])
def test_vectors_that_results_fill_or_terms_do_not_are_left_alone(ci: int, co: int) -> None:
    assert not [s for s in generate(pointwise(ci, co), ZEN3, RULES) if "conv.rf in conv" in s.name]


def test_rows_of_a_product_are_worked_on_in_its_tiles() -> None:
    def rows(t: list[ac.Tensor]) -> ac.Tensor:
        return ops.softmax(ops.matmul(t[0], t[1], name="C"), name="soft")

    names = [sketch.name for sketch in generate(dag([(64, 32), (32, 48)], rows), ZEN3, RULES)]
    assert names[:2] == ["tile C in rows of soft", "tile C in blocks of rows of soft"]
    fused = generate(dag([(64, 32), (32, 48)], rows), ZEN3, RULES)[0]
    state = replay(fused.dag, fused.steps)
    inner = {s.name: s.attach for s in state.stages}
    assert str(inner["C"]) == str(At("soft", "i0.0"))
    assert {str(inner[name]) for name in ("soft.max", "soft.exp", "soft.sum")} == {
        str(At("soft", "i0.1"))
    }


def test_no_rule_fuses_where_a_reduction_is_outside() -> None:
    computation = dag(
        [(1, 8, 8, 32), (1, 1, 32, 3)], lambda t: ops.softmax(ops.conv2d(t[0], t[1], name="conv"))
    )
    sketches = generate(computation, ZEN3, cpu_rules(Tiling("SRS")))
    assert sketches
    for sketch in sketches:
        assert "at 2" not in sketch.name
        assert replay(sketch.dag, sketch.steps)


def test_columns_of_a_product_are_not_worked_on_in_its_tiles() -> None:
    def columns(t: list[ac.Tensor]) -> ac.Tensor:
        return ops.softmax(ops.matmul(t[0], t[1], name="C"), axis=0, name="soft")

    names = [sketch.name for sketch in generate(dag([(64, 32), (32, 48)], columns), ZEN3, RULES)]
    assert not [name for name in names if "rows" in name]


def norm(rows: int, n: int) -> ac.ComputeDAG:
    return dag([(rows, n, n)], lambda t: ops.norm2(t[0], name="N"))


def test_a_long_reduction_is_divided_among_cores_or_lanes() -> None:
    sketches = generate(norm(1, 512), ZEN3, RULES)
    assert [sketch.name for sketch in sketches] == [
        "rfactor N.sum in 8 parts", "rfactor N.sum in 32 lanes", "",
    ]  # fmt: skip
    parts, lanes = (
        [it.name for it in replay(s.dag, s.steps).stage("N.sum.rf").iterators] for s in sketches[:2]
    )
    assert parts == ["i.0", "b", "i.1", "j"]
    assert lanes == ["b", "i", "j.0", "j.1"]


def test_short_reductions_and_those_of_many_rows_are_not_divided() -> None:
    assert [s.name for s in generate(norm(1, 32), ZEN3, RULES)] == [""]
    assert [s.name for s in generate(norm(64, 64), ZEN3, RULES)] == [""]


def test_a_prime_length_is_divided_with_a_rest() -> None:
    prime = generate(dag([(1, 1, 9973)], lambda t: ops.norm2(t[0], name="N")), ZEN3, RULES)[0]
    assert prime.name == "rfactor N.sum in 8 parts"
    loops = replay(prime.dag, prime.steps).stage("N.sum.rf").iterators
    assert [it.extent for it in loops] == [8, 1, 1, 1247]


def test_short_axes_are_fused_before_they_are_divided() -> None:
    fused = generate(dag([(1, 6, 7, 128)], _total), ZEN3, RULES)[0]
    assert fused.name == "rfactor S in 7 parts"
    loops = replay(fused.dag, fused.steps).stage("S.rf").iterators
    assert [(it.name, it.extent) for it in loops] == [
        ("i@j.0", 7), ("b", 1), ("i@j.1", 6), ("k", 128),
    ]  # fmt: skip


def _total(inputs: list[ac.Tensor]) -> ac.Tensor:
    data = inputs[0]
    axes = [ac.reduce_axis(n, name) for n, name in zip(data.shape[1:], "ijk", strict=True)]
    return ac.compute((1,), lambda b: ac.sum(data[(b, *axes)], axis=axes), "S")


def test_a_long_product_is_divided_and_then_tiled() -> None:
    names = [s.name for s in generate(matmul(2, 4, 4096), ZEN3, RULES)]
    assert names == [
        "rfactor C in 8 parts, cache write C.rf, tile C.rf.local in C.rf at 1",
        "rfactor C in 8 parts, cache write C.rf, tile C.rf.local in C.rf at 2",
        "rfactor C in 8 parts, tile C.rf",
        "cache write C, tile C.local in C at 1",
        "cache write C, tile C.local in C at 2",
        "tile C",
    ]


def test_max_pool_has_no_steps() -> None:
    assert generate(max_pool(56, 64), ZEN3, RULES)[0].steps == ()


def test_an_intermediate_that_is_an_output_is_not_inlined() -> None:
    a = ac.placeholder((8, 8), "a")
    middle = ac.compute((8, 8), lambda i, j: a[i, j] + 1.0, "middle")
    last = ac.compute((8, 8), lambda i, j: middle[i, j] * 2.0, "last")
    sketches = generate(ac.ComputeDAG([a, middle, last]), ZEN3, RULES)
    assert [sketch.steps for sketch in sketches] == [()]


def test_two_tiled_stages_cannot_both_be_in_one_consumer() -> None:
    def build(t: list[ac.Tensor]) -> ac.Tensor:
        a, b, c = t
        return ops.add(ops.matmul(a, b, name="C"), ops.matmul(a, c, name="D"), name="sum")

    names = [s.name for s in generate(dag([(8, 8)] * 3, build), ZEN3, RULES)]
    assert "tile D in sum at 1, cache write C, tile C.local in C at 2" in names
    assert not any("tile D in sum" in name and "tile C in sum" in name for name in names)


def test_hints_are_honoured() -> None:
    def hinted(hints: dict[str, str]) -> list[str]:
        a, b = ac.placeholder((8, 8), "a"), ac.placeholder((8, 8), "b")
        k = ac.reduce_axis(8, "k")
        e = ac.compute((8, 8), lambda i, j: ac.exp(a[i, j]), "e", hints)
        c = ac.compute((8, 8), lambda i, j: ac.sum(e[i, k] * b[k, j], axis=k), "C", hints)
        return [sketch.name for sketch in generate(ac.ComputeDAG([a, b, c]), ZEN3, RULES)]

    assert hinted({"no_cache_write": "1"}) == ["tile C"]
    assert hinted({"always_compute_inline": "1"})[2] == "tile C, inline e"
    a = ac.placeholder((8, 8), "a")
    e = ac.compute((8, 8), lambda i, j: a[i, j] * 2.0, "e", {"never_compute_inline": "1"})
    f = ac.compute((8, 8), lambda i, j: e[i, j] + 1.0, "f")
    assert not any(
        "inline" in sketch.name for sketch in generate(ac.ComputeDAG([a, f]), ZEN3, RULES)
    )


def test_a_three_level_structure() -> None:
    rules = cpu_rules(Tiling("SRS"))
    names = [sketch.name for sketch in generate(matmul(16, 16, 16), ZEN3, rules)]
    assert names == ["cache write C, tile C.local in C at 1", "tile C"]
    whole = generate(matmul(16, 16, 16), ZEN3, rules)[1]
    order = [it.name for it in replay(whole.dag, whole.steps).stage("C").iterators]
    assert order == ["i.0", "j.0", "k", "i.1", "j.1"]


@dataclass(frozen=True)
class Faulty:
    """A rule that somebody got wrong: it names a loop that is not there."""

    when: Verdict

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        if partial.stage(stage).op.axes[99].extent:
            raise AssertionError
        return self.when

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        yield partial


def test_a_rule_that_raises_costs_its_own_sketches_only() -> None:
    failures: list[RuleFailure] = []
    rules = (Faulty(Verdict.APPLY_AND_STOP), *RULES)
    found = generate(matmul(16, 16, 16), ZEN3, rules, failures)
    assert [s.name for s in found] == [s.name for s in generate(matmul(16, 16, 16), ZEN3, RULES)]
    assert failures[0] == RuleFailure("Faulty", "C", "tuple index out of range")


@dataclass(frozen=True)
class RowsOnly:
    """A rule of a user's own: leave everything, and say so."""

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        return Verdict.APPLY_AND_STOP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        yield partial.with_trace(f"leave {stage}")


def test_a_rule_can_be_plugged_in() -> None:
    found = generate(two_matmuls(8), ZEN3, (RowsOnly(), *RULES))
    assert [sketch.name for sketch in found] == ["leave E, leave C"]


@pytest.mark.parametrize("name", DAGS)
def test_every_operator_has_sketches_without_failures(name: str) -> None:
    failures: list[RuleFailure] = []
    found = generate(DAGS[name], ZEN3, RULES, failures)
    assert found
    assert not failures
    assert len({sketch.name for sketch in found}) == len(found)


def test_a_first_axis_of_extent_1_does_not_keep_a_consumer_out() -> None:
    """Broadcasting reads it at 0: networks of batch 1 have such epilogues everywhere."""
    a = ac.placeholder((1, 64, 64), name="A")
    b = ac.placeholder((64, 64), name="B")
    c = ac.placeholder((64,), name="c")
    dag = ac.ComputeDAG([a, b, c, ops.add(ops.matmul(a, b), c)])
    first = generate(dag, ZEN3, RULES)[0]
    assert [f"{one.rule} on {one.stage}" for one in first.derivation] == [
        "Skip on add",
        "MultiLevelTilingWithFusion on matmul",
    ]


@pytest.mark.parametrize("rows", [1, 4])
def test_rows_at_places_that_are_read_once_are_not_stored(rows: int) -> None:
    """A matrix of its own for each element of a batch, as in layers of experts."""
    data, weights = ac.placeholder((16, rows, 8), "x"), ac.placeholder((4, 8, 32), "w")
    which = ac.placeholder((16,), "i", "int64")
    chosen = ops.take(weights, which, axis=0, name="chosen")
    product = ops.matmul(data, chosen, name="product")
    sketches = generate(ac.ComputeDAG([data, weights, which, product]), ZEN3, RULES)
    assert all(s.state.stage("chosen").is_inlined == (rows == 1) for s in sketches)


def test_sums_of_rows_at_places_are_stored() -> None:
    data, which = ac.placeholder((16, 32), "x"), ac.placeholder((8, 4), "i", "int64")
    chosen = ops.sum(ops.take(data, which, name="rows"), axis=1, name="bags")
    sketches = generate(ac.ComputeDAG([data, which, ops.relu(chosen, name="y")]), ZEN3, RULES)
    assert not any(s.state.stage("bags").is_inlined for s in sketches)


def test_elements_at_places_are_stored_where_they_are_no_rows() -> None:
    data, which = ac.placeholder((16, 32), "x"), ac.placeholder((8,), "i", "int64")
    chosen = ops.take(data, which, axis=1, name="chosen")
    sketches = generate(ac.ComputeDAG([data, which, ops.relu(chosen, name="y")]), ZEN3, RULES)
    assert not any(s.state.stage("chosen").is_inlined for s in sketches)


def largest_of_rows(rows: int, columns: int) -> ac.ComputeDAG:
    a, k = ac.placeholder((rows, columns), "A"), ac.reduce_axis(columns, "k")
    names = ["value", "place"]
    return ac.ComputeDAG([a, *ac.compute_tuple(rows, lambda i: ac.argmax(a[i, k], axis=k), names)])


def test_tuples_of_rows_are_reduced_in_lanes() -> None:
    """Where the row fills the lanes twice, and is contiguous."""
    names = [s.name for s in generate(largest_of_rows(1000, 4000), ZEN3, RULES)]
    assert "rfactor value in 16 lanes" in names
    assert not any("lanes" in s.name for s in generate(largest_of_rows(1000, 31), ZEN3, RULES))
    a, k = ac.placeholder((500, 1000), "A"), ac.reduce_axis(500, "k")
    columns = ac.compute_tuple(1000, lambda i: ac.argmax(a[k, i], axis=k), ["value", "place"])
    assert not any("lanes" in s.name for s in generate(ac.ComputeDAG([a, *columns]), ZEN3, RULES))


@pytest.mark.parametrize("columns", [32, 1000, 1003])
def test_the_first_of_equals_is_found_in_lanes(columns: int) -> None:
    a = np.random.default_rng(0).integers(0, 50, (30, columns)).astype(np.float32)
    a[3, columns // 2] = a[3, columns - 1] = np.nan
    value, place = build(largest_of_rows(30, columns))(a)
    np.testing.assert_array_equal(place, a.argmax(1))
    np.testing.assert_array_equal(value, a.max(1))
