"""The paper's 96 cases for GPUs: compiled in full, and emulated with smaller extents."""

from __future__ import annotations

import pytest

from ansorc.codegen.program.device_program import DeviceProgram
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import lower, replay
from ansorc.search.programs import default_program
from ansorc.search.task import Task
from bench.paper_cases import CASES, Case, Shape, dag_of
from tests.codegen.cuda.proof import (
    EMULATED,
    SANITIZERS,
    Experiment,
    compiled_for_gpus,
    emulate,
    program_of_function,
    sanitize,
)

BATCH = 2
EMULATED_FLOPS, SANITIZED_FLOPS = 1e7, 5e5
"""So that a case takes seconds: sanitizers run each thread of a block as one of the system."""


def default_kernels(dag: ComputeDAG) -> DeviceProgram:
    steps = default_program(Task(dag, EMULATED, "kernel")).steps
    return program_of_function(lower(replay(dag, steps), "kernel"))


def smaller(one: Case, flops: float) -> ComputeDAG:
    """The case with its extents cut off where it needs so few `flops`, or at 8."""
    for most in (256, 128, 64, 48, 36, 28, 20, 16, 12):
        dag = at_most(one, most)
        if dag.flops <= flops:
            return dag
    return at_most(one, 8)


def at_most(one: Case, most: int) -> ComputeDAG:
    shape: Shape = tuple(min(extent, most) for extent in one.shape)
    return dag_of(one.operator, min(one.batch, BATCH), shape)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("one", CASES, ids=lambda one: one.name)
def test_all_cases(one: Case) -> None:
    compiled_for_gpus(default_kernels(one.dag()))
    dag = smaller(one, EMULATED_FLOPS)
    text = default_kernels(dag)
    compiled_for_gpus(text)
    assert not emulate(text, Experiment.of(dag))
    dag = smaller(one, SANITIZED_FLOPS)
    text, experiment = default_kernels(dag), Experiment.of(dag)
    for sanitizer in SANITIZERS:
        assert not sanitize(text, experiment, sanitizer)
