"""Keys of programs: one key, one program."""

import re
from itertools import combinations

import numpy as np
import pytest

import ansorc as ac
from ansorc.ir.arith.simplify import simplify_stmt
from ansorc.ir.printer import to_text
from ansorc.schedule import lower, replay
from ansorc.search.cpu.rules import RULES
from ansorc.search.evolution.sampling import sample
from ansorc.search.sketch import Sketch, generate, place_stages
from ansorc.search.space import design_space, phenotype_keys, steps
from ansorc.search.space.genes import table_of
from tests.search.small_dags import TARGET, matmul, space_of
from tests.support.nightly import also_nightly, amount


def canonical_text(sketch: Sketch, row: np.ndarray) -> str:
    """The lowered program with its loop variables numbered in order of appearance, and the products
    of its indices first.

    A parallel loop of one iteration may still decide in which memory a tile lies; that is left out.
    """
    text = to_text(simplify_stmt(lower(replay(sketch.dag, steps(sketch, row)))))
    text = re.sub(r"\] local$", "]", text, flags=re.MULTILINE)
    names: dict[str, str] = {}
    for name in re.findall(r"(?<= )([\w.@]+)(?= in 0\.\.)", text):
        names.setdefault(name, f"v{len(names)}")
    text = re.sub(r"[\w.@]+", lambda word: names.get(word[0], word[0]), text)
    return re.sub(r"\b(v\d+) \+ (v\d+ \* \d+)", r"\2 + \1", text)


@also_nightly
@pytest.mark.parametrize("name", ["matmul_odd", "conv1d", "max_pool", "softmax", "dense_gelu"])
def test_equal_keys_mean_equal_programs(name: str) -> None:
    seen = 0
    for sketch in space_of(name).sketches[: amount(2, 4)]:
        genes = np.unique(sample(sketch, 150, np.random.default_rng(0)), axis=0)
        keys = phenotype_keys(sketch, genes)
        for key in np.unique(keys):
            same = genes[keys == key][:4]
            texts = {canonical_text(sketch, row) for row in same}
            assert len(texts) == 1
            seen += len(same) - 1
    assert seen > 0


def test_different_keys_mean_different_programs() -> None:
    sketch = place_stages(generate(matmul(4, 8, 4), TARGET, RULES)[2], 1)[0]
    genes = np.unique(sample(sketch, 60, np.random.default_rng(0)), axis=0)
    keys, places = np.unique(phenotype_keys(sketch, genes), return_index=True)
    texts = [canonical_text(sketch, genes[place]) for place in places]
    equal = sum(a == b for a, b in combinations(texts, 2))
    assert len(keys) > 20
    assert equal <= 0.01 * len(texts) ** 2 / 2


def row_of(sketch: Sketch, lengths: dict[str, list[int]], **choices: int) -> np.ndarray:
    genes = [
        table_of(sketch, variable).find(np.array(lengths[variable.name]))
        for variable in sketch.variables
    ]
    select = [choice.values.index(choices[choice.name[:1]]) for choice in sketch.choices]
    return np.array([[*genes, *select]])


def key_of(lengths: dict[str, list[int]], parallel: int, unroll: int) -> int:
    sketch = place_stages(generate(matmul(64, 64, 64), TARGET, RULES)[2], 1)[0]
    return int(phenotype_keys(sketch, row_of(sketch, lengths, p=parallel, u=unroll))[0])


BASE = {"C.i": [8, 1, 2, 4], "C.j": [1, 1, 8, 8], "C.k": [16, 4]}


def test_a_parallel_loop_of_one_iteration_does_not_count() -> None:
    assert key_of(BASE, 1, 0) == key_of(BASE, 2, 0) == key_of(BASE, 4, 0)
    assert key_of(BASE, 0, 0) != key_of(BASE, 1, 0)


def test_an_unroll_limit_that_reaches_no_further_does_not_count() -> None:
    assert key_of(BASE, 1, 16) == key_of(BASE, 1, 64)
    assert key_of(BASE, 1, 0) != key_of(BASE, 1, 16)
    assert key_of(BASE, 1, 64) != key_of(BASE, 1, 512)


def test_a_loop_in_the_next_level_is_the_same_if_nothing_lies_between() -> None:
    moved = BASE | {"C.j": [1, 2, 4, 8]}
    assert key_of(moved, 1, 0) == key_of(moved | {"C.j": [2, 1, 4, 8]}, 1, 0)
    assert key_of(moved, 1, 0) != key_of(BASE, 1, 0)


def texts_of(names: list[str], rows: int) -> dict[int, set[str]]:
    """The programs of random rows of all sketches of some computations, by key."""
    found: dict[int, set[str]] = {}
    for name in names:
        for sketch in space_of(name).sketches:
            genes = sample(sketch, rows, np.random.default_rng(1))
            for key, row in zip(phenotype_keys(sketch, genes), genes, strict=True):
                found.setdefault(int(key), set()).add(canonical_text(sketch, row))
    return found


@pytest.mark.parametrize("name", ["matmul", "avg_pool", "softmax"])
def test_keys_are_equal_across_sketches_exactly_if_programs_are(name: str) -> None:
    found = texts_of([name], 25)
    assert all(len(texts) == 1 for texts in found.values())
    texts = [next(iter(texts)) for texts in found.values()]
    assert len(set(texts)) == len(texts) > 4


def test_levels_of_one_iteration_make_two_sketches_the_same() -> None:
    """Fused at level 1 or 2: the same loops where level 1 has one iteration of each axis."""
    sketches = [place_stages(generate(matmul(64, 64, 64), TARGET, RULES)[n], 1)[0] for n in (0, 1)]
    assert [s.name for s in sketches] == [
        "cache write C, tile C.local in C at 1", "cache write C, tile C.local in C at 2"
    ]  # fmt: skip
    lengths = {"C.local.i": [8, 1, 2, 4], "C.local.j": [4, 1, 2, 8], "C.local.k": [16, 4]}

    def keys(changed: dict[str, list[int]]) -> list[int]:
        rows = [row_of(sketch, lengths | changed, p=1, u=0) for sketch in sketches]
        texts = [canonical_text(s, r[0]) for s, r in zip(sketches, rows, strict=True)]
        found = [int(phenotype_keys(s, r)[0]) for s, r in zip(sketches, rows, strict=True)]
        assert (texts[0] == texts[1]) == (found[0] == found[1])
        return found

    one, same = keys({})
    assert one == same
    one, other = keys({"C.local.i": [4, 2, 2, 4]})
    assert one != other


def test_a_stage_without_loops_has_a_key() -> None:
    source = ac.placeholder((), name="A")
    dag = ac.ComputeDAG([source, ac.compute((), lambda: source[()] + 1.0, name="B")])
    (sketch,) = design_space(dag, TARGET).sketches
    assert len(phenotype_keys(sketch, sample(sketch, 3, np.random.default_rng(0)))) == 3
