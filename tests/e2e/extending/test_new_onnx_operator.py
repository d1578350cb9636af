"""An ONNX operator of one's own in ansorc itself: a converter, and a definition for graphs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import ansorc as ac
from ansorc.errors import GraphError
from ansorc.graph.graph_operator import GraphOperator
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.onnx.converters import CONVERTERS
from ansorc.graph.onnx.node_call import NodeCall
from ansorc.graph.operators import OPERATORS
from ansorc.lang.tensor import Tensor
from tests.graph.onnx.onnx_models import model_of, node, random_inputs

BIAS = np.array([1, 2, 3, 4], np.float32)


def saturate(data: Tensor, limit: float) -> Tensor:
    """Return limit * tanh(data / limit)."""
    n, m = data.shape
    return ac.compute((n, m), lambda i, j: limit * ac.tanh(data[i, j] * (1.0 / limit)))


def converter(call: NodeCall) -> str:
    """SoftCap(x, bias): the bias is added first; the attribute `cap` is positive."""
    cap = float(call.attribute("cap", 30.0))
    if cap <= 0:
        call.refuse(f"its cap is {cap:g}, but it must be positive")
    data = call.input(0)
    if call.has(1):
        data = call.add("add", [data, call.input(1)])
    return call.add("saturate", [data], limit=cap)


@pytest.fixture(autouse=True)
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the two tables have once the operator is a part of ansorc."""
    monkeypatch.setitem(OPERATORS, "saturate", GraphOperator("saturate", saturate))
    monkeypatch.setitem(CONVERTERS, "com.example::SoftCap", converter)


def model(cap: float) -> onnx.ModelProto:
    made = model_of(
        [node("SoftCap", ["x", "bias"], ["y"], domain="com.example", cap=cap)],
        {"x": (3, 4)},
        ["y"],
        {"bias": BIAS},
    )
    made.opset_import.add(domain="com.example", version=1)
    return made


def test_a_node_is_converted_and_built() -> None:
    graph = ac.from_onnx(model(2.0))
    assert [str(each.operator) for each in graph.nodes] == ["add", "saturate"]
    inputs = random_inputs(graph)
    expected = 2 * np.tanh((inputs["x"] + BIAS) / 2)
    np.testing.assert_allclose(run_reference(graph, inputs)["y"], expected, 1e-6)
    np.testing.assert_allclose(ac.build(graph).run(inputs)["y"], expected, 1e-5)
    assert "saturate" in ac.Graph.from_text(graph.to_text(), graph.constants).to_text()


def test_what_has_no_meaning_is_refused_with_the_node() -> None:
    with pytest.raises(GraphError, match=r"SoftCap.*its cap is 0, but it must be positive"):
        ac.from_onnx(model(0.0))
