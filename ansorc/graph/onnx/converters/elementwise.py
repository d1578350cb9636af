"""ONNX operators on single elements, and on pairs of broadcast ones."""

from __future__ import annotations

from collections.abc import Mapping

from ansorc.graph.onnx.node_call import Converter, NodeCall


def _plain(operator: str) -> Converter:
    """A node with the inputs of an operator of graphs, and no attributes."""
    return lambda call: call.add(operator, call.inputs())


def _clip(call: NodeCall) -> str:
    data = call.input(0)
    if call.opset < 11:
        low, high = call.attribute("min"), call.attribute("max")
        bounds = [None if one is None else call.scalar(one, data) for one in (low, high)]
    else:
        bounds = [call.input(place) if call.has(place) else None for place in (1, 2)]
    for operator, bound in zip(("maximum", "minimum"), bounds, strict=True):
        if bound is not None:
            data = call.add(operator, [data, bound])
    return data


def _leaky_relu(call: NodeCall) -> str:
    return call.add("leaky_relu", [call.input(0)], slope=call.attribute("alpha", 0.01))


_SAME = {
    "Abs": "abs", "Add": "add", "Mul": "multiply", "Relu": "relu", "Sigmoid": "sigmoid",
    "Sub": "subtract", "Tanh": "tanh", "Exp": "exp", "Sqrt": "sqrt", "Erf": "erf",
}  # fmt: skip

ELEMENTWISE: Mapping[str, Converter] = {
    **{name: _plain(operator) for name, operator in _SAME.items()},
    "Clip": _clip,
    "LeakyRelu": _leaky_relu,
}
