"""ONNX operators that make probabilities along an axis, and the losses of classifiers."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ansorc.graph.onnx.node_call import Converter, NodeCall

_ALONG_ONE_AXIS_SINCE = 13


def _softmax(operator: str) -> Converter:
    """Before opset 13 all dimensions from the axis on are one."""

    def convert(call: NodeCall) -> str:
        data, shape = call.input(0), call.type(0).shape
        is_new = call.opset >= _ALONG_ONE_AXIS_SINCE
        axis = call.axis(call.attribute("axis", -1 if is_new else 1), len(shape))
        if is_new or axis == len(shape) - 1:
            return _along(call, operator, data, axis)
        matrix = [math.prod(shape[:axis]), math.prod(shape[axis:])]
        result = _along(call, operator, call.add("reshape", [data], shape=matrix), 1)
        return call.add("reshape", [result], shape=shape)

    return convert


def _along(call: NodeCall, operator: str, data: str, axis: int) -> str:
    if operator != "hardmax":
        return call.add(operator, [data], axis=axis)
    kind = call.builder.type(data)
    largest = call.add("argmax", [data], axis=axis)
    depth, name = kind.shape[axis], str(kind.dtype)
    return call.add("one_hot", [largest], depth=depth, axis=axis, dtype=name)


def _loss(call: NodeCall) -> str:
    return _likelihood(call, call.input(0))


def _cross_entropy(call: NodeCall) -> list[str]:
    scores = call.add("log_softmax", [call.input(0)], axis=1)
    return [_likelihood(call, scores), scores]


def _likelihood(call: NodeCall, scores: str) -> str:
    inputs = [scores, *(call.input(index) for index in range(1, call.count) if call.has(index))]
    return call.add(
        "negative_log_likelihood",
        inputs,
        reduction=call.attribute("reduction", "mean"),
        ignored=call.attribute("ignore_index"),
    )


SOFTMAX: Mapping[str, Converter] = {
    "Hardmax": _softmax("hardmax"),
    "LogSoftmax": _softmax("log_softmax"),
    "NegativeLogLikelihoodLoss": _loss,
    "Softmax": _softmax("softmax"),
    "SoftmaxCrossEntropyLoss": _cross_entropy,
}
