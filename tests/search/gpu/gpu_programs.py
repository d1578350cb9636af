"""GPU programs: made ready as the back end does it, then run by the interpreter."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import ansorc.lang as ac
from ansorc.ir.interpret import interpret
from ansorc.ir.passes.gpu.pipeline import CUDA_PASSES
from ansorc.ir.stmt import Function
from ansorc.ir.verify import verify
from ansorc.lang.reference import evaluate
from ansorc.schedule import Step, lower, replay
from ansorc.search.gpu.description import descriptions
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import design_space, steps
from ansorc.search.space.genes import Genes, population_state
from ansorc.target import Target
from tests.search.small_dags import DAGS

H100 = Target.parse("cuda -arch=sm_90")
TESLA = Target.parse("cuda -arch=sm_70")


@cache
def sketches_of(name: str) -> tuple[Sketch, ...]:
    """Return the sketches of one of `DAGS`, made when the first test of the process asks."""
    return design_space(DAGS[name], H100).sketches


def ready(computation: ac.ComputeDAG, steps: tuple[Step, ...], target: Target) -> Function:
    """Return the loop program of `steps` after the passes for GPUs."""
    function = lower(replay(computation, steps))
    verify(function)
    for _, change in CUDA_PASSES:
        function = change(function, target)
    verify(function)
    return function


def fewest_threads(sketch: Sketch, genes: Genes) -> tuple[Step, ...]:
    """Return the program of `genes` whose kernels have the fewest threads: sanitizers take long."""
    total = np.zeros(len(genes))
    for kernel in descriptions(population_state(sketch, genes), len(genes)):
        total += np.prod(np.broadcast_arrays(*kernel.grid, kernel.threads, total + 1)[:-1], axis=0)
    return steps(sketch, genes[total.argmin()])


def check_threads(
    computation: ac.ComputeDAG, steps: tuple[Step, ...], target: Target = H100
) -> None:
    """The program, its threads taking turns at barriers, must compute what is defined."""
    function = ready(computation, steps, target)
    rng = np.random.default_rng(7)
    inputs = [_values(rng, buffer.shape, buffer.dtype) for buffer in computation.inputs]
    arrays = {b.name: a for b, a in zip(computation.inputs, inputs, strict=True)}
    for buffer in computation.outputs:
        arrays[buffer.name] = np.full(buffer.shape, _unset(buffer.dtype), buffer.dtype.numpy)
    interpret(function, [arrays[buffer.name] for buffer in computation.params], fresh_outputs=True)
    for buffer, wanted in zip(computation.outputs, evaluate(computation, inputs), strict=True):
        found = arrays[buffer.name].astype(np.float64)
        np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3)


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    if dtype.is_float:
        return rng.normal(size=shape).astype(dtype.numpy)
    return rng.integers(0, 2, size=shape).astype(dtype.numpy)


def _unset(dtype: Any) -> float:
    return np.nan if dtype.is_float else 0
