"""Operators that a user defines in the DSL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import ansorc as ac
from ansorc.errors import GraphError
from ansorc.graph.graph_reference import run_reference
from tests.graph.onnx.onnx_models import model_of, node

NAME = "com.example::Scaled"
X = {"x": [2, 3]}


@pytest.fixture(autouse=True)
def _only_ours() -> Iterator[None]:
    yield
    for name in (NAME, "Relu"):
        try:
            ac.unregister_onnx_op(name)
        except GraphError:
            continue


def scaled(x: ac.Tensor, w: ac.Tensor | None = None, *, factor: float = 2.0) -> Any:
    if w is None:
        return ac.compute(x.shape, lambda i, j: x[i, j] * factor)
    return [
        ac.compute(x.shape, lambda i, j: x[i, j] * factor),
        ac.compute(x.shape, lambda i, j: x[i, j] * w[j]),
    ]


def imported(*inputs: str, outputs: tuple[str, ...] = ("y",), **attributes: Any) -> ac.Graph:
    domain, _, operator = NAME.partition("::")
    one = node(operator, list(inputs), list(outputs), name="s", domain=domain, **attributes)
    proto = model_of([one], X, list(outputs), {"w": np.arange(3, dtype=np.float32)})
    proto.opset_import.extend([helper.make_opsetid(domain, 1)])
    return ac.from_onnx(proto)


def test_a_definition_is_called_with_inputs_and_attributes() -> None:
    ac.register_onnx_op(NAME, scaled)
    x = np.random.default_rng(0).random((2, 3)).astype(np.float32)
    graph = imported("x", factor=3.0)
    np.testing.assert_allclose(run_reference(graph, {"x": x})["y"], 3 * x, rtol=1e-6)
    found = run_reference(imported("x", "w", outputs=("y", "z")), {"x": x})
    np.testing.assert_allclose(found["z"], x * np.arange(3), rtol=1e-6)


def test_known_inputs_are_given_to_a_definition_too() -> None:
    def doubled(w: ac.Tensor) -> ac.Tensor:
        return ac.compute(w.shape, lambda i: w[i] * 2)

    ac.register_onnx_op(NAME, doubled)
    (found,) = run_reference(imported("w"), {"x": np.zeros((2, 3))}).values()
    np.testing.assert_array_equal(found, [0, 2, 4])


def test_tensors_among_the_attributes_are_lists() -> None:
    seen: list[object] = []

    def define(x: ac.Tensor, table: object) -> ac.Tensor:
        seen.append(table)
        return scaled(x)

    ac.register_onnx_op(NAME, define)
    imported("x", table=numpy_helper.from_array(np.array([[1, 2], [3, 4]])))
    assert seen[0] == ((1, 2), (3, 4))
    with pytest.raises(GraphError, match="'table' is a tensor of 5000 elements"):
        imported("x", table=numpy_helper.from_array(np.zeros(5000)))


def test_a_definition_takes_the_place_of_ansorcs() -> None:
    ac.register_onnx_op("ai.onnx::Relu", scaled)
    graph = ac.from_onnx(model_of([node("Relu", ["x"], ["y"])], X, ["y"]))
    np.testing.assert_array_equal(
        run_reference(graph, {"x": -np.ones((2, 3))})["y"], np.full((2, 3), -2)
    )


def test_an_operator_is_forgotten() -> None:
    with pytest.raises(GraphError, match="no registered operator"):
        ac.unregister_onnx_op(NAME)
    ac.register_onnx_op(NAME, scaled)
    ac.unregister_onnx_op(NAME)
    with pytest.raises(GraphError, match=r"ac\.register_onnx_op\('com\.example::Scaled', \.\.\.\)"):
        imported("x")


@pytest.mark.parametrize("name", ["", "::", "a::", "::b", "a::b::c", " a"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(GraphError, match="is no name of an operator"):
        ac.register_onnx_op(name, scaled)


def test_what_cannot_be_called_is_refused() -> None:
    nothing: Any = 3
    with pytest.raises(GraphError, match="3 cannot be called"):
        ac.register_onnx_op(NAME, nothing)


def test_a_definition_that_fails_is_named() -> None:
    ac.register_onnx_op(NAME, scaled)
    with pytest.raises(GraphError, match=r"Scaled 's'.*definition raised TypeError: .*'colour'"):
        imported("x", colour="red")
    with pytest.raises(GraphError, match=r"Scaled 's'.*1 outputs, not 2|has 2 outputs, not 1"):
        imported("x", outputs=("y", "z"))
    with pytest.raises(GraphError, match="in the middle is left out"):
        imported("", "x")

    def faulty(x: ac.Tensor) -> ac.Tensor:
        raise ZeroDivisionError(x.name)

    ac.register_onnx_op(NAME, faulty)
    with pytest.raises(GraphError, match=r"Scaled 's'.*definition raised ZeroDivisionError: in0"):
        imported("x")
