"""Populations as arrays: every row is a legal program that computes what it should."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorc.lang import ComputeDAG
from ansorc.schedule import replay
from ansorc.schedule.stage import Mark
from ansorc.search.cpu.register_tiles import is_micro_kernel, register_vectors
from ansorc.search.cpu.rules import RULES
from ansorc.search.evolution.sampling import sample
from ansorc.search.evolution.variation import mutate
from ansorc.search.options import PAPER, SearchOptions
from ansorc.search.sketch import ParallelLoops, Sketch, generate, place_stages
from ansorc.search.space import (
    choice_values,
    design_space,
    population_state,
    steps,
    tiles,
)
from ansorc.target import Target
from tests.search.small_dags import (
    DAGS,
    TARGET,
    ZEN3,
    check_meaning,
    conv_layer,
    matmul,
    space_of,
)
from tests.support.nightly import also_nightly, amount, examples

OPTIONS = SearchOptions()
BIG = matmul(512, 512, 512)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def plain_matmul(target: Target = TARGET) -> Sketch:
    return place_stages(generate(BIG, target, RULES)[2], 1)[0]


def sketches_of(dag: ComputeDAG) -> tuple[Sketch, ...]:
    return design_space(dag, TARGET).sketches


def sketches_named(name: str) -> tuple[Sketch, ...]:
    return space_of(name).sketches


@given(st.sampled_from(sorted(DAGS)), st.integers(0, 2**32 - 1))
@examples(12, nightly=60)
def test_every_row_is_a_program_with_the_right_result(name: str, seed: int) -> None:
    source = rng(seed)
    sketches = sketches_named(name)
    sketch = sketches[source.integers(len(sketches))]
    parents = sample(sketch, 3, source)
    children = mutate(sketch, parents, source)
    row = np.concatenate([parents[:1], children[:1]])[source.integers(2)]
    check_meaning(DAGS[name], steps(sketch, row))


@also_nightly
@pytest.mark.parametrize("name", DAGS)
def test_rows_replay_to_the_extents_of_the_population(name: str) -> None:
    for sketch in sketches_named(name)[: amount(2, 6)]:
        genes = sample(sketch, 5, rng())
        together = population_state(sketch, genes)
        for number, row in enumerate(genes):
            alone = replay(sketch.dag, steps(sketch, row)[: len(sketch.steps)])
            for one, many in zip(alone.stages, together.stages, strict=True):
                for it, population in zip(one.iterators, many.iterators, strict=True):
                    extents = np.broadcast_to(np.asarray(population.extent), (5,))
                    assert it.extent == extents[number]


def test_tiles_multiply_to_their_extents() -> None:
    sketch = plain_matmul()
    for name, lengths in tiles(sketch, sample(sketch, 200, rng())).items():
        assert lengths.shape == (200, 2 if name == "C.k" else 4)
        ragged = 512 % lengths[:, -1] > 0
        assert not ragged.all()
        assert ragged.any() == (name != "C.k")
        assert (lengths[~ragged].prod(axis=1) == 512).all()
        tiles_needed = -(-512 // lengths[:, -1])
        counts = lengths[:, :-1].prod(axis=1)
        assert (counts >= tiles_needed).all()
        assert (16 * counts <= 17 * tiles_needed).all()


@pytest.mark.parametrize("options", [OPTIONS, PAPER], ids=["default", "paper"])
def test_register_tiles_are_bounded(options: SearchOptions) -> None:
    for sketch in design_space(conv_layer(56, 64, 64), TARGET, options).sketches[::4]:
        genes = sample(sketch, 2000, rng(), options)
        for _ in range(4):
            for tile in sketch.register_tiles:
                vectors = register_vectors(sketch, tile, genes)
                assert vectors.max() <= 2 * TARGET.vector_registers
            genes = mutate(sketch, genes, rng(1), options)


def test_vectors_are_full_more_often_than_in_the_paper() -> None:
    sketch = plain_matmul(ZEN3)

    def full_share(options: SearchOptions) -> float:
        inner = tiles(sketch, sample(sketch, 4000, rng(), options))["C.j"][:, -1]
        return float((inner % 8 == 0).mean())

    assert full_share(OPTIONS) > 0.8
    assert full_share(PAPER) < 0.6


@pytest.mark.parametrize(("cpu", "uniform"), [("znver3", 0.3), ("znver4", 0.35)])
def test_most_register_tiles_keep_the_units_busy_and_spill_nothing(
    cpu: str, uniform: float
) -> None:
    target = Target.parse(f"x86_64-linux-gnu -mcpu={cpu} -cores=2")
    sketch = next(s for s in design_space(BIG, target).sketches if s.name == "tile C")
    tile = sketch.register_tiles[0]

    def share(options: SearchOptions) -> float:
        return float(is_micro_kernel(sketch, tile, sample(sketch, 2000, rng(), options)).mean())

    assert share(OPTIONS) > 0.5
    assert share(replace(OPTIONS, is_simd_aware=False)) < uniform


def test_micro_kernels() -> None:
    sketch = plain_matmul(ZEN3)
    genes = sample(sketch, 5000, rng(), replace(OPTIONS, is_simd_aware=False))
    inner = {name: rows[:, -1] for name, rows in tiles(sketch, genes).items()}
    rows, vectors = inner["C.i"], inner["C.j"] // 8
    whole = inner["C.j"] % 8 == 0
    wanted = (rows * vectors >= 8) & (rows * vectors + vectors + 1 <= 16)
    found = is_micro_kernel(sketch, sketch.register_tiles[0], genes)
    assert (found == wanted)[whole].all()
    assert found[whole].any()


def test_uniform_sampling_is_uniform() -> None:
    sketch = plain_matmul()
    outer = tiles(sketch, sample(sketch, 20_000, rng(), replace(PAPER, max_register_ratio=1e9)))
    _, counts = np.unique(outer["C.i"], axis=0, return_counts=True)
    assert counts.min() > 0.5 * counts.mean()
    assert counts.max() < 1.6 * counts.mean()


def test_most_programs_use_all_cores() -> None:
    sketch = plain_matmul(ZEN3)
    genes = sample(sketch, 1000, rng())
    choice = next(c for c in sketch.choices if isinstance(c, ParallelLoops))
    counts = choice_values(sketch, genes)[choice.name]
    lengths = tiles(sketch, genes)
    outer = [lengths[f"C.{axis}"][:, level] for level in (0, 1) for axis in "ij"]
    chunks = np.ones(1000)
    for place, extent in enumerate(outer):
        chunks = np.where(place < counts, chunks * extent, chunks)
    assert (chunks >= ZEN3.cores).mean() > 0.85
    assert 0 < (counts == 0).mean() < 0.15


def test_mutation_changes_one_or_two_genes() -> None:
    sketch = plain_matmul()
    parents = sample(sketch, 3000, rng())
    changed = (mutate(sketch, parents, rng(1)) != parents).sum(axis=1)
    assert changed.max() <= 2
    assert (changed == 1).mean() > 0.6
    assert (changed == 0).mean() < 0.1


def test_mutation_reaches_every_gene() -> None:
    sketch = plain_matmul()
    parents = sample(sketch, 3000, rng())
    changed = (mutate(sketch, parents, rng(1)) != parents).any(axis=0)
    assert changed.all()


def test_the_same_seed_draws_the_same_rows() -> None:
    sketch = plain_matmul()
    assert np.array_equal(sample(sketch, 50, rng(3)), sample(sketch, 50, rng(3)))
    assert not np.array_equal(sample(sketch, 50, rng(3)), sample(sketch, 50, rng(4)))


def test_a_sketch_without_variables_has_rows_too() -> None:
    sketch = sketches_named("transpose")[0]
    genes = sample(sketch, 4, rng())
    assert mutate(sketch, genes, rng()).shape == genes.shape


def test_nothing_is_attached_inside_a_vectorised_loop() -> None:
    for sketches in map(sketches_named, DAGS):
        for sketch in sketches:
            state = replay(sketch.dag, sketch.steps)
            for stage in state.stages:
                for place, iterator in enumerate(stage.iterators):
                    if iterator.mark is Mark.VECTORIZE:
                        inner = stage.iterators[place:]
                        assert not any(state.stages_inside(stage.name, it.name) for it in inner)
