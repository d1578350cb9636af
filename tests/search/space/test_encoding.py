"""Recorded programs find their genes again, and packing makes the sketches it should."""

import numpy as np
import pytest

import ansorc as ac
from ansorc.schedule import schedule
from ansorc.search.cpu.rules import RULES
from ansorc.search.evolution.sampling import sample
from ansorc.search.sketch import generate
from ansorc.search.sketch.operand_layout import pack_operand, vector_operands
from ansorc.search.space import design_space, encode, steps
from tests.search.small_dags import DAGS, TARGET, matmul, space_of
from tests.support.nightly import also_nightly, amount, sampled


@also_nightly
@pytest.mark.parametrize("name", sampled(DAGS, list(DAGS)[1::2]))
def test_every_program_finds_its_genes_again(name: str) -> None:
    rng = np.random.default_rng(1)
    for sketch in space_of(name).sketches:
        genes = sample(sketch, amount(1, 3), rng)
        for row in genes:
            program = steps(sketch, row)
            found = encode(sketch, program)
            assert found is not None
            assert steps(sketch, found) == program


def test_a_program_of_another_sketch_has_no_genes() -> None:
    first, second, *_ = design_space(matmul(16, 32, 64), TARGET).sketches
    program = steps(second, sample(second, 1, np.random.default_rng(0))[0])
    assert encode(first, program) is None
    assert encode(first, program[:3]) is None


def test_the_operand_that_vectors_run_along_is_packed() -> None:
    dag = matmul(16, 32, 64)
    fused = generate(dag, TARGET, RULES)[0]
    (sketch,) = pack_operand(fused)
    assert sketch.name == f"{fused.name}, pack in1"
    new = [type(step).__name__ for step in sketch.steps[len(fused.steps) :]]
    assert new == ["CacheRead", "ComputeAt", "Split", "Reorder", "Panel"]


def test_a_column_of_coefficients_is_not_packed() -> None:
    stage = schedule(matmul(16, 32, 64)).stage("C")
    assert vector_operands(stage) == {"in1": 1}  # in0[i, k] has no contiguous step along j


def test_millions_of_choices_are_recalled_at_once() -> None:
    """Each of the stages at root of a Winograd convolution has up to seven parallel loops."""
    x, w = ac.placeholder((2, 16, 16, 32), "x"), ac.placeholder((3, 3, 32, 64), "w")
    computation = ac.ComputeDAG([x, w, ac.ops.conv2d_winograd(x, w, padding=1, name="y")])
    first, *_, last = design_space(computation, TARGET).sketches
    for row in sample(first, 3, np.random.default_rng(0)):
        program = steps(first, row)
        found = encode(first, program)
        assert found is not None
        assert steps(first, found) == program
        assert encode(last, program) is None
