"""Rows: short ones in lanes, norms beside their sums, matrices that are read once, attention."""

import re
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

import ansorc as ac
from ansorc import ops
from ansorc.errors import BuildError
from ansorc.ir.expr import const
from ansorc.ir.interpret import interpret
from ansorc.ir.passes.vectorize_reductions import vectorize_reductions
from ansorc.ir.printer import to_text
from ansorc.ir.substitute import free_vars
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import Schedule, replay, schedule
from ansorc.schedule.lower import lower
from ansorc.schedule.needed import find_needs
from ansorc.schedule.stage import At, Mark, Stage
from ansorc.search.cpu.rules import RULES
from ansorc.search.default import default_steps
from ansorc.search.evolution.sampling import sample
from ansorc.search.sketch import generate
from ansorc.search.sketch.complete import place_stages
from ansorc.search.space.genes import steps
from ansorc.target import Target
from tests.search.small_dags import check_meaning
from tests.support.nightly import sampled

ZEN4 = Target.parse("x86_64-linux-gnu -mcpu=znver4 -cores=4")
Array = npt.NDArray[np.float64]


def chosen(*tensors: ac.Tensor) -> Schedule:
    dag = ComputeDAG(tensors)
    return replay(dag, default_steps(dag, ZEN4))


def marked(stage: Stage, mark: Mark) -> list[tuple[str, object]]:
    return [(it.axis, it.extent) for it in stage.iterators if it.mark is mark]


def test_short_rows_are_reduced_in_lanes_as_many_at_a_time() -> None:
    data = ac.placeholder((4096, 10), "X")
    state = chosen(data, ops.log_softmax(data, name="y"))
    for name in ("y.max", "y.sum"):
        assert marked(state.stage(name), Mark.VECTORIZE) == [("k", 10)]
        assert state.stage(name).region[0] == 16
    assert state.stage("y.sum").attach == At("y", "i0.0")


def test_long_rows_are_finished_one_after_the_other() -> None:
    """16 vectors of a row are written out at most; the estimate once took all of them to be."""
    data = ac.placeholder((16, 50257), "X")
    state = chosen(data, ops.softmax(data, name="y"))
    assert {stage.name for stage in state.stages_inside("y")} == {"y.max", "y.exp", "y.sum"}


def test_groups_are_normalised_beside_their_sums() -> None:
    data = ac.placeholder((2, 64, 28, 28), "X")
    scale, shift = ac.placeholder((64,), "s"), ac.placeholder((64,), "b")
    found = ops.group_norm(data, scale, shift, 8, layout="NCHW", name="y")
    state = chosen(data, scale, shift, found)
    stages = ("y.sum", "y.squares", "y.mean", "y.factor")
    assert {str(state.stage(name).attach) for name in stages} == {str(At("y", "n@c.0"))}


@pytest.mark.parametrize(("rows", "sums"), [(6, 6), (16, 8), (7, 7), (11, 1)])
def test_short_rows_of_one_sum_have_sums_of_their_own(rows: int, sums: int) -> None:
    data, i, j = (
        ac.placeholder((3, rows, 12), "X"),
        ac.reduce_axis(rows, "i"),
        ac.reduce_axis(12, "j"),
    )
    total = ac.compute((3,), lambda n: ac.sum(data[n, i, j], axis=[i, j]), "y")
    function = lower(schedule(ComputeDAG([data, total])).vectorize("y", "j"))
    found = vectorize_reductions(function, 32, 32, 1 << 25, 8)
    assert f"y.lanes: float32[{sums}, 8]" in to_text(found)
    x, y = np.random.default_rng().random((3, rows, 12), np.float32), np.full(3, np.nan, np.float32)
    interpret(found, [x, y], fresh_outputs=True)
    np.testing.assert_allclose(y, x.astype(float).sum((1, 2)), rtol=1e-5)


def test_a_matrix_that_is_read_once_is_summed_in_lanes() -> None:
    a, x, k = ac.placeholder((256, 512), "a"), ac.placeholder((512,), "x"), ac.reduce_axis(512, "k")
    y = ac.compute((256,), lambda i: ac.sum(a[i, k] * x[k], axis=k), "y")
    assert marked(chosen(a, x, y).stage("y.rf"), Mark.VECTORIZE)[-1] == ("k.1", 16)


