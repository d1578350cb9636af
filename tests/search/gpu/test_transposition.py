"""Vectors of 16 bytes where rows are not made of them: stages that go through memory in order."""

from __future__ import annotations

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.cuda.requests import requests_of
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import lower, replay
from ansorc.search.default import default_steps
from ansorc.search.gpu.description import descriptions
from ansorc.search.gpu.rules import complete_in_all_ways, gpu_rules
from ansorc.search.gpu.sampling import sample_on_gpu
from ansorc.search.sketch.generate import generate
from ansorc.search.space.genes import choice_values, population_state
from ansorc.target import Target
from tests.codegen.cuda.proof import SANITIZERS, Experiment, complaint_of
from tests.search.gpu.gpu_programs import ready

A100 = Target.parse("cuda -arch=sm_80")


def added(rows: int, columns: int, dtype: str) -> ComputeDAG:
    a, b = (ac.placeholder((rows, columns), name=name, dtype=dtype) for name in "AB")
    return ComputeDAG([a, b, ac.ops.relu(ac.ops.add(a, b))])


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "width"),
    [
        (12, 1001, "float32", 16),
        (12, 30, "float32", 16),
        (8, 27, "float16", 16),
        (4, 27, "float16", 8),  # 108 elements are no vectors of 8
        (7, 9, "float32", 4),
    ],
)
def test_rows_of_odd_length(rows: int, columns: int, dtype: str, width: int) -> None:
    dag = added(rows, columns, dtype)
    program = default_steps(dag, A100)
    found = [request for _, request in requests_of(ready(dag, program, A100))]
    assert [request.width for request in found] == [width] * 3
    sanitizers = SANITIZERS if columns == 30 else ()
    assert complaint_of(lower(replay(dag, program), "kernel"), Experiment.of(dag), sanitizers) == ""


def test_what_is_the_same_in_a_row_is_read_by_each_lane() -> None:
    """A bias of each channel, of images of 7 by 7."""
    x, b = ac.placeholder((4, 8, 7, 7), "x"), ac.placeholder((8,), name="b")
    dag = ComputeDAG([x, b, ac.ops.relu(ac.ops.bias_add(x, b, axis=1))])
    program = default_steps(dag, A100)
    found = {r.buffer.name: r for _, r in requests_of(ready(dag, program, A100))}
    assert {name: request.width for name, request in found.items()} == {"x": 16, "b": 4, "relu": 16}
    assert complaint_of(lower(replay(dag, program), "kernel"), Experiment.of(dag), SANITIZERS) == ""


def test_images_are_loaded_and_stored_as_vectors() -> None:
    """Fused axes of which a block has a part: the element is one number of block and thread."""
    x = ac.placeholder((4, 56, 56, 64), "x")
    w, b = (ac.placeholder((64,), name) for name in "wb")
    dag = ComputeDAG([x, w, b, ac.ops.relu(ac.ops.batch_norm(x, w, b))])
    found = [r for _, r in requests_of(ready(dag, default_steps(dag, A100), A100))]
    assert [request.width for request in found] == [16] * 4


def test_parts_of_rows_move_as_many_bytes_as_rows() -> None:
    """Blocks of 32 threads with 2 elements each have a row and a seventh of the next, not two."""
    x = ac.placeholder((16, 64, 56, 56), "x")
    dag = ComputeDAG([x, ac.ops.relu(x)])
    (sketch,) = (s for each in generate(dag, A100, gpu_rules()) for s in complete_in_all_ways(each))
    genes = np.unique(sample_on_gpu(sketch, 200, np.random.default_rng(0)), axis=0)
    state, choices = population_state(sketch, genes), choice_values(sketch, genes)
    (kernel,) = descriptions(state, len(genes), choices)
    blocks = np.prod(np.broadcast_arrays(*kernel.grid), axis=0)
    for access in kernel.global_accesses:
        moved = (blocks * access.block_bytes)[access.block_bytes >= 56 * 4]
        assert np.allclose(moved, 16 * 64 * 56 * 56 * 4)
    found = [r for _, r in requests_of(ready(dag, default_steps(dag, A100), A100))]
    assert [request.width for request in found] == [16] * 2


@pytest.mark.parametrize("size", [8, 7])
def test_a_mean_is_one_kernel(size: int) -> None:
    """Sums are made by the threads that divide them, and not written out before."""
    x = ac.placeholder((2, 2 * size, 2 * size, 8), "x")
    dag = ComputeDAG([x, ac.ops.avg_pool2d(x, 2, stride=2)])
    program = default_steps(dag, A100)
    found = [r for _, r in requests_of(ready(dag, program, A100))]
    assert [(request.buffer.name, request.is_store) for request in found] == [
        ("x", False),
        ("avg_pool2d", True),
    ]
    assert complaint_of(lower(replay(dag, program), "kernel"), Experiment.of(dag)) == ""


def test_what_is_read_in_another_order_keeps_its_rows() -> None:
    """Columns for rows, and a bias for each row: the lanes of one vector would be apart."""
    a, bias = ac.placeholder((9, 12), name="A"), ac.placeholder((9,), name="b")
    turned = ac.compute((12, 9), lambda i, j: a[j, i] + bias[j], name="T")
    dag = ComputeDAG([a, bias, turned])
    program = default_steps(dag, A100)
    assert complaint_of(lower(replay(dag, program), "kernel"), Experiment.of(dag)) == ""


def test_an_image_with_a_border_is_copied_in_vectors_of_channels() -> None:
    x, k = ac.placeholder((1, 6, 6, 32), "x"), ac.placeholder((3, 3, 32), name="k")
    dag = ComputeDAG([x, k, ac.ops.depthwise_conv2d(x, k, padding=1)])
    program = default_steps(dag, A100)
    found = [r for _, r in requests_of(ready(dag, program, A100)) if r.buffer.name == "x"]
    assert {request.width for request in found} == {16}
    assert complaint_of(lower(replay(dag, program), "kernel"), Experiment.of(dag)) == ""


@pytest.mark.parametrize(("rows", "columns"), [(5, 37), (1, 3), (64, 64)])
def test_all_elements_are_combined(rows: int, columns: int) -> None:
    """A result without dimensions has no rows whose vectors could be joined."""
    a = ac.placeholder((rows, columns), "A")
    k, l = ac.reduce_axis(rows), ac.reduce_axis(columns)  # noqa: E741
    total = ac.compute((), lambda: ac.sum(a[k, l], axis=[k, l]), "S")
    most, place = ac.compute_tuple((), lambda: ac.argmax(a[k, l], axis=[k, l]), ["M", "P"])
    numbers = np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)
    for outputs in ([total], [most, place]):
        dag = ComputeDAG([a, *outputs])
        found = [np.empty((), buffer.dtype.numpy) for buffer in dag.outputs]
        ac.build(dag, target="cuda-emulated -arch=sm_80", name="all")(numbers, *found)
        wanted = [numbers.sum()] if len(found) == 1 else [numbers.max(), numbers.argmax()]
        for one, other in zip(found, wanted, strict=True):
            assert abs(one.item() - other) <= 1e-4 * abs(other) + 1e-5
