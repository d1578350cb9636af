"""Sums in parts (split-K): what they compute, where they are asked for, and what they are worth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ansorc as ac
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.reduction import Reduction
from ansorc.lang.scalar_type import Scalar
from ansorc.schedule import lower, replay
from ansorc.schedule.steps import RFactor
from ansorc.search.default import default_steps
from ansorc.search.evolution.sampling import sample
from ansorc.search.gpu.description import descriptions
from ansorc.search.gpu.rules import gpu_rules
from ansorc.search.sketch.generate import generate
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import design_space, encode, steps
from ansorc.target import Target
from ansorc.target.gpu_model import seconds
from tests.codegen.cuda.hand_schedules import matrix_dag
from tests.codegen.cuda.proof import SANITIZERS, Experiment, complaint_of
from tests.search.gpu.gpu_programs import check_threads, fewest_threads
from tests.support.nightly import also_nightly, is_nightly, sampled

A100 = Target.parse("cuda -arch=sm_80")


def biased(m: int, n: int, k: int) -> ComputeDAG:
    a, b = ac.placeholder((m, k), name="A"), ac.placeholder((k, n), name="B")
    bias = ac.placeholder((n,), name="bias")
    c = ac.ops.matmul(a, b, name="C")
    d = ac.compute((m, n), lambda i, j: ac.maximum(c[i, j] + bias[j], 0.0), name="D")
    return ComputeDAG([a, b, bias, d])


def weight_gradient() -> ComputeDAG:
    """Of a 1 x 1 convolution: a sum over all pixels for each pair of channels."""
    x, dy = (ac.placeholder((2, 3, 128, n), name=name) for n, name in ((20, "X"), (12, "dY")))
    n, h, w = (ac.reduce_axis(e, name=name) for e, name in ((2, "n"), (3, "h"), (128, "w")))

    def total(i: Scalar, o: Scalar) -> Reduction:
        return ac.sum(x[n, h, w, i] * dy[n, h, w, o], axis=(n, h, w))

    return ComputeDAG([x, dy, ac.compute((20, 12), total, name="dW")])


DAGS: dict[str, Callable[[], ComputeDAG]] = {
    "product": lambda: matrix_dag(32, 48, 256, "float32"),
    "by matrix units": lambda: matrix_dag(32, 48, 256, "float16"),
    "odd": lambda: matrix_dag(17, 45, 320, "float16", "mk,nk"),
    "bias": lambda: biased(24, 40, 192),
    "weight gradient": weight_gradient,
}


def in_parts(dag: ComputeDAG) -> list[Sketch]:
    found = design_space(dag, A100).sketches
    return [s for s in found if any(isinstance(step, RFactor) for step in s.steps)]


@also_nightly
@pytest.mark.parametrize("name", sampled(DAGS, ["product", "by matrix units", "odd"]))
def test_parts_are_added_up(name: str) -> None:
    """Interpreted, races decided; compiled for GPUs and emulated; held against float64."""
    dag = DAGS[name]()
    sketch = next(s for s in in_parts(dag) if " parts" in s.name)
    program = fewest_threads(sketch, sample(sketch, 64, np.random.default_rng(2)))
    found = encode(sketch, program)
    assert found is not None
    assert steps(sketch, found) == program
    state = replay(dag, program)
    assert len(descriptions(state, 1)) == 2
    sanitized = ("product", "by matrix units") if is_nightly() else ("product",)
    sanitizers = SANITIZERS if name in sanitized else ()
    assert complaint_of(lower(state, "kernel"), Experiment.of(dag), sanitizers) == ""
    interpreted = {*DAGS} - {"odd"} if is_nightly() else {"product", "by matrix units"}
    if name in interpreted:  # the interpreter takes its time
        check_threads(dag, program, A100)


def test_where_parts_are_asked_for() -> None:
    def numbers(dag: ComputeDAG) -> set[str]:
        found = generate(dag, A100, gpu_rules())
        return {s.name.partition(",")[0] for s in found if " parts" in s.name}

    assert numbers(matrix_dag(128, 128, 8192, "float16")) == {"C in 32 parts", "C in 128 parts"}
    assert not numbers(matrix_dag(4096, 4096, 8192, "float16"))  # enough blocks as it is
    assert not numbers(matrix_dag(128, 128, 127, "float32"))  # short, and prime
    assert not numbers(matrix_dag(128, 128, 8191, "float32"))


def test_the_default_fills_the_machine() -> None:
    """128 x 128 x 8192: a tile for each of 108 multiprocessors would be smaller than 16 x 16."""
    dag = matrix_dag(128, 128, 8192, "float16")
    program = default_steps(dag, A100)
    assert any(isinstance(step, RFactor) for step in program)
    first, second = descriptions(replay(dag, program), 1)
    blocks = np.prod([np.asarray(extent).item() for extent in first.grid])
    assert blocks >= A100.gpu.multiprocessors
    assert seconds(second, A100.gpu).item() < 1e-5


def test_the_sum_of_all_elements_that_one_thread_reads() -> None:
    a = ac.placeholder((6, 20), name="A")
    space = design_space(ComputeDAG([a, ac.ops.mean(a)]), Target.parse("cuda -arch=sm_80"))
    assert space.sketches
