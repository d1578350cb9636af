"""Factors of 16 bits that are widened once: where that is done, and what it computes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.errors import ScheduleError
from ansorc.ir.interpret import interpret
from ansorc.lang.definitions import widened_factors
from ansorc.lang.reference import evaluate
from ansorc.schedule import lower, replay, schedule
from ansorc.schedule.steps import Redefine
from ansorc.search.cpu.rules import RULES, complete_on_cpu, rules_of
from ansorc.search.default import default_steps
from ansorc.search.evolution.sampling import sample
from ansorc.search.options import DEFAULTS, SearchOptions
from ansorc.search.sketch import generate
from ansorc.search.sketch.dot_product import is_tensorized
from ansorc.search.sketch.redefined import is_redefined
from ansorc.search.space import steps
from ansorc.target import Target
from tests.support.narrow_kernels import SPR, ZEN3
from tests.support.nightly import examples

FLOATS = ("float16", "bfloat16")


def product(
    shape: tuple[int, int, int], kinds: tuple[str, str], *, is_constant: bool = False
) -> ac.ComputeDAG:
    rows, columns, depth = shape
    a = ac.placeholder((rows, depth), "A", kinds[0])
    w = ac.placeholder((depth, columns), "W", kinds[1], constant=is_constant)
    return ac.ComputeDAG([a, w, ac.ops.matmul(a, w, "C", sum_dtype="float32")])


def layer(kind: str) -> ac.ComputeDAG:
    x = ac.placeholder((1, 5, 5, 4), "X", kind)
    w = ac.placeholder((3, 3, 4, 9), "W", kind, constant=True)
    y = ac.ops.conv2d(x, w, padding=1, name="Y")  # rounded once, after the sums
    return ac.ComputeDAG([x, w, ac.ops.relu(y, "Z")])


def widened(dag: ac.ComputeDAG) -> list[str]:
    """The tensors that a copy of is in the definition of the sums."""
    (total,) = [op for op in dag.ops if op.reduce_axes]
    made = widened_factors(total)
    return [] if made is None else [op.name for op in made.ops[:-1]]


def test_what_is_widened() -> None:
    assert widened(product((16, 32, 8), ("float16", "float16"))) == ["A.widened", "W.widened"]
    assert widened(product((16, 32, 8), ("bfloat16", "float32"))) == ["A.widened"]
    assert widened(product((16, 32, 8), ("float16", "float16"), is_constant=True)) == ["A.widened"]
    assert widened(product((1, 32, 8), ("float16", "float16"))) == ["A.widened"]
    assert widened(product((16, 32, 8), ("float32", "float32"))) == []
    assert widened(product((2, 4, 8), ("float16", "float16"))) == []  # read for few results
    assert widened(layer("bfloat16")) == ["Y.pad.widened"]


def test_the_sketches_have_copies_instead_of_conversions_in_the_loop() -> None:
    dag = product((32, 32, 32), ("float16", "float16"), is_constant=True)
    sketches = generate(dag, Target.parse(ZEN3), RULES)
    assert all(sketch.name.startswith("widen the factors of C") for sketch in sketches)
    assert not any(map(is_redefined, sketches))  # the arithmetic is that of the definition
    plain = generate(dag, Target.parse(ZEN3), rules_of(SearchOptions(redefine=False)))
    assert not any("widen" in sketch.name for sketch in plain)


@pytest.mark.parametrize("kind", FLOATS)
def test_the_untuned_default_reads_the_copy(kind: str) -> None:
    dag = product((64, 64, 64), (kind, kind), is_constant=True)
    state = replay(dag, default_steps(dag, Target.parse(ZEN3)))
    assert next(stage.name for stage in state.stages if not stage.is_inlined) == "A.widened"


def test_an_instruction_for_the_factors_comes_first() -> None:
    dag = product((64, 64, 64), ("bfloat16", "bfloat16"), is_constant=True)
    assert any(is_tensorized(sketch) for sketch in generate(dag, Target.parse(SPR), RULES))
    steps_there = default_steps(dag, Target.parse(SPR))
    assert not any(isinstance(step, Redefine) for step in steps_there)


def test_winograd_reads_the_copy_too() -> None:
    x = ac.placeholder((1, 16, 16, 64), "X", "bfloat16")
    w = ac.placeholder((3, 3, 64, 64), "W", constant=True)
    dag = ac.ComputeDAG([x, w, ac.ops.conv2d(x, w, padding=1, name="Y", sum_dtype="float32")])
    names = [sketch.name for sketch in generate(dag, Target.parse(ZEN3), RULES)]
    assert any("widen the factors of Y, winograd Y" in name for name in names)
    made = default_steps(dag, Target.parse(ZEN3))
    definitions = [step.definition for step in made if isinstance(step, Redefine)]
    assert definitions[0] == "widened"
    assert definitions[1:]
    assert set(definitions[1:]) <= {"winograd", "winograd4"}


def test_other_sums_are_refused() -> None:
    dag = product((16, 32, 8), ("float32", "float32"))
    with pytest.raises(ScheduleError, match="no sum in float32 of products of float16"):
        Redefine("C", "widened").apply(schedule(dag))


@examples(4, nightly=200)
@given(
    st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(1, 12)),
    st.sampled_from([("float16", "float16"), ("bfloat16", "float16"), ("bfloat16", "float32")]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_programs_compute_what_the_definition_says(
    shape: tuple[int, int, int],
    kinds: tuple[str, str],
    is_constant: bool,  # noqa: FBT001
    seed: int,
) -> None:
    check_programs(product(shape, kinds, is_constant=is_constant), seed)


@pytest.mark.parametrize("kind", FLOATS)
def test_layers_compute_what_the_definition_says(kind: str) -> None:
    check_programs(layer(kind), seed=1)


def check_programs(dag: ac.ComputeDAG, seed: int) -> None:
    """Run a random program of the space by the interpreter and as machine code."""
    rng = np.random.default_rng(seed)
    derived = generate(dag, Target.parse(ZEN3), rules_of(DEFAULTS))
    wholes = [w for _, made in complete_on_cpu(derived, DEFAULTS) for w in made]
    sketch = wholes[int(rng.integers(len(wholes)))]
    program = steps(sketch, sample(sketch, 1, rng)[0])
    state = replay(dag, program)
    inputs = [rng.standard_normal(b.shape).astype(b.dtype.numpy) for b in dag.inputs]
    (expected,) = evaluate(dag, inputs)
    outputs = [np.full(b.shape, np.nan).astype(b.dtype.numpy) for b in dag.outputs]
    ac.build(state)(*inputs, *outputs)
    tolerance = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}[outputs[0].dtype.name]
    np.testing.assert_allclose(
        outputs[0].astype(np.float64), expected, rtol=tolerance, atol=tolerance, err_msg=str(state)
    )
    if not any(buffer.constant for buffer in dag.inputs):
        found = [np.full(b.shape, np.nan).astype(b.dtype.numpy) for b in dag.outputs]
        interpret(lower(state, "kernel"), [*inputs, *found])
        values = found[0].astype(np.float64)
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)
