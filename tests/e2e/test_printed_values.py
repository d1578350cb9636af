"""What `print` and `repr` show: readable text, and one short line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.build import compile_function
from ansorc.errors import MeasureError
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph
from ansorc.graph.graph_variants import GraphVariants
from ansorc.graph.network import Network
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.dtype import FLOAT32
from ansorc.ir.expr import Load, Var, const
from ansorc.ir.node import structure_text
from ansorc.ir.parser import parse
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import For, LoopKind, Store
from ansorc.search.tune_result import TuneResult
from ansorc.target import Target
from ansorc.target.units import seconds_text
from tests.search.small_tasks import layer, product

SHORT = 200


def network(rows: int = 4) -> Graph:
    builder = GraphBuilder("net")
    x = builder.input("x", TensorType(FLOAT32, (rows, 64)))
    w = builder.constant(np.ones((64, 64), np.float32), "w")
    return builder.graph([builder.add("relu", [builder.add("matmul", [x, w])], "y")])


def test_programs() -> None:
    function = ac.lower(ac.schedule(layer().dag).vectorize("C", "j"))
    assert str(function) == to_text(function).rstrip("\n")
    assert to_text(parse(str(function))) == to_text(function)
    assert repr(function).startswith("<Function kernel kernel(A: float32[32, 32], B: float32[32, ")
    assert len(repr(function)) < SHORT
    body = function.body
    assert str(body) in str(function).replace("\n    ", "\n")
    assert len(repr(body)) < SHORT


def test_expressions() -> None:
    (a, *_) = layer().dag.params
    element = Load(a, (Var("i"), Var("k"))) * const(2.0, FLOAT32)
    assert str(element) == "A[i, k] * 2.0"
    assert repr(element) == "<Binary A[i, k] * 2.0>"
    loop = For(Var("i"), 4, LoopKind.SERIAL, Store(a, (Var("i"), Var("i")), element))
    assert str(loop) == "for i in 0..4:\n    A[i, i] = A[i, k] * 2.0"
    assert repr(loop) == "<For for i in 0..4: …>"
    for _ in range(100):
        element = element + element if len(str(element)) < SHORT else element
    assert len(repr(element)) < SHORT < len(str(element))


def test_the_structure_tells_what_the_text_does_not() -> None:
    one, other = const(0.0, FLOAT32), const(-0.0, FLOAT32)
    assert structure_text((one,)) != structure_text((other,))
    assert structure_text(one).startswith("Const(value=0.0, dtype=DType(kind=")
    assert structure_text(Var("A")) != structure_text(Var("A", FLOAT32))


def test_schedules_and_tasks() -> None:
    task = product()
    state = ac.schedule(task.dag).parallel("C", "i")
    assert repr(state).startswith("<Schedule of ComputeDAG(A: float32[32, 32], ")
    assert repr(state).endswith(": 1 steps>")
    assert str(state).startswith("parallel i in 0..32")
    assert repr(task).startswith("<Task product: ComputeDAG(")
    assert len(repr(task)) < SHORT + len(task.target.text)
    assert str(task.dag) in str(task)
    built = compile_function(ac.lower(state), task.target)
    assert repr(built) == f"<Compiled kernel: {len(built.code.image)} bytes of code>"
    assert "passes " in str(built)


def test_networks() -> None:
    graph = network()
    assert repr(graph) == "<Graph net(x: float32[4, 64]): 2 nodes>"
    assert "matmul" in str(graph)
    both = GraphVariants((graph, network(8)))
    assert repr(both) == "<GraphVariants net for x: 4x64 | x: 8x64>"
    assert str(graph) in str(both)
    made = Network.of(graph)
    assert repr(made).startswith("<Network net for ")
    assert repr(made).endswith(": 1 kernels, 1 of them different>")
    assert "   1 x matmul_relu, 3.302e+04 FLOP a call" in str(made)
    assert len(str(made)) < 10 * SHORT, "no weights"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> TuneResult:
    records = tmp_path_factory.mktemp("tuned") / "tune.db"
    return ac.tune(layer(), trials=3, records=records, threads=1)


def test_a_tuning_result(tuned: TuneResult) -> None:
    assert tuned.best is not None
    time = seconds_text(tuned.best.median_s)
    assert repr(tuned) == f"<TuneResult of layer: {time}, 3 programs>"
    first, best, default, *_ = str(tuned).splitlines()
    assert first.startswith("layer for ")
    assert first.endswith(": 3 programs measured, 3 of them in this run")
    assert best.startswith(f"best: {time}, ")
    assert default.startswith("untuned default: ")


def test_the_tuned_schedule_goes_on_by_hand(tuned: TuneResult) -> None:
    assert tuned.best is not None
    state = tuned.schedule
    assert "for " in str(state) or "parallel " in str(state) or "unrolled " in str(state)
    further = state.pragma(state.stages[-1].name, "auto_unroll_max_step", 4)
    assert len(further.steps) == len(state.steps) + 1
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 32, 32)).astype(np.float32)
    for program in (state, further):
        found = np.empty((32, 32), np.float32)
        ac.build(program, name="by_hand")(a, b, found)
        np.testing.assert_allclose(found, a @ b, rtol=1e-4, atol=1e-4)


def test_a_result_without_a_program_has_no_schedule(tmp_path: Path) -> None:
    result = ac.tune(product(), trials=1, time_budget=0.0, records=tmp_path / "tune.db")
    assert result.best is None
    assert repr(result) == "<TuneResult of product: no result, 0 programs>"
    assert "\nno result: none was measured and checked" in str(result)
    with pytest.raises(MeasureError, match="no program of 'product' can be shown: none was"):
        _ = result.schedule


def test_a_networks_result_has_no_weights_in_it(tmp_path: Path) -> None:
    result = ac.tune(network(), trials=1, records=tmp_path / "tune.db", threads=1)
    assert repr(result).startswith("<NetworkTuneResult of net: ")
    assert len(repr(result)) < SHORT
    first, task, *_ = str(result).splitlines()
    assert first.startswith(f"net for {Target.parse('native').text}: ")
    assert first.endswith(" in 1 kernels, 1 of them different")
    assert task.startswith("   1 x ")
    assert task.endswith(": matmul_relu, 1 programs")
    assert repr(result.tuning).startswith("<ScheduledResult: net ")
    assert "1 programs measured" in str(result.tuning)
