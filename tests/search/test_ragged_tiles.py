"""Tile lengths that do not divide: which, in what tables, and programs that are still right."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorc.ir.interpret import interpret
from ansorc.lang.reference import evaluate
from ansorc.schedule import lower, replay
from ansorc.search.evolution.sampling import sample
from ansorc.search.evolution.variation import mutate
from ansorc.search.options import PAPER
from ansorc.search.space import design_space, encode, extract, extract_state, steps, tiles
from ansorc.search.tiles import ragged_lengths, tile_counts, tile_table
from tests.search.small_dags import TARGET, matmul
from tests.support.nightly import examples


@given(st.integers(1, 2000), st.integers(2, 64), st.sampled_from([0, 8, 16]))
def test_lengths_leave_a_small_tail_uncomputed(extent: int, limit: int, lanes: int) -> None:
    for length in ragged_lengths(extent, limit, lanes):
        assert 1 < length <= min(limit, extent)
        assert extent % length
        assert lanes == 0 or length % lanes == 0


def test_which_lengths() -> None:
    assert ragged_lengths(512, 64, 0) == (5, 6, 7, 10, 12, 14)
    assert ragged_lengths(512, 512, 16) == (48,)
    assert ragged_lengths(7, 64, 0) == ()
    assert ragged_lengths(13, 64, 0) == (7,)
    assert ragged_lengths(197, 512, 16) == (16, 32, 48, 64)
    assert tile_counts(512, 6) == [86, 90]
    assert tile_counts(13, 7) == [2]


@given(st.integers(5, 700), st.integers(2, 4), st.sampled_from([0, 8]))
@examples(9, nightly=40)
def test_tables_cover_the_extent(extent: int, levels: int, lanes: int) -> None:
    ragged = ragged_lengths(extent, 64, lanes)
    table = tile_table(extent, levels, 64, ragged)
    whole = table.rows.prod(axis=1)
    assert {int(n) for n in table.rows[whole != extent][:, -1]} == set(ragged)
    counts = table.rows[:, :-1].prod(axis=1)
    least = -(-extent // table.rows[:, -1])
    assert ((counts >= least) & (16 * counts <= 17 * least)).all()
    assert len(np.unique(table.rows, axis=0)) == len(table)
    pairs = set(zip(*(side.tolist() for side in table.pairs()), strict=True))
    assert pairs == {(there, here) for here, there in pairs}
    for here, there in list(pairs)[:200]:
        changed = np.flatnonzero(table.rows[here] != table.rows[there]).tolist()
        assert len(changed) == 2 or (changed == [levels - 1]) or levels == 2


def test_the_paper_has_divisors_only() -> None:
    for sketch in design_space(matmul(26, 40, 12), TARGET, PAPER).sketches:
        assert not any(variable.ragged for variable in sketch.variables)


@pytest.mark.parametrize("shape", [(13, 23, 5), (29, 40, 7)])
def test_programs_with_tails(shape: tuple[int, int, int]) -> None:
    """Features of a row are those of its program, genes are found again, and values are right."""
    dag = matmul(*shape)
    rng = np.random.default_rng(1)
    inputs = [rng.integers(-3, 4, b.shape).astype(b.dtype.numpy) for b in dag.inputs]
    expected = evaluate(dag, [x.astype(np.float64) for x in inputs])[0]
    ragged = 0
    for sketch in design_space(dag, TARGET).sketches[:4]:
        genes = mutate(sketch, sample(sketch, 40, rng), rng)
        is_ragged = np.zeros(len(genes), dtype=bool)
        for variable in sketch.variables:
            lengths = tiles(sketch, genes)[variable.name]
            is_ragged |= lengths.prod(axis=1) != variable.extent
        chosen = genes[is_ragged][:4]
        together = extract(sketch, chosen, TARGET)
        for row, features in zip(chosen, together, strict=True):
            program = steps(sketch, row)
            state = replay(dag, program)
            np.testing.assert_allclose(extract_state(state, TARGET)[0], features, rtol=1e-5)
            again = encode(sketch, program)
            assert again is not None
            assert steps(sketch, again) == program
            found = [*inputs, np.full(expected.shape, 99, dag.params[-1].dtype.numpy)]
            interpret(lower(state), found, fresh_outputs=True)
            np.testing.assert_array_equal(found[-1], expected)
        ragged += len(chosen)
    assert ragged >= 6
