"""Children with two parents, and programs that move to other sketches: legal, and true to both."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorc.search.cpu.register_tiles import register_vectors
from ansorc.search.evolution.sampling import sample
from ansorc.search.evolution.variation import (
    MISSING,
    Offspring,
    Parents,
    Variation,
    neighbourhood_of,
    translate,
)
from ansorc.search.options import SearchOptions
from ansorc.search.space import Genes, Space, extract, steps, tiles
from ansorc.search.space.nodes import Gene, nodes_of
from tests.search.small_dags import DAGS, TARGET, check_meaning, space_of
from tests.support.nightly import examples

OPTIONS = SearchOptions()


def variation(name: str, seed: int = 0, options: SearchOptions = OPTIONS) -> Variation:
    return Variation(space_of(name), np.random.default_rng(seed), options)


def parents(name: str, number: int, rows: int, rng: np.random.Generator) -> Parents:
    """Random programs of a sketch with random times of their statements."""
    sketch = space_of(name).sketches[number]
    genes = sample(sketch, rows, rng)
    count = extract(sketch, genes[:1], TARGET).shape[1]
    return Parents(number, genes, rng.random((rows, count)))


def number_of(name: str, words: str) -> int:
    return next(n for n, s in enumerate(space_of(name).sketches) if s.name == words)


def node_tiles(space: Space, group: Offspring) -> dict[Gene, np.ndarray]:
    """The lengths of each axis of each node."""
    sketch = space.sketches[group[0]]
    lengths = tiles(sketch, group[1])
    genes = nodes_of(sketch).genes
    return {genes[n]: lengths[v.name] for n, v in enumerate(sketch.variables)}


def require_legal(name: str, group: Offspring) -> None:
    sketch = space_of(name).sketches[group[0]]
    for tile in sketch.register_tiles:
        vectors = register_vectors(sketch, tile, group[1])
        assert (vectors <= OPTIONS.max_register_ratio * TARGET.vector_registers).all()
    for row in group[1][:2]:
        check_meaning(DAGS[name], steps(sketch, row))


@given(st.sampled_from(sorted(DAGS)), st.integers(0, 2**32 - 1))
@examples(5, nightly=25)
def test_children_of_any_two_sketches_are_right(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = len(space_of(name).sketches)
    ones, others = (parents(name, int(rng.integers(count)), 3, rng) for _ in range(2))
    for group in variation(name, seed).cross(ones, others):
        require_legal(name, group)


@given(st.sampled_from(sorted(DAGS)), st.integers(0, 2**32 - 1))
@examples(5, nightly=25)
def test_programs_are_right_in_another_sketch(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = (int(n) for n in rng.integers(len(space_of(name).sketches), size=2))
    genes = sample(space_of(name).sketches[one], 3, rng)
    require_legal(name, (other, variation(name, seed).migrate((one, genes), other)))


@pytest.mark.parametrize("name", ["two_matmuls", "conv_layer", "dense_gelu", "capsule"])
def test_each_node_of_a_child_is_that_of_a_parent(name: str) -> None:
    rng = np.random.default_rng(1)
    space = space_of(name)
    seen = 0
    for one, other in rng.integers(len(space.sketches), size=(12, 2)).tolist():
        ones, others = parents(name, one, 30, rng), parents(name, other, 30, rng)
        sources = [_rows_of(space, (p.sketch, p.genes)) for p in (ones, others)]
        for group in variation(name).cross(ones, others):
            for axis, rows in _rows_of(space, group).items():
                known = sources[0].get(axis, set()) | sources[1].get(axis, set())
                both = all(_has_table(space, p.sketch, group[0], axis) for p in (ones, others))
                if known and both:
                    assert rows <= known
                    seen += 1
    assert seen > 10


def _rows_of(space: Space, group: Offspring) -> dict[Gene, set[tuple[int, ...]]]:
    found = node_tiles(space, group)
    return {axis: {tuple(row) for row in rows.tolist()} for axis, rows in found.items()}


def _has_table(space: Space, source: int, target: int, axis: Gene) -> bool:
    """Whether both sketches divide `axis` alike."""
    tables = [
        [
            (v.extent, v.levels, v.innermost_limit, v.ragged)
            for v, gene in zip(
                space.sketches[n].variables, nodes_of(space.sketches[n]).genes, strict=False
            )
            if gene == axis
        ]
        for n in (source, target)
    ]
    return tables[0] == tables[1] != []


def test_a_child_has_the_faster_statement_of_each_node() -> None:
    number = number_of("two_matmuls", "tile E, tile C")
    sketch = space_of("two_matmuls").sketches[number]
    rng = np.random.default_rng(0)
    ones, others = (
        Parents(number, sample(sketch, 50, rng), np.tile(times, (50, 1)))
        for times in ([1.0, 4.0], [2.0, 3.0])
    )
    greedy = variation("two_matmuls", options=SearchOptions(crossover_chance=0.0))
    ((same, children),) = greedy.cross(ones, others)
    assert same == number
    for column, name in enumerate(sketch.columns):
        origin = ones if "C" in name else others
        is_child = (children[:, None, column] == origin.genes[None, :, column]).any()
        assert is_child
    whole = {tuple(row) for row in children.tolist()}
    of_c = [n for n, name in enumerate(sketch.columns) if "C" in name]
    expected = others.genes.copy()
    expected[:, of_c] = ones.genes[:, of_c]
    assert whole <= {tuple(row) for row in expected.tolist()}
    assert len(whole) > 40


def test_the_place_of_a_stage_and_the_tile_of_another_come_together() -> None:
    """Padding at its place in one parent, the tiles of the other: the sketch that has both."""
    space = space_of("conv_layer")
    neighbourhood = neighbourhood_of(space)
    nodes = neighbourhood.nodes
    pad = nodes[0].names.index("conv.pad")
    made = 0
    for one in range(len(space.sketches)):
        for other in neighbourhood.relocated[one]:
            pattern = [place == pad for place in range(len(nodes[0].names))]
            assert neighbourhood.recombine(one, other, pattern) == other
            made += 1
    assert made > 4


def test_a_place_in_a_tile_of_another_structure_is_matched() -> None:
    space = space_of("conv_layer")
    neighbourhood = neighbourhood_of(space)
    fused = next(n for n, s in enumerate(space.sketches) if "conv in relu at 1" in s.name)
    plain = [n for n, s in enumerate(space.sketches) if "conv in" not in s.name]
    pad = neighbourhood.nodes[0].names.index("conv.pad")
    pattern = [place == pad for place in range(len(neighbourhood.nodes[0].names))]
    matched = 0
    for number in plain:
        merged = neighbourhood.recombine(fused, number, pattern)
        words = space.sketches[number].name.rpartition(", ")[2]
        if "inline" in words or "root" in words:
            assert merged is not None
            assert space.sketches[merged].name.endswith(words)
            assert "conv in relu at 1" in space.sketches[merged].name
            matched += 1
    assert matched == 4


@pytest.mark.parametrize("name", ["conv_layer", "softmax", "two_matmuls", "matmul"])
def test_relocated_sketches_differ_in_one_place(name: str) -> None:
    neighbourhood = neighbourhood_of(space_of(name))
    for one, numbers in enumerate(neighbourhood.relocated):
        for number in numbers:
            assert one in neighbourhood.relocated[number]
            pairs = zip(
                neighbourhood.nodes[one].parts, neighbourhood.nodes[number].parts, strict=True
            )
            assert sum(a != b for a, b in pairs) == 1
            assert number not in neighbourhood.reachable[one]


def test_a_move_keeps_the_tile() -> None:
    """A stage computed elsewhere, or a tile that is fused: the tile lengths stay what they were."""
    space = space_of("conv_layer")
    neighbourhood, rng = neighbourhood_of(space), np.random.default_rng(3)
    kept = 0
    for one, sketch in enumerate(space.sketches):
        genes = sample(sketch, 20, rng)
        for number in (*neighbourhood.relocated[one], *neighbourhood.reachable[one]):
            before, after = (
                _rows_of(space, group)
                for group in (
                    (one, genes), (number, variation("conv_layer").migrate((one, genes), number))
                )
            )  # fmt: skip
            for axis in before.keys() & after.keys():
                if _has_table(space, one, number, axis):
                    assert after[axis] <= before[axis]
                    kept += 1
    assert kept > 50


def test_what_a_sketch_does_not_have_is_missing() -> None:
    space = space_of("conv_layer")
    root = next(n for n, s in enumerate(space.sketches) if "conv.pad at root" in s.name)
    inlined = next(n for n, s in enumerate(space.sketches) if "inline conv.pad" in s.name)
    source, target = space.sketches[inlined], space.sketches[root]
    genes: Genes = sample(source, 5, np.random.default_rng(0))
    column = target.columns.index("parallel:conv.pad")
    found = translate(source, target, genes)
    assert (found[:, column] == MISSING).all()
    assert (np.delete(found, column, axis=1) != MISSING).all()
