"""Tensors, axes and DAGs: names, order, readers, operation counts."""

import pytest

import ansorc.lang as ac
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Load, Var
from ansorc.lang import operators as ops
from ansorc.lang.compute_op import Axis, Combiner
from ansorc.lang.dag import ComputeDAG


def test_params_keep_the_call_order() -> None:
    a, b = ac.placeholder((4, 4), "A"), ac.placeholder((4, 4), "B")
    product = ops.matmul(a, b, name="C")
    result = ops.relu(product, name="D")
    dag = ComputeDAG([b, result, a, product])
    assert [buffer.name for buffer in dag.params] == ["B", "D", "A", "C"]
    assert [buffer.name for buffer in dag.inputs] == ["B", "A"]
    assert [buffer.name for buffer in dag.outputs] == ["D", "C"]
    assert [op.name for op in dag.ops] == ["C", "D"]
    assert dag.readers("C") == ("D",)
    assert dag.readers("A") == ("C",)
    assert dag.readers("D") == ()
    assert dag.producers("C") == ("A", "B")


def test_auto_names_are_numbered_in_order() -> None:
    x, w = ac.placeholder((1, 8, 8, 4)), ac.placeholder((3, 3, 4, 4))
    once = ops.conv2d(x, w, padding=1)
    twice = ops.conv2d(once, w, padding=1)
    dag = ComputeDAG([x, w, ops.relu(twice)])
    assert [b.name for b in dag.inputs] == ["placeholder", "placeholder1"]
    names = ["conv2d.pad", "conv2d", "conv2d1.pad", "conv2d1", "relu"]
    assert [op.name for op in dag.ops] == names
    again = ComputeDAG([x, w, ops.relu(twice)])
    assert again == dag
    assert ComputeDAG.from_text(dag.to_text()) == dag


def test_chosen_names_win_over_auto_names() -> None:
    x = ac.placeholder(4, "relu")
    dag = ComputeDAG([x, ops.relu(x)])
    assert dag.ops[0].name == "relu1"


def test_one_input_may_be_read_twice() -> None:
    x = ac.placeholder((2, 4, 4), "x")
    dag = ComputeDAG([x, ops.batch_matmul(x, x, name="y")])
    assert len(dag.inputs) == 1
    assert dag.producers("y") == ("x",)


def test_diamonds_are_computed_once() -> None:
    x = ac.placeholder(4, "x")
    a = ops.relu(x, name="a")
    dag = ComputeDAG([x, ops.add(ops.tanh(a, name="b"), ops.sigmoid(a, name="c"), name="d")])
    assert [op.name for op in dag.ops] == ["a", "b", "c", "d"]


def test_axes_are_named_by_the_function() -> None:
    x = ac.placeholder((2, 3, 4), "x")
    rows = ac.compute((2, 3), lambda row, column: x[row, column, 0], "a")
    loose = ac.compute((2, 3, 4), lambda *i: x[i], "b")

    def of_mixed(n: ac.Scalar, *rest: ac.Scalar, place: int = 1) -> ac.Scalar:
        return x[(n, *rest, place)]

    mixed = ac.compute((2, 3), of_mixed, "c")
    ops_ = ComputeDAG([x, rows, loose, mixed]).ops
    assert [axis.name for axis in ops_[0].axes] == ["row", "column"]
    assert [axis.name for axis in ops_[1].axes] == ["i0", "i1", "i2"]
    assert [axis.name for axis in ops_[2].axes] == ["n", "i1"]


def test_clashing_reduce_axes_get_numbers() -> None:
    x = ac.placeholder((4, 4), "x")
    one, two = ac.reduce_axis(4), ac.reduce_axis(4)
    total = ac.compute((4,), lambda k: ac.sum(x[one, two] * x[k, one], axis=[one, two]), "y")
    op = ComputeDAG([x, total]).op("y")
    assert op.reduce_axes == (Axis("k1", 4), Axis("k2", 4))
    assert "x[k1, k2] * x[k, k1]" in ComputeDAG([x, total]).to_text()


def test_reduce_axes_are_normalised_to_start_at_zero() -> None:
    x = ac.placeholder(8, "x")
    k = ac.reduce_axis((3, 8), "k")
    total = ac.compute((), lambda: ac.sum(x[k], axis=k), "y")
    dag = ComputeDAG([x, total])
    assert dag.op("y").reduce_axes == (Axis("k", 5),)
    assert "= x[k + 3]" in dag.to_text()


def test_a_load_equals_one_of_the_plain_buffer() -> None:
    x = ac.placeholder(8, "x")
    plain = Load(x.buffer, (Var("i"),))
    assert x[Var("i")].expr == plain == x[Var("i")].expr
    assert hash(x[Var("i")].expr) == hash(plain)
    assert x[0].expr != ac.placeholder(9, "x")[0].expr
    assert type(ComputeDAG([x, ops.relu(x)]).ops[0].reads[0]) is Buffer


@pytest.mark.parametrize(
    ("combiner", "dtype", "value"),
    [
        (Combiner.SUM, "int8", 0),
        (Combiner.PROD, "float32", 1.0),
        (Combiner.MAX, "float32", float("-inf")),
        (Combiner.MAX, "int8", -128),
        (Combiner.MAX, "uint8", 0),
        (Combiner.MIN, "uint8", 255),
        (Combiner.MIN, "int16", 32767),
        (Combiner.MIN, "float64", float("inf")),
    ],
)
def test_identities(combiner: Combiner, dtype: str, value: float) -> None:
    found = ac.placeholder(1, "x", dtype).dtype
    assert combiner.identity(found).value == value


def test_flops_count_as_in_the_paper() -> None:
    a, b = ac.placeholder((16, 8), "A"), ac.placeholder((8, 4), "B")
    product = ops.matmul(a, b, name="C")
    assert ComputeDAG([a, b, product]).flops == 2 * 16 * 8 * 4
    assert ComputeDAG([a, b, ops.relu(product)]).flops == 2 * 16 * 8 * 4 + 16 * 4
    x, w = ac.placeholder((1, 8, 8, 4), "x"), ac.placeholder((3, 3, 4, 6), "w")
    assert ComputeDAG([x, w, ops.conv2d(x, w, padding=1)]).flops == 2 * 64 * 6 * 36
    assert ComputeDAG([a, ops.softmax(a)]).flops == 16 * 8 * (1 + 1 + 1 + 1)