def test_an_operand_whose_terms_adjoin_is_packed_across() -> None:
    x, w = ac.placeholder((128, 64), "x"), ac.placeholder((256, 64), "w")
    state = chosen(x, w, ops.dense(x, w, name="y"))
    (axis, _), *_ = marked(state.stage("w.local"), Mark.VECTORIZE)
    assert axis == "ax0"  # w[j, k] lies as w.local[j0, k, j1]


def attention(n: int, m: int, *, causal: bool, masked: bool = False) -> tuple[ac.Tensor, ...]:
    q, k, v = (ac.placeholder((2, 3, e, 16), name) for e, name in ((n, "q"), (m, "k"), (m, "v")))
    if not masked:
        return q, k, v, ops.attention(q, k, v, causal=causal, name="y")
    lengths, mask = ac.placeholder((2,), "n", "int64"), ac.placeholder((1, n, m), "m", "bool")
    found = ops.attention(q, k, v, causal=causal, lengths=lengths, mask=mask, name="y")
    return q, k, v, lengths, mask, found


@pytest.mark.parametrize("options", [{"causal": False}, {"causal": True}])
def test_scores_of_a_few_rows_are_held_at_a_time(options: dict[str, bool]) -> None:
    state = chosen(*attention(512, 512, **options))
    block = str(state.stage("y.scores").attach)
    assert block == str(state.stage("y.mix").attach) == str(state.stage("y.exp").attach)
    rows = state.stage("y.scores").region[2]
    assert isinstance(rows, int)
    assert rows <= 128


def test_one_row_of_one_head_is_no_block_of_rows() -> None:
    q, k, v = (
        ac.placeholder((1, 1, e, 39), name) for e, name in ((1, "q"), (100, "k"), (100, "v"))
    )
    dag = ComputeDAG([q, k, v, ops.attention(q, k, v, name="y")])
    check_meaning(dag, default_steps(dag, ZEN4))


def test_a_search_finds_it_too() -> None:
    names = [
        sketch.name for sketch in generate(ComputeDAG(attention(64, 64, causal=True)), ZEN4, RULES)
    ]
    assert "tile y.scores and y.mix in rows of y" in names


def test_products_behind_a_causal_mask_are_left_out() -> None:
    dag = ComputeDAG(attention(40, 40, causal=True))
    state = replay(dag, default_steps(dag, ZEN4))
    (mix,), (scores,) = (find_needs(state, state.stage(name)) for name in ("y.mix", "y.scores"))
    assert (mix.total.terms, scores.total.terms) == ({"r": 1, "i": -1}, {"m": 1, "i": -1})
    assert mix.most == scores.most == const(0)
    assert re.search(r"if m.0 \* \d+ \+ .* <= 0:", to_text(lower(state)))
    check_meaning(dag, state.steps)


def test_padding_is_no_reason_to_leave_tiles_out() -> None:
    x, w = ac.placeholder((1, 14, 14, 8), "x"), ac.placeholder((3, 3, 8, 8), "w")
    state = schedule(ComputeDAG([x, w, ops.conv2d(x, w, padding=1, name="y")]))
    assert find_needs(state, state.stage("y")) == ()


def ragged(shape: tuple[int, ...], dtype: str, *, causal: bool = False) -> ComputeDAG:
    """Attention of [batch, heads, queries, keys, width], each sequence of a length of its own."""
    batch, heads, n, m, width = shape
    q, k, v = (
        ac.placeholder((batch, heads, e, width), t) for e, t in ((n, "q"), (m, "k"), (m, "v"))
    )
    lengths = ac.placeholder((batch,), "n", dtype)
    found = ops.attention(q, k, v, lengths=lengths, causal=causal, name="y")
    return ComputeDAG([q, k, v, lengths, found])


def test_products_beyond_the_length_of_a_sequence_are_left_out() -> None:
    dag = ragged((2, 3, 1, 1024, 64), "int32")
    state = replay(dag, default_steps(dag, ZEN4))
    for name, axis in (("y.mix", "r"), ("y.scores", "m")):
        (need,) = find_needs(state, state.stage(name))
        assert (need.total.terms, need.total.constant) == ({axis: 1}, 1)
        assert free_vars(need.most) == {"b"}
    loops = to_text(lower(state))
    assert re.search(r"if r.0 \* \d+ \+ 1 <= .*n\[", loops)
    assert re.search(r"if .*m.0 .*\* \d+ \+ 1 <= .*n\[", loops)


