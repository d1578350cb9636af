"""Known values are computed as kernels compute: by NumPy, in the dtypes that the graph says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import ansorc as ac
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph
from ansorc.graph.node_values import constant_values, node_values
from ansorc.graph.passes.fold_constants import fold_constants
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import FLOAT32
from ansorc.ir.interpret import interpret
from ansorc.lang.reference import evaluate
from ansorc.schedule import lower, schedule
from tests.support.dag_strategies import dags, random_inputs
from tests.support.nightly import examples

KINDS = ("bool", "float16", "float32", "float64", "int8", "int32", "int64", "uint8", "uint32")


def drawn_values(rng: np.random.Generator, kind: str, *shape: int) -> Array:
    """Numbers of a dtype, floats also infinite, NaN and beyond every integer."""
    if kind == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if "int" in kind:
        info = np.iinfo(kind)
        return rng.integers(info.min, info.max, shape, kind, endpoint=True)
    special = [np.nan, np.inf, -np.inf, -0.0, 1e10, -1e10, 3e38, 255.5, -0.5, 2.5, 1e-7]
    mixed = np.where(rng.random(shape) < 0.5, rng.choice(special, shape), rng.normal(0, 99, shape))
    with np.errstate(all="ignore"):
        return mixed.astype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)


def movements(rng: np.random.Generator) -> Sequence[tuple[str, int, dict[str, Any]]]:
    """Each operator that NumPy moves at once, for tensors [2, 3, 4]."""
    order = [int(one) for one in rng.permutation(3)]
    begin, end = int(rng.integers(0, 2)), int(rng.integers(2, 5))
    axis = int(rng.integers(-3, 3))
    return [
        ("reshape", 1, {"shape": [4, 6]}),
        ("flatten", 1, {"axis": 1}),
        ("expand_dims", 1, {"axis": axis}),
        ("copy", 1, {}),
        ("transpose", 1, {"order": order}),
        ("broadcast_to", 1, {"shape": [3, 2, 3, 4]}),
        ("concat", 3, {"axis": axis}),
        ("stack", 2, {"axis": 1}),
        ("slice", 1, {"begin": [0, 1, begin], "end": [2, None, end]}),
        ("slice", 1, {"begin": [1, 2, 3], "end": [None, 0, None], "stride": [-1, -1, -2]}),
        ("slice", 1, {"begin": [-1, None, -3], "end": [None, -1, 9], "stride": [1, 2, 1]}),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_moved_values_are_those_of_the_definitions(kind: str) -> None:
    rng = np.random.default_rng(0)
    for operator, count, attributes in movements(rng):
        values = [drawn_values(rng, kind, 2, 3, 4) for _ in range(count)]
        builder = GraphBuilder()
        name = builder.add(operator, [builder.constant(one) for one in values], **attributes)
        graph = builder.graph([name])
        (found,) = node_values(graph.nodes[0], graph.types, values)
        (wanted,) = evaluate(graph.nodes[0].dag(graph.types), values, None)
        assert found.dtype == wanted.dtype
        assert found.shape == wanted.shape
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, wanted)


def run_loops(dag: ac.ComputeDAG, inputs: Sequence[Array]) -> list[Array]:
    """What the loops of a DAG compute, by the interpreter of the IR."""
    arrays = {b.name: array for b, array in zip(dag.inputs, inputs, strict=True)}
    for buffer in dag.outputs:
        arrays[buffer.name] = np.zeros(buffer.shape, buffer.dtype.numpy)
    function = lower(schedule(dag))
    interpret(function, [arrays[buffer.name] for buffer in dag.params], fresh_outputs=True)
    return [arrays[buffer.name] for buffer in dag.outputs]


@pytest.mark.parametrize("source", [*KINDS, "bfloat16"])
def test_casts_are_those_of_loops_bit_for_bit(source: str) -> None:
    rng = np.random.default_rng(1)
    data = drawn_values(rng, source, 40)
    for target in (*KINDS, "bfloat16"):
        x = ac.placeholder((40,), name="x", dtype=source)
        dag = ac.ComputeDAG([x, ac.ops.cast(x, target)])
        (found,), (wanted,) = evaluate(dag, [data], None), run_loops(dag, [data])
        assert found.dtype == wanted.dtype
        assert found.tobytes() == wanted.tobytes() or _equal(found, wanted), (source, target)


def _equal(found: Array, wanted: Array) -> bool:
    """Whether two arrays are the same but for the bits of NaN."""
    wide = [one.astype(np.float64) for one in (found, wanted)]
    return bool(np.array_equal(*wide, equal_nan=True)) and found.dtype.kind in "fV"


UNARY: Sequence[Callable[[Any], Any]] = (
    ac.exp, ac.tanh, ac.sqrt, ac.floor, ac.round, lambda x: x * x, lambda x: 1.0 / x,
    lambda x: x + 1e-3, lambda x: x * 1.1 - x,
)  # fmt: skip


def applied(function: Callable[[Any], Any], x: ac.Tensor) -> ac.Tensor:
    return ac.compute(x.shape, lambda i: function(x[i]), name="y")


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "bfloat16"])
def test_functions_and_arithmetic_are_those_of_loops(kind: str) -> None:
    """Each operation is rounded to the dtype, as in a loop: also where it is narrow."""
    rng = np.random.default_rng(2)
    data = rng.uniform(0.1, 3, 30).astype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    for function in UNARY:
        x = ac.placeholder((30,), name="x", dtype=kind)
        dag = ac.ComputeDAG([x, applied(function, x)])
        (found,), (wanted,) = evaluate(dag, [data], None), run_loops(dag, [data])
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found.astype(float), wanted.astype(float))


@examples(8, nightly=30, options=settings(suppress_health_check=[HealthCheck.too_slow]))
@given(dags(most_stages=3))
def test_dags_in_their_own_dtypes_agree_with_the_interpreter(dag: ac.ComputeDAG) -> None:
    inputs = random_inputs(dag, np.random.default_rng(0))
    for found, wanted in zip(evaluate(dag, inputs, None), run_loops(dag, inputs), strict=True):
        assert found.dtype == wanted.dtype
        if found.dtype.kind == "f":
            size = max(1.0, float(np.abs(wanted).max()))
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6 * size)
        else:
            np.testing.assert_array_equal(found, wanted)


def test_sums_of_many_are_rounded_once() -> None:
    data = np.full((1 << 16,), 0.1, np.float32)
    x = ac.placeholder(data.shape, name="x")
    (found,) = evaluate(ac.ComputeDAG([x, ac.ops.sum(x)]), [data], None)
    assert found.dtype == np.float32
    assert found == np.float32(data.astype(float).sum())


def chained() -> Graph:
    builder = GraphBuilder("chained")
    c = builder.constant(np.arange(6, dtype=np.float32).reshape(2, 3))
    t = builder.add("transpose", [c], order=[1, 0])
    e = builder.add("exp", [t])
    return builder.graph([builder.add("matmul", [e, c]), t, t])


def test_the_values_of_a_graph_of_constants() -> None:
    c = np.arange(6, dtype=np.float32).reshape(2, 3)
    product, turned, again = constant_values(chained())
    np.testing.assert_allclose(product, np.exp(c.T.astype(float)) @ c, rtol=1e-6)
    np.testing.assert_array_equal(turned, c.T)
    np.testing.assert_array_equal(again, c.T)


def test_constants_of_16_bits_are_folded_as_kernels_compute_them() -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (3,)))
    c = builder.constant(np.array([1.0, 2049.0, 0.1], np.float16))
    twice = builder.add("add", [c, c])
    graph = fold_constants(builder.graph([builder.add("cast", [twice], "y", dtype="float32"), x]))
    wanted = (np.array([1.0, 2049.0, 0.1], np.float16) * np.float16(2)).astype(np.float32)
    np.testing.assert_array_equal(graph.constants["y"], wanted)
