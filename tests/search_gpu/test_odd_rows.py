"""Vectors of 16 bytes where rows are not made of them: stages that go through memory in order."""

from __future__ import annotations

import pytest
from codegen_cuda.proof import SANITIZERS, Experiment, complaint_of
from search_gpu.gpu_programs import ready

import ansorc as ac
from ansorc.codegen.cuda.requests import requests_of
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import lower, replay
from ansorc.search.gpu.default import default_gpu_steps
from ansorc.target import Target

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
    program = default_gpu_steps(dag, A100)
    found = [request for _, request in requests_of(ready(dag, program, A100))]
    assert [request.width for request in found] == [width] * 3
    sanitizers = SANITIZERS if columns == 30 else ()
    assert complaint_of(lower(replay(dag, program), "kernel"), Experiment.of(dag), sanitizers) == ""


def test_what_is_read_in_another_order_keeps_its_rows() -> None:
    """Columns for rows, and a bias for each row: the lanes of one vector would be apart."""
    a, bias = ac.placeholder((9, 12), name="A"), ac.placeholder((9,), name="b")
    turned = ac.compute((12, 9), lambda i, j: a[j, i] + bias[j], name="T")
    dag = ComputeDAG([a, bias, turned])
    program = default_gpu_steps(dag, A100)
    assert complaint_of(lower(replay(dag, program), "kernel"), Experiment.of(dag)) == ""
