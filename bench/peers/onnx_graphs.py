"""The problems as ONNX models, weights as constants; made once, read by two runtimes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, checker, helper, numpy_helper

from bench.peers.layouts import Restore, as_images, channels_first, channels_last, library_weight
from bench.peers.problem import Array, Convolution, Norm, Problem, Product, Scores

_OPSET, _IR = 17, 8
OUTPUT = "y"


@dataclass(frozen=True)
class Graph:
    """A model, its inputs by name, and what moves its result to the order of the reference."""

    name: str
    model: ModelProto
    inputs: dict[str, Array]
    out_shape: tuple[int, ...]
    restore: Restore
    is_convolution: bool = False
    """Whether input and output are [n, c, …]."""


def graphs(problem: Problem) -> list[Graph]:
    """Return the models worth trying for `problem`."""
    match problem:
        case Convolution():
            images, restore = as_images(problem)
            found = [_convolution(problem, "convolution", lambda result: result)]
            if images is not problem:
                found.append(_convolution(images, "as images", restore))
            return found
        case Product(a, b):
            shape = (*a.shape[:2], b.shape[2])
            node = helper.make_node("MatMul", ["a", "b"], [OUTPUT])
            return [_graph("MatMul", [node], {"a": a}, {"b": b}, shape)]
        case Norm(x):
            return _norms(x)
        case Scores(query, key):
            return [_scores(query, key)]


def _norms(x: Array) -> list[Graph]:
    flat = x.reshape(len(x), -1)
    whole = helper.make_node("ReduceL2", ["x"], [OUTPUT], axes=[1], keepdims=0)
    square = helper.make_node("ReduceSumSquare", ["x"], ["square"], axes=[1], keepdims=0)
    root = helper.make_node("Sqrt", ["square"], [OUTPUT])
    return [
        _graph("ReduceL2", [whole], {"x": flat}, {}, (len(x),)),
        _graph("ReduceSumSquare", [square, root], {"x": flat}, {}, (len(x),)),
        _norm_by_rows(x),
    ]


def _norm_by_rows(x: Array) -> Graph:
    """Sums of rows, then their sum: several threads can share that, and it rounds less."""
    axes = {"axes": np.array([1])}
    nodes = [
        helper.make_node("ReduceSumSquare", ["x"], ["rows"], axes=[2], keepdims=0),
        helper.make_node("ReduceSum", ["rows", "axes"], ["square"], keepdims=0),
        helper.make_node("Sqrt", ["square"], [OUTPUT]),
    ]
    return _graph("ReduceSumSquare by rows", nodes, {"x": x}, axes, (len(x),))


def _scores(query: Array, key: Array) -> Graph:
    batch, length, heads, _ = query.shape
    nodes = [
        helper.make_node("Transpose", ["query"], ["q"], perm=[0, 2, 1, 3]),
        helper.make_node("Transpose", ["key"], ["k"], perm=[0, 2, 3, 1]),
        helper.make_node("MatMul", ["q", "k"], ["scores"]),
        helper.make_node("Softmax", ["scores"], [OUTPUT], axis=-1),
    ]
    inputs = {"query": query, "key": key}
    return _graph("MatMul, Softmax", nodes, inputs, {}, (batch, heads, length, length))


def _convolution(conv: Convolution, name: str, restore: Restore) -> Graph:
    folded, bias = conv.folded()
    weights = {"w": library_weight(conv, folded)}
    if bias is not None:
        weights["bias"] = bias
    last = OUTPUT if bias is None else "conv"
    attributes: dict[str, Any] = {
        "strides": conv.stride,
        "pads": [*conv.padding, *conv.padding],
        "dilations": conv.dilation,
        "group": conv.groups,
    }
    kind = "ConvTranspose" if conv.is_transposed else "Conv"
    nodes = [helper.make_node(kind, ["x", *weights], [last], **attributes)]
    if bias is not None:
        nodes.append(helper.make_node("Relu", ["conv"], [OUTPUT]))
    n, *spatial, co = conv.out_shape
    inputs = {"x": channels_first(conv.x)}
    back: Restore = lambda result: restore(channels_last(result))  # noqa: E731
    found = _graph(name, nodes, inputs, weights, (n, co, *spatial))
    return replace(found, restore=back, is_convolution=True)


def _graph(
    name: str,
    nodes: Sequence[NodeProto],
    inputs: dict[str, Array],
    weights: dict[str, Array],
    out_shape: tuple[int, ...],
) -> Graph:
    def described(name: str, shape: Sequence[int]) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))

    graph = helper.make_graph(
        nodes,
        "case",
        [described(key, array.shape) for key, array in inputs.items()],
        [described(OUTPUT, out_shape)],
        [numpy_helper.from_array(np.ascontiguousarray(a), key) for key, a in weights.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR
    )
    checker.check_model(model)
    held = {key: np.ascontiguousarray(array) for key, array in inputs.items()}
    return Graph(name, model, held, out_shape, lambda result: result)
