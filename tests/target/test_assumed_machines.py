"""Every machine of `assumed.py`: what is decided for it fits it, and what is made runs here."""

from __future__ import annotations

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.build import prepare
from ansorc.codegen.llvm.binding import assembly
from ansorc.codegen.llvm.emit import emit_llvm
from ansorc.ir.verify import verify
from ansorc.lang.reference import evaluate
from ansorc.schedule import lower, replay
from ansorc.schedule.stage import Mark
from ansorc.search.default import default_steps
from ansorc.search.evolution.sampling import sample
from ansorc.search.space import design_space, encode, extract, phenotype_keys, steps
from ansorc.target import Target, detect
from tests.search.small_dags import check_meaning, conv_layer, matmul, softmax
from tests.support.assumed import MACHINES
from tests.support.nightly import sampled_pairs

"""Weights are packed for a single call."""

DAGS = {
    "matmul": matmul(60, 64, 48),
    "packed": matmul(33, 70, 41, constant=True),
    "conv": conv_layer(14, 8, 16),
    "softmax": softmax(40, 100),
}
WIDE = matmul(512, 512, 512)
PAIRS = sampled_pairs(list(DAGS), list(MACHINES))


def widths(dag: ac.ComputeDAG, target: Target) -> tuple[list[int], list[int]]:
    """Extents of the vectorised and of the parallel loops of the untuned default."""
    stages = replay(dag, default_steps(dag, target)).stages
    loops = [loop for stage in stages for loop in stage.iterators if isinstance(loop.extent, int)]
    vector = [int(str(loop.extent)) for loop in loops if loop.mark is Mark.VECTORIZE]
    return vector, [int(str(loop.extent)) for loop in loops if loop.mark is Mark.PARALLEL]


@pytest.mark.parametrize(("name", "machine"), PAIRS)
def test_each_machine_has_a_sound_space(name: str, machine: str) -> None:
    dag, target = DAGS[name], Target.parse(MACHINES[machine])
    for sketch in design_space(dag, target).sketches:
        genes = sample(sketch, 12, np.random.default_rng(0))
        assert np.isfinite(extract(sketch, genes, target)).all()
        programs = [steps(sketch, row) for row in genes]
        again = [encode(sketch, program) for program in programs]
        assert [steps(sketch, row) for row in again if row is not None] == programs
        alone = [phenotype_keys(sketch, row[None, :])[0] for row in genes]
        np.testing.assert_array_equal(phenotype_keys(sketch, genes), alone)
        verify(lower(replay(dag, programs[0])))


@pytest.mark.parametrize(("name", "machine"), PAIRS)
def test_each_default_is_compiled_there_and_right_here(name: str, machine: str) -> None:
    dag, target = DAGS[name], Target.parse(MACHINES[machine])
    program = default_steps(dag, target)
    check_meaning(dag, program)
    prepared = prepare(lower(replay(dag, program)), target)
    registers = {16: "xmm" if target.is_x86 else "v0.4s", 32: "ymm", 64: "zmm"}
    assert registers[target.vector_bytes] in assembly(emit_llvm(prepared, target), target)
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal(b.shape).astype(b.dtype.numpy) for b in dag.inputs]
    out = np.full(dag.outputs[0].shape, np.nan, np.float32)
    assumed = detect().assuming(target)
    assert default_steps(dag, assumed) == program
    ac.build(dag, assumed)(*inputs, out)
    np.testing.assert_allclose(out, evaluate(dag, inputs)[0], 1e-4, 1e-4)


@pytest.mark.parametrize("machine", MACHINES)
def test_defaults_fill_its_vectors_and_its_cores(machine: str) -> None:
    target = Target.parse(MACHINES[machine])
    vector, parallel = widths(WIDE, target)
    assert all(extent % (target.vector_bytes // 4) == 0 for extent in vector)
    assert target.cores == 1 or max(parallel) >= target.cores
