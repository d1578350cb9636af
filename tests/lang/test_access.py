"""The predicates of the sketch rules on the cases whose answers are known."""

import pytest

import ansorc.lang as ac
from ansorc.ir.expr import Binary, BinaryOp, Var, const
from ansorc.lang import access
from ansorc.lang import operators as ops
from ansorc.lang.dag import ComputeDAG

X = ac.placeholder((1, 14, 14, 8), "x")
M = ac.placeholder((16, 32), "m")
BIAS = ac.placeholder(32, "bias")


def dag_of(*tensors: ac.Tensor) -> ComputeDAG:
    return ComputeDAG(tensors)


def matmul() -> ComputeDAG:
    a, b = ac.placeholder((64, 64), "A"), ac.placeholder((64, 64), "B")
    return dag_of(a, b, ops.matmul(a, b, name="y"))


def one(result: ac.Tensor, *inputs: ac.Tensor) -> ComputeDAG:
    return dag_of(*inputs, result)


INLINEABLE = {
    "relu": (one(ops.relu(M, name="y"), M), True),
    "bias": (one(ops.bias_add(M, BIAS, name="y"), M, BIAS), True),
    "batch_norm": (one(ops.batch_norm(M, BIAS, ac_shift := ac.placeholder(32, "s"), name="y"),
                       M, BIAS, ac_shift), True),
    "tanh": (one(ops.tanh(M, name="y"), M), True),
    "shifted": (one(ac.compute((16, 30), lambda i, j: M[i, j + 2], "y"), M), True),
    "row": (one(ac.compute((32,), lambda j: M[3, j], "y"), M), True),
    "constant with a branch": (
        one(ac.compute(4, lambda i: ac.if_then_else(i > 1, 1.0, 0.0), "y")), True),
    "exp": (one(ac.compute((16, 32), lambda i, j: ac.exp(M[i, j]), "y"), M), False),
    "pad": (one(ops.pad(M, [1, 1], [1, 1], name="y"), M), False),
    "transpose": (one(ops.transpose(M, (1, 0), name="y"), M), False),
    "diagonal": (one(ac.compute(16, lambda i: M[i, i], "y"), M), False),
    "strided": (one(ac.compute((8, 16), lambda i, j: M[i * 2, j], "y"), M), False),
    "layout": (one(ac.compute((16, 4, 8), lambda i, j, q: M[i, j * 8 + q], "y"), M), False),
    "matmul": (matmul(), False),
}  # fmt: skip


@pytest.mark.parametrize("case", INLINEABLE)
def test_strictly_inlineable(case: str) -> None:
    dag, expected = INLINEABLE[case]
    assert access.strictly_inlineable(dag.op("y")) is expected


def conv(kind: str) -> ComputeDAG:
    if kind == "depthwise":
        w = ac.placeholder((3, 3, 8), "w")
        return dag_of(X, w, ops.depthwise_conv2d(X, w, padding=1, name="y"))
    w = ac.placeholder((3, 3, 8, 16), "w")
    return dag_of(X, w, ops.conv2d(X, w, padding=1, name="y"))


def outer_sum() -> ComputeDAG:
    a, b = ac.placeholder(16, "a"), ac.placeholder(8, "b")
    return dag_of(a, b, ac.compute((16, 8), lambda i, j: a[i] + b[j], "y"))


def hinted() -> ComputeDAG:
    a, b = ac.placeholder(16, "a"), ac.placeholder(8, "b")
    hints = {"simplify_const_tensor_indices": "i"}
    return dag_of(a, b, ac.compute((16, 8), lambda i, j: a[i] + b[j], "y", hints))


def vector_matrix() -> ComputeDAG:
    """One row: only the axis j is longer than 1, and both x and y would need another one."""
    a, b = ac.placeholder((1, 8), "A"), ac.placeholder((8, 1), "B")
    return dag_of(a, b, ops.matmul(a, b, name="y"))


REUSE = {
    "matmul": (matmul(), True),
    "conv2d": (conv("plain"), True),
    "depthwise": (conv("depthwise"), True),
    "outer sum": (outer_sum(), True),
    "outer sum with the hint": (hinted(), False),
    "max_pool": (one(ops.max_pool2d(X, 2, stride=2, name="y"), X), False),
    "bias": (one(ops.bias_add(M, BIAS, name="y"), M, BIAS), False),
    "row sums": (one(ops.softmax(M, name="y"), M), False),
    "1 x 1 result": (vector_matrix(), False),
    "relu": (one(ops.relu(M, name="y"), M), False),
}


@pytest.mark.parametrize("case", REUSE)
def test_has_data_reuse(case: str) -> None:
    dag, expected = REUSE[case]
    assert access.has_data_reuse(dag.op("y")) is expected


def test_no_stage_of_softmax_or_norm_needs_tiling() -> None:
    batch = ac.placeholder((4, 16, 16), "x")
    for dag in (one(ops.softmax(M), M), one(ops.norm2(batch), batch)):
        assert not any(access.has_data_reuse(op) for op in dag.ops)


def test_reads_lists_each_access_once() -> None:
    i = Var("i")
    y = ac.compute(6, lambda i: BIAS[i] + BIAS[i + 1] * BIAS[i], "y")
    assert access.reads(dag_of(BIAS, y).op("y")) == {"bias": ((i,), (i + 1,))}


def test_shifted_axis() -> None:
    i = Var("i")
    assert [access.find_shifted_axis(e) for e in (i, i + 1, 1 + i, i - 1, 2 + i - 1)] == ["i"] * 5
    others = [i * 2, 1 - i, i + Var("j"), const(3), Binary(BinaryOp.FLOORDIV, i, const(2))]
    assert [access.find_shifted_axis(e) for e in others] == [None] * 5
