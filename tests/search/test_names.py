"""Names decide nothing: what is searched, keyed and recorded is the same under any of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

import ansorc.lang as ac
from ansorc.errors import LanguageError
from ansorc.lang import operators as ops
from ansorc.schedule import Hole, Names, Step, lower, replay
from ansorc.schedule.steps import Split
from ansorc.search.default import default_steps
from ansorc.search.evolution.sampling import sample
from ansorc.search.evolution.variation import mutate
from ansorc.search.sketch import Sketch
from ansorc.search.space import design_space, extract, phenotype_keys, steps
from ansorc.search.space.nodes import nodes_of
from ansorc.search.task import Task
from ansorc.target import Target
from tests.search.every_operator import NAMES, computation
from tests.search.other_names import hostile

TARGETS = tuple(
    Target.parse(text)
    for text in (
        "x86_64-linux-gnu -mcpu=znver1 -cores=2",
        "x86_64-linux-gnu -mcpu=znver3 -cores=8",
        "x86_64-linux-gnu -mcpu=sapphirerapids -cores=4",
        "x86_64-linux-gnu -mcpu=znver4 -cores=1",
        "aarch64-linux-gnu -mcpu=cortex-a76 -cores=4",
        "aarch64-linux-gnu -mcpu=neoverse-v1 -cores=16",
    )
)
PROGRAMS = 300


def check(dag: ac.ComputeDAG, target: Target, programs: int, most: int = 1000) -> None:
    """Search `dag` and the same under other names.

    `programs` of at most `most` of the sketches are compared, or a few more.
    """
    other = hostile(dag)
    assert dag.canonical == other.canonical
    assert Task(dag, target).key == Task(other, target).key
    ones, others = design_space(dag, target), design_space(other, target)
    assert not ones.failures
    assert not others.failures
    assert len(ones.sketches) == len(others.sketches)
    pairs = list(zip(ones.sketches, others.sketches, strict=True))
    chosen = pairs[:: -(-len(pairs) // most)]
    for one, two in chosen:
        check_sketches(one, two)
        check_programs(one, two, -(-programs // len(chosen)))
    assert relations([one for one, _ in chosen]) == relations([two for _, two in chosen])


def check_sketches(one: Sketch, two: Sketch) -> None:
    assert structure(one) == structure(two)
    variables = (
        [(v.extent, v.levels, v.innermost_limit, v.lanes, v.ragged, v.whole) for v in s.variables]
        for s in (one, two)
    )
    assert next(variables) == next(variables)
    assert [c.values for c in one.choices] == [c.values for c in two.choices]
    assert [a.rule for a in one.derivation] == [a.rule for a in two.derivation]


def structure(sketch: Sketch) -> list[Step]:
    """The steps under canonical names, and the tile variables of their holes numbered."""
    numbers = {variable.name: f"v{n}" for n, variable in enumerate(sketch.variables)}
    return [
        replace(
            step,
            lengths=tuple(
                replace(length, variable=numbers[length.variable])
                if isinstance(length, Hole)
                else length
                for length in step.lengths
            ),
        )
        if isinstance(step, Split)
        else step
        for step in Names(sketch.dag).to_canonical(sketch.steps)
    ]


def check_programs(one: Sketch, two: Sketch, rows: int) -> None:
    first, second = (drawn(sketch, rows) for sketch in (one, two))
    assert np.array_equal(first, second)
    assert np.array_equal(phenotype_keys(one, first), phenotype_keys(two, second))
    for ours, theirs in zip(
        extract(one, first, one.target), extract(two, second, two.target), strict=True
    ):
        assert np.array_equal(ours, theirs, equal_nan=True)
    recorded = Names(one.dag).to_canonical(steps(one, first[0]))
    program = steps(two, second[0])
    assert Names(two.dag).from_canonical(recorded) == program
    params = lower(replay(two.dag, program)).params
    wanted = lower(replay(one.dag, steps(one, first[0]))).params
    assert [(b.shape, b.dtype) for b in params] == [(b.shape, b.dtype) for b in wanted]


def drawn(sketch: Sketch, rows: int) -> np.ndarray:
    rng = np.random.default_rng(rows)
    genes = sample(sketch, rows, rng)
    return np.concatenate([genes, mutate(sketch, genes, rng)])


def relations(sketches: Sequence[Sketch]) -> list[tuple[object, ...]]:
    """How the sketches of a space are related, without names."""
    plans = [nodes_of(sketch) for sketch in sketches]
    return [
        (
            plan.owners.tolist(),
            plan.statements.tolist(),
            plan.is_tiled,
            [other.parts == plan.parts for other in plans],
            [other.loose() == plan.loose() for other in plans],
            [[gene in other.genes for gene in plan.genes] for other in plans],
        )
        for plan in plans
    ]


@pytest.mark.parametrize(("place", "name"), list(enumerate(NAMES))[::3], ids=NAMES[::3])
def test_a_search_goes_by_no_name(place: int, name: str) -> None:
    check(computation(name), TARGETS[place % len(TARGETS)], 1, most=2)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_a_search_goes_by_no_name_at_length(name: str, target: Target) -> None:
    check(computation(name), target, PROGRAMS)
    check_default(computation(name), target)


def check_default(dag: ac.ComputeDAG, target: Target) -> None:
    found: list[Sequence[Step]] = [
        Names(each).to_canonical(default_steps(each, target)) for each in (dag, hostile(dag))
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "name", ["matmul of weights", "softmax", "conv2d", "norm2", "dense_packed"]
)
def test_the_default_goes_by_no_name(name: str) -> None:
    check_default(computation(name), TARGETS[1])


@pytest.mark.parametrize("name", ["i@j", "x.", ".x", "0", "x..y", "a b", ""])
def test_names_that_are_none_are_refused(name: str) -> None:
    with pytest.raises(LanguageError, match="cannot name a tensor"):
        ac.placeholder((4,), name)
    with pytest.raises(LanguageError, match="cannot name an axis"):
        ac.compute((4,), lambda i: 1.0, axes=[name])


@pytest.mark.parametrize("name", ["x.0", "k.local", "i.1"])
def test_an_axis_is_one_word(name: str) -> None:
    with pytest.raises(LanguageError, match="cannot name an axis"):
        ac.compute((4,), lambda i: 1.0, axes=[name])


def test_one_name_is_of_one_tensor() -> None:
    one, two = ac.placeholder((4,), "x"), ac.placeholder((4,), "x")
    out = ac.compute((4,), lambda i: one[i] + two[i], "y")
    with pytest.raises(LanguageError, match="two tensors are called"):
        ac.ComputeDAG([one, two, out])


def test_the_order_of_definition_changes_no_key() -> None:
    lines = [
        "compute left: float32[8, 16] (i: 8, j: 16) = a[i, j] + 1.0",
        "compute right: float32[8, 16] (i: 8, j: 16) = a[i, j] * 2.0",
    ]
    tail = "compute both: float32[8, 16] (i: 8, j: 16) = left[i, j] - right[i, j]"
    head, end = "input a: float32[8, 16]", "params a, both"
    ones, others = (
        ac.ComputeDAG.from_text("\n".join([head, *order, tail, end]) + "\n")
        for order in (lines, lines[::-1])
    )
    assert ones == others
    assert ones.key == others.key
    swapped = ac.ComputeDAG.from_text("\n".join([head, *lines, tail, "params both, a"]) + "\n")
    assert swapped.key != ones.key


def chain() -> ac.ComputeDAG:
    """One so long that a stage computes some of its values before its results."""
    x = ac.placeholder((8, 32), "x")
    value = x
    for number in range(8):
        value = ops.add(value, ops.gelu(value, name=f"gelu{number}"), name=f"sum{number}")
    return ac.ComputeDAG([x, value])


def filtered() -> ac.ComputeDAG:
    """An activation of what Winograd's filter computes in long values."""
    x = ac.placeholder((1, 8, 8, 16), "x")
    w = ac.placeholder((3, 3, 16, 32), "w", constant=True)
    y = ops.conv2d(x, w, padding=1, name="y")
    return ac.ComputeDAG([x, w, ops.relu(y, name="relu")])


@pytest.mark.parametrize("make", [chain, filtered])
def test_temporaries_of_a_stage_have_no_names_either(make: Callable[[], ac.ComputeDAG]) -> None:
    target = TARGETS[0]
    stages = [s for one in design_space(make(), target).sketches for s in one.state.stages]
    assert any(stage.op.temporaries for stage in stages if not stage.is_inlined)
    check(make(), target, PROGRAMS // 10, most=6)
