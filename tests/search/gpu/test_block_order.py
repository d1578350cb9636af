"""Blocks that walk in groups: what a wave reads, what is computed, and when the default uses it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import ansorc as ac
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import Step, lower, replay
from ansorc.schedule.steps import BindThread, Split
from ansorc.search.default import default_steps
from ansorc.search.evolution.sampling import sample
from ansorc.search.gpu.block_order import count_walked_axes, in_groups
from ansorc.search.gpu.description import descriptions
from ansorc.search.gpu.tiling import BLOCK, GROUP
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import design_space
from ansorc.search.space.genes import tiles
from ansorc.target import Target
from ansorc.target.gpu_model import limits, wave_bytes
from tests.codegen.cuda.hand_schedules import matrix_dag
from tests.codegen.cuda.proof import SANITIZERS, Experiment, complaint_of
from tests.search.gpu.gpu_programs import check_threads, fewest_threads
from tests.support.nightly import sampled

A100 = Target.parse("cuda -arch=sm_80")


def product(m: int, n: int, k: int) -> ComputeDAG:
    a = ac.placeholder((m, k), name="A")
    b = ac.placeholder((k, n), name="B")
    return ComputeDAG([a, b, ac.ops.matmul(a, b, name="C")])


def batched(count: int, m: int, n: int, k: int) -> ComputeDAG:
    a = ac.placeholder((count, m, k), name="A")
    b = ac.placeholder((count, k, n), name="B")
    return ComputeDAG([a, b, ac.ops.batch_matmul(a, b, name="C")])


def conv2d(layout: str) -> ComputeDAG:
    is_last = layout == "NHWC"
    x = ac.placeholder((2, 9, 9, 8) if is_last else (2, 8, 9, 9), name="X")
    w = ac.placeholder((3, 3, 8, 24) if is_last else (24, 8, 3, 3), name="W")
    return ComputeDAG([x, w, ac.ops.conv2d(x, w, layout=layout, name="Y")])


def tiled(dag: ComputeDAG) -> Sketch:
    return next(s for s in design_space(dag, A100).sketches if "by threads" in s.name)


def grouped(dag: ComputeDAG, group: int, least: int = 1) -> tuple[Step, ...]:
    """A program of the first tiled sketch with groups of so many blocks, `least` of them a row."""
    sketch = tiled(dag)
    genes = sample(sketch, 2000, np.random.default_rng(1))
    name = next(v.name for v in sketch.variables if v.limits and v.limits[0] > 1)
    columns = tiles(sketch, genes)[name]
    fits = (columns[:, GROUP] == group) & (columns[:, BLOCK] * group >= least)
    return fewest_threads(sketch, genes[fits])


def test_what_a_group_is_walked_along() -> None:
    def walked(dag: ComputeDAG) -> int:
        op = next(stage.op for stage in replay(dag, ()).stages if stage.op.reduce_axes)
        return count_walked_axes(op, len(op.axes) - 1)

    assert walked(product(64, 64, 64)) == 1
    assert walked(batched(4, 64, 64, 64)) == 1
    assert walked(conv2d("NHWC")) == 3
    assert walked(conv2d("NCHW")) == 0  # the rows before the columns move the same input
    assert in_groups(["b0", "i0", "j0"], 2, "j1", 1) == ["b0", "j0", "i0", "j1"]


DAGS: dict[str, Callable[[], ComputeDAG]] = {
    "product": lambda: product(70, 200, 24),
    "batched": lambda: batched(3, 40, 200, 16),
    "conv2d": lambda: conv2d("NHWC"),
}


@pytest.mark.parametrize("name", sampled(DAGS, ["product", "conv2d"]))
def test_groups_compute_what_is_defined(name: str) -> None:
    """Of three blocks each, and the last one of fewer."""
    dag = DAGS[name]()
    program = grouped(dag, 3, 4)
    (blocks,) = [s for s in program if isinstance(s, BindThread) and s.thread == "blockIdx.x"]
    assert blocks.iterator.endswith(".1")  # the columns of a group come last
    sanitizers = SANITIZERS if name == "product" else ()
    assert complaint_of(lower(replay(dag, program), "kernel"), Experiment.of(dag), sanitizers) == ""
    check_threads(dag, program)


@pytest.mark.parametrize("group", [1, 4, 16])
def test_a_wave_reads_what_its_blocks_read(group: int) -> None:
    """The tiles of A and B that the first blocks touch, counted one by one."""
    dag = product(2048, 2048, 64)
    (kernel,) = descriptions(replay(dag, grouped(dag, group, group)), 1)
    columns, rows = (int(np.asarray(n).item()) for n in kernel.grid[:2])
    if group == 1:
        columns, rows = 1, columns
    first = [
        (block // columns % rows, block // (columns * rows) * columns + block % columns)
        for block in range(A100.gpu.multiprocessors)
    ]
    loads = [a for a in kernel.global_accesses if not a.is_store]
    found = [wave_bytes(a, kernel, A100.gpu, np.asarray(1.0))[0].item() for a in loads]
    each = [np.asarray(a.block_bytes).item() for a in loads]
    counted = [
        len(set(numbers)) * e for numbers, e in zip(zip(*first, strict=True), each, strict=True)
    ]
    for mine, exact, tile, most in zip(found, counted, each, (1, group), strict=True):
        assert exact <= mine < exact + most * tile  # the last row or group counts whole


def test_the_default_of_a_large_product_walks_in_groups() -> None:
    """8192³ in float16: both factors are larger than the second level."""
    dag = matrix_dag(8192, 8192, 8192, "float16")
    program = default_steps(dag, A100)
    (kernel,) = descriptions(replay(dag, program), 1)
    assert len(kernel.grid) == 3
    column = next(s for s in program if isinstance(s, Split) and len(s.lengths) == 6)
    lengths = (_whole(column), *column.lengths[1:])
    whole = tuple(replace(column, lengths=lengths) if s is column else s for s in program)
    (in_rows,) = descriptions(replay(dag, whole), 1)
    assert len(in_rows.grid) == 2
    times = [limits(each, A100.gpu)["dram"].item() for each in (kernel, in_rows)]
    assert times[0] < 0.6 * times[1]


def _whole(column: Split) -> int:
    inner = [n for n in column.lengths[1:] if isinstance(n, int)]
    return 8192 // int(np.prod(inner))
