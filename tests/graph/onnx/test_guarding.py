"""A fault of a converter is ansorc's, and a malformed node the file's."""

from __future__ import annotations

import onnx
import pytest

import ansorc as ac
from ansorc.errors import GraphError, InternalError
from ansorc.graph.onnx import importer
from ansorc.graph.onnx.converters import CONVERTERS
from ansorc.graph.onnx.node_call import NodeCall
from tests.graph.onnx.onnx_models import model_of, node

X = {"x": (2, 3)}


def broken(call: NodeCall) -> str:
    return [call.input(0)][1 + len(call.attribute("perm"))]


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Converters that fail, whatever they are given."""
    names = ("Transpose", "com.microsoft::Gelu")
    monkeypatch.setattr(importer, "CONVERTERS", {**CONVERTERS, **dict.fromkeys(names, broken)})


def refusal(proto: onnx.NodeProto) -> Exception:
    with pytest.raises((GraphError, InternalError)) as caught:
        ac.from_onnx(model_of([proto], X, ["y"]))
    return caught.value


@pytest.mark.usefixtures("faulty")
def test_a_fault_of_a_converter_is_reported() -> None:
    found = refusal(node("Transpose", ["x"], ["y"], perm=[1, 0]))
    assert isinstance(found, InternalError)
    for part in (
        "IndexError",
        "please report",
        "perm = [1, 0]",
        "'x' of float32[2, 3]",
        "opset 17",
    ):
        assert part in str(found)
    assert "malformed" not in str(found)


@pytest.mark.usefixtures("faulty")
@pytest.mark.parametrize("perm", [[0, 7], 3.5])
def test_a_malformed_node_is_the_files_fault(perm: object) -> None:
    proto = node("Transpose", ["x"], ["y"], perm=perm)  # pyright: ignore[reportArgumentType]
    found = refusal(proto)
    assert isinstance(found, GraphError)
    assert "the node is malformed" in str(found)
    assert "perm" in str(found)


@pytest.mark.usefixtures("faulty")
def test_of_other_domains_it_may_be_either() -> None:
    found = refusal(node("Gelu", ["x"], ["y"], domain="com.microsoft"))
    assert isinstance(found, GraphError)
    assert "malformed (TypeError" in str(found)
    assert "please report" in str(found)


def test_a_definition_that_is_too_deep_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(call: NodeCall) -> str:
        return endless(call)

    monkeypatch.setattr(importer, "CONVERTERS", {**CONVERTERS, "Relu": endless})
    found = refusal(node("Relu", ["x"], ["y"]))
    assert isinstance(found, GraphError)
    assert "Relu 'y' (opset 17): an expression is nested deeper" in str(found)


def test_missing_inputs_and_attributes_are_malformed() -> None:
    for proto in (node("MaxPool", ["x"], ["y"]), node("Conv", ["x", "x"], ["y"], strides="wide")):
        assert isinstance(refusal(proto), GraphError)
