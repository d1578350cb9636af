"""Writes an ONNX network node by node, and knows the shape and type of each value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ansorc.ir.aligned import Array


@dataclass(frozen=True)
class Value:
    """A tensor of the network."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class NetworkWriter:
    """Collects nodes; `rng` draws what the caller leaves open."""

    def __init__(self, rng: np.random.Generator, opset: int) -> None:
        self.rng, self.opset = rng, opset
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, Array] = {}
        self.inputs: dict[str, Array] = {}
        self.values: list[Value] = []

    def input(self, array: Array) -> Value:
        """Declare an input and return it; `array` is what the network is run with."""
        value = Value(f"x{len(self.inputs)}", array.shape, array.dtype)
        self.inputs[value.name] = array
        self.values.append(value)
        return value

    def constant(self, array: Array) -> Value:
        """Return an initializer."""
        name = f"w{len(self.initializers)}"
        self.initializers[name] = array
        return Value(name, array.shape, array.dtype)

    def weights(self, *shape: int, scale: float | None = None) -> Value:
        """Return an initializer; sums over all but the first axis stay near 1 by default."""
        size = float(np.prod(shape[1:])) ** -0.5 if scale is None else scale
        return self.constant((self.rng.standard_normal(shape) * size).astype(np.float32))

    def integers(self, *numbers: int) -> Value:
        """Return an initializer of int64 numbers, one axis."""
        return self.constant(np.array(numbers, np.int64))

    def add(self, operator: str, inputs: Sequence[Value | None], **attributes: Any) -> Value:
        """Add a node of one output and return it."""
        return self.add_many(operator, inputs, 1, **attributes)[0]

    def add_many(
        self, operator: str, inputs: Sequence[Value | None], outputs: int, **attributes: Any
    ) -> list[Value]:
        """Add a node and return its outputs, whose shapes onnx's reference tells."""
        number = len(self.nodes)
        names = [f"t{number}_{n}" for n in range(outputs)]
        given = ["" if value is None else value.name for value in inputs]
        node = helper.make_node(operator, given, names, **attributes)
        made = [
            Value(name, shape, dtype)
            for name, (shape, dtype) in zip(names, self._infer(node, inputs), strict=True)
        ]
        self.nodes.append(node)
        self.values.extend(made)
        return made

    def model(self, outputs: Sequence[str]) -> onnx.ModelProto:
        """Return the network with the named values as its outputs."""
        by_name = {value.name: value for value in self.values}
        graph = helper.make_graph(
            self.nodes,
            "network",
            [_info(by_name[name]) for name in self.inputs],
            [_info(by_name[name]) for name in outputs],
            [numpy_helper.from_array(array, name) for name, array in self.initializers.items()],
        )
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def _infer(
        self, node: onnx.NodeProto, inputs: Sequence[Value | None]
    ) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
        """Return the shapes and types of the outputs of `node`: by ONNX's inference of shapes,
        by its reference where shapes follow from values."""
        given = {value.name: value for value in inputs if value is not None}
        graph = helper.make_graph(
            [node],
            "node",
            [_info(value) for name, value in given.items() if name not in self.initializers],
            [helper.make_empty_tensor_value_info(name) for name in node.output],
            [
                numpy_helper.from_array(self.initializers[name], name)
                for name in given
                if name in self.initializers
            ],
        )
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        typed = onnx.shape_inference.infer_shapes(model, data_prop=True)
        shapes = [_shape_and_type(info) for info in typed.graph.output]
        known = [found for found in shapes if found is not None]
        if len(known) == len(shapes):
            return known
        zeros = {
            name: np.zeros(value.shape, value.dtype)
            for name, value in given.items()
            if name not in self.initializers
        }
        evaluator: Any = ReferenceEvaluator(model)
        return [(np.shape(one), np.asarray(one).dtype) for one in evaluator.run(None, zeros)]


def _info(value: Value) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(
        value.name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
    )


def _shape_and_type(
    info: onnx.ValueInfoProto,
) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    tensor = info.type.tensor_type
    if not tensor.elem_type or not tensor.HasField("shape"):
        return None
    if not all(extent.HasField("dim_value") for extent in tensor.shape.dim):
        return None
    shape = tuple(extent.dim_value for extent in tensor.shape.dim)
    return shape, np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))


Block: TypeAlias = Callable[[NetworkWriter, Value], Value | None]
"""Adds some nodes behind a value and returns their result; None if it does not take the value."""
