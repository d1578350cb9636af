"""Tensors without elements between nodes: they leave no trace in what is not empty."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import ansorc as ac
from ansorc.ir.aligned import Array

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def run(operator: str, weights: list[Array], expected: Array, **attributes: Any) -> None:
    """Run `operator` on X and `weights`, join its first result with X, and compare."""
    names = [f"w{n}" for n in range(len(weights))]
    outputs = ["y", "i"] if operator == "TopK" else ["y"]
    nodes = [
        helper.make_node(operator, ["x", *names], outputs, **attributes),
        helper.make_node("Concat", ["y", "x"], ["z"], axis=0),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_empty_tensor_value_info("z")],
        [numpy_helper.from_array(one, name) for one, name in zip(weights, names, strict=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    found = ac.build(ac.from_onnx(model)).run({"x": X})["z"]
    np.testing.assert_array_equal(found, np.concatenate([expected, X]))


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_a_scatter_of_no_updates_is_its_data(reduction: str) -> None:
    nothing = np.zeros((0, 3), np.float32)
    run("ScatterElements", [np.zeros((0, 3), np.int64), nothing], X, reduction=reduction)
    run("ScatterND", [np.zeros((0, 1), np.int64), nothing], X, reduction=reduction)


def test_the_first_none_of_all_are_none() -> None:
    run("TopK", [np.zeros(1, np.int64)], X[:0], axis=0)
