"""A small ONNX model for the command line: an open batch, a table of positions, two layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

WIDTH, CLASSES = 12, 5
NODES = [
    helper.make_node("Add", ["x", "positions"], ["placed"]),
    helper.make_node("MatMul", ["placed", "w1"], ["hidden"]),
    helper.make_node("Relu", ["hidden"], ["hidden_relu"]),
    helper.make_node("MatMul", ["hidden_relu", "w2"], ["logits"]),
    helper.make_node("Softmax", ["logits"], ["y"], axis=1),
]


def write_model(path: Path, *, operator: str = "Relu") -> None:
    """Write x [batch, 12], positions [12] -> y [batch, 5]; `operator` takes the place of Relu."""
    draw = np.random.default_rng(0)
    weights = {"w1": draw.standard_normal((WIDTH, 16)), "w2": draw.standard_normal((16, CLASSES))}
    nodes = [
        helper.make_node(operator, n.input, n.output) if n.op_type == "Relu" else n for n in NODES
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", WIDTH]),
            helper.make_tensor_value_info("positions", TensorProto.FLOAT, [WIDTH]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", CLASSES])],
        [numpy_helper.from_array(a.astype(np.float32), name) for name, a in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path.write_bytes(model.SerializeToString())
