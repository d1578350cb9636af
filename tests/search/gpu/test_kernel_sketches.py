"""A kernel by itself is what it is in the program: the same loops, the same estimated time."""

from __future__ import annotations

import numpy as np
import pytest

import ansorc as ac
from ansorc.lang.dag import ComputeDAG
from ansorc.search.gpu.default import sketches_on_gpu
from ansorc.search.gpu.estimated_programs import kernel_seconds
from ansorc.search.gpu.kernel_sketches import kernel_sketches
from ansorc.search.gpu.kernels import kernels_of
from ansorc.search.gpu.sampling import sample_on_gpu
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import population_state
from ansorc.target import Target
from tests.support.nightly import also_nightly, amount

TARGET = Target.parse("cuda -arch=sm_90")


def attention() -> ComputeDAG:
    query = ac.placeholder((1, 2, 1, 32), "q")
    keys, values = (ac.placeholder((1, 2, 2048, 32), name) for name in "kv")
    return ComputeDAG([query, keys, values, ac.ops.attention(query, keys, values)])


def two_products_of_one_tensor() -> ComputeDAG:
    """Both copy it to shared memory, under two names."""
    x = ac.placeholder((64, 96), "x")
    weights = [ac.placeholder((96, 80), name) for name in ("v", "w")]
    first, second = (ac.ops.matmul(x, w, name=f"{w.name}x") for w in weights)
    return ComputeDAG([x, *weights, ac.ops.matmul(first, ac.ops.transpose(second, (1, 0)))])


def group_norm() -> ComputeDAG:
    x = ac.placeholder((2, 16, 16, 64), "x")
    scale, shift = (ac.placeholder((64,), name) for name in ("s", "b"))
    return ComputeDAG([x, scale, shift, ac.ops.silu(ac.ops.group_norm(x, scale, shift, 8))])


def padded_convolution() -> ComputeDAG:
    x, w = ac.placeholder((1, 14, 14, 64), "x"), ac.placeholder((3, 3, 64, 32), "w")
    return ComputeDAG([x, w, ac.ops.softmax(ac.ops.conv2d(x, w, padding=1))])


DAGS = {
    each.__name__: each
    for each in (attention, two_products_of_one_tensor, group_norm, padded_convolution)
}


def loops_of(sketch: Sketch, names: tuple[str, ...]) -> list[object]:
    stages = [stage for stage in sketch.state.stages if stage.name in names]
    return [
        (s.name, s.attach, s.scope, s.pragmas, str(s.op),
         [(it.name, it.kind, it.mark, it.thread, it.function) for it in s.iterators])
        for s in stages
    ]  # fmt: skip


@also_nightly
@pytest.mark.parametrize("name", DAGS)
def test_a_kernel_has_its_loops_and_its_time(name: str) -> None:
    sketches = sketches_on_gpu(DAGS[name]().plain, TARGET)
    rng = np.random.default_rng(3)
    for sketch in sketches[:: max(1, len(sketches) // amount(4, 12))]:
        genes = sample_on_gpu(sketch, 8, rng)
        times = kernel_seconds(sketch, genes)
        kernels = kernel_sketches(sketch)
        roots = [kernel.root.name for kernel in kernels_of(population_state(sketch, genes))]
        assert len(kernels) == len(roots)
        for number, kernel in enumerate(kernels):
            if len(kernels) > 1:
                assert kernel.stages[-1] == roots[number]
                assert loops_of(kernel, kernel.stages) == loops_of(sketch, kernel.stages)
            columns = [sketch.columns.index(column) for column in kernel.columns]
            alone = kernel_seconds(kernel, genes[:, columns])
            np.testing.assert_allclose(alone[:, 0], times[:, number], rtol=1e-9)
        columns_of_kernels = sorted(column for kernel in kernels for column in kernel.columns)
        assert columns_of_kernels == sorted(sketch.columns)


def test_kernels_have_no_steps_of_others() -> None:
    sketch = max(sketches_on_gpu(attention().plain, TARGET), key=lambda each: len(each.steps))
    kernels = kernel_sketches(sketch)
    assert len(kernels) > 3
    assert max(len(kernel.steps) for kernel in kernels) < len(sketch.steps) / 2
