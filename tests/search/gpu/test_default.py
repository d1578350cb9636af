"""Bytes of memory that untuned programs move, by the model, of the least that they must."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ansorc as ac
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.tensor import Tensor
from ansorc.schedule import replay
from ansorc.search.default import default_steps
from ansorc.search.gpu.description import descriptions
from ansorc.target import Target
from ansorc.target.gpu_model import limits

A100 = Target.parse("cuda -arch=sm_80")
ROOM = 1.05


def moved_bytes(dag: ComputeDAG) -> float:
    state = replay(dag, default_steps(dag, A100))
    parts = [limits(kernel, A100.gpu)["dram"] for kernel in descriptions(state, 1)]
    return float(np.ravel(sum(parts))[0]) * A100.gpu.dram_bytes_per_second


def pooled(x: Tensor) -> Tensor:
    return ac.ops.max_pool2d(x, 3, stride=2)


def joined(x: Tensor) -> Tensor:
    return ac.ops.concat([x, x], axis=1)


def normalized(x: Tensor) -> Tensor:
    return ac.ops.l2_normalize(x)


OPERATORS: dict[Callable[[Tensor], Tensor], tuple[int, ...]] = {
    normalized: (4096, 256),  # its rows are read twice, by one block
    pooled: (16, 112, 112, 64),  # windows overlap
    joined: (16, 64, 56, 56),  # each block reads one of two
    ac.ops.relu: (64, 512, 49),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_what_is_read_again_is_in_a_cache(operator: Callable[[Tensor], Tensor]) -> None:
    x = ac.placeholder(OPERATORS[operator], name="x")
    dag = ComputeDAG([x, operator(x)])
    assert 0.95 <= moved_bytes(dag) / sum(buffer.bytes for buffer in dag.params) <= ROOM


def test_what_other_blocks_read_much_later_is_not() -> None:
    """The sum of a matrix and its transpose, of more than the second level holds."""
    x = ac.placeholder((8192, 8192), name="x")
    dag = ComputeDAG([x, ac.compute((8192, 8192), lambda i, j: x[i, j] + x[j, i], name="y")])
    assert moved_bytes(dag) >= 2.9 * 8192 * 8192 * 4