def test_what_is_left_out_follows_from_inputs_alone() -> None:
    """What a stage computes may not be there yet, or in another place."""
    n = ac.placeholder((4,), "n", "int64")
    x, k = ac.placeholder((4, 64), "x"), ac.reduce_axis(64, "k")
    more = ac.compute((4,), lambda b: n[b] + 1, "more")
    kept = ac.compute((4, 64), lambda b, i: ac.if_then_else(i < more[b], x[b, i], 0.0), "kept")
    total = ac.compute((4,), lambda b: ac.sum(kept[b, k], axis=k), "y")
    state = schedule(ComputeDAG([n, x, total]))
    assert find_needs(state, state.stage("y")) == ()


@pytest.mark.parametrize("dtype", sampled(["int32", "int64", "uint8", "uint64"], ["int64"]))
def test_sequences_of_any_length_are_right(dtype: str) -> None:
    rng = np.random.default_rng()
    for causal in (False, True):
        batch, heads, n, m, width = (int(rng.integers(1, most)) for most in (5, 4, 40, 300, 40))
        dag = ragged((batch, heads, n, m, width), dtype, causal=causal)
        sketches = generate(dag, ZEN4, RULES)
        drawn = place_stages(sketches[int(rng.integers(len(sketches)))], 1)[0]
        of_search = steps(drawn, sample(drawn, 1, rng)[0])
        q, k, v = (rng.standard_normal(t.shape).astype(np.float32) for t in dag.inputs[:3])
        low = 0 if dtype.startswith("u") else -3
        counts = rng.integers(low, min(m + 5, 255), batch).astype(dtype)
        visible = np.arange(m) < counts.astype(np.int64)[:, None, None, None]
        visible = visible & (np.tri(n, m, dtype=bool) | (not causal))
        scores = np.einsum("bhnk,bhmk->bhnm", q.astype(float), k) / np.sqrt(width)
        wanted = weights(np.where(visible, scores, -np.inf)) @ v
        for chosen_steps in (default_steps(dag, ZEN4), of_search):
            try:
                found = ac.build(replay(dag, chosen_steps))(q, k, v, counts)
            except BuildError as refusal:  # of a random program, which may unroll too much
                if chosen_steps is of_search and "would write out" in str(refusal):
                    continue
                raise
            np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


@cache
def built_ragged() -> ac.Module:
    return ac.build(ragged((1, 2, 3, 130, 8), "int64"))


@pytest.mark.parametrize("length", [-(2**63), -1, 0, 1, 37, 2**63 - 1])
def test_no_length_overflows(length: int) -> None:
    q, k, v = (np.ones((1, 2, extent, 8), np.float32) for extent in (3, 130, 130))
    found = built_ragged()(q, k, v, np.array([length]))
    np.testing.assert_allclose(found, np.full_like(found, length > 0), rtol=1e-6)


def weights(scores: Array) -> Array:
    """Softmax along the last axis, zeros where nothing is seen."""
    with np.errstate(invalid="ignore"):
        raised = np.exp(scores - np.nan_to_num(scores.max(-1, keepdims=True), neginf=0.0))
    total = raised.sum(-1, keepdims=True)
    return raised / np.where(total == 0, 1, total)


@pytest.mark.parametrize(
    ("n", "m", "options"),
    [(1, 200, {"causal": False}), (64, 130, {"causal": False}), (37, 64, {"causal": True})],
)
def test_keys_that_are_masked_do_not_count(n: int, m: int, options: dict[str, bool]) -> None:
    tensors = attention(n, m, masked=True, **options)
    rng = np.random.default_rng()
    q, k, v = (rng.standard_normal(t.shape).astype(np.float32) for t in tensors[:3])
    counts, seen = np.array([rng.integers(1, m + 1), 0]), rng.random((1, n, m)) < 0.7
    found = ac.build(ComputeDAG(tensors))(q, k, v, counts, seen)
    visible = seen & (np.arange(m) < counts[:, None, None, None])
    visible &= np.tri(n, m, dtype=bool) | (not options["causal"])
    scores = np.einsum("bhnk,bhmk->bhnm", q.astype(float), k) / 4
    wanted = weights(np.where(visible, scores, -np.inf)) @ v
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)
    assert not found[1].any()
