"""ONNX operators that normalise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ansorc.graph.importing.values import Value
from ansorc.graph.onnx.node_call import Converter, NodeCall

_TRAINED_SINCE = 14
"""The version from which on a batch norm says that it takes the statistics of its batch."""


def _batch_norm(call: NodeCall) -> Value | Sequence[Value]:
    if call.attribute("training_mode", 0) and call.opset >= _TRAINED_SINCE:
        return _batch_norm_of_batch(call)
    if len([name for name in call.node.outputs if name]) > 1:
        call.refuse("it is in training mode; export the network for inference")
    shape = call.type(0).shape
    if len(shape) > 1 and call.attribute("spatial", 1):
        return _batch_norm_of(call, call.input(0), [call.input(index) for index in range(1, 5)])
    # one dimension has one channel; without `spatial` each element of an image has its own numbers
    rows = math.prod(shape[1:])
    vectors = [call.add("reshape", [call.input(index)], shape=[rows]) for index in range(1, 5)]
    data = call.add("reshape", [call.input(0)], shape=[math.prod(shape[:1]), rows])
    return call.add("reshape", [_batch_norm_of(call, data, vectors)], shape=shape)


def _batch_norm_of(call: NodeCall, data: str, vectors: Sequence[str]) -> str:
    """`data`, [n, c, …], by scale, shift, mean and variance [c]; what is known is one factor."""
    epsilon = call.attribute("epsilon", 1e-5)
    known = [call.value(index) for index in range(1, 5)]
    if all(vector is not None for vector in known):
        scale, shift, mean, variance = (np.asarray(vector, np.float64).ravel() for vector in known)
        factor = scale / np.sqrt(variance + epsilon)
        kind = call.type(0).dtype.numpy
        folded = [factor.astype(kind), (shift - mean * factor).astype(kind)]
        return call.add("batch_norm", [data, *map(call.constant, folded)], axis=1)
    return call.add("batch_norm_inference", [data, *vectors], axis=1, epsilon=epsilon)


def _batch_norm_of_batch(call: NodeCall) -> Sequence[Value]:
    """By the statistics of the batch itself; and the running ones, moved towards them."""
    data, rank = call.input(0), call.rank(0)
    axes, momentum = [0, *range(2, rank)], float(call.attribute("momentum", 0.9))
    mean = call.add("mean", [data], axis=axes)
    apart = call.add("bias_add", [data, call.add("negative", [mean])], axis=1)
    variance = call.add("mean", [call.add("multiply", [apart, apart])], axis=axes)
    vectors = [call.input(1), call.input(2), mean, variance]
    epsilon = call.attribute("epsilon", 1e-5)
    result = call.add("batch_norm_inference", [data, *vectors], axis=1, epsilon=epsilon)
    running = [
        call.add(
            "add",
            [
                call.add("multiply", [old, call.scalar(momentum, old)]),
                call.add("multiply", [new, call.scalar(1 - momentum, new)]),
            ],
        )
        for old, new in ((call.input(3), mean), (call.input(4), variance))
    ]
    return [result, *running]


def _instance_norm(call: NodeCall) -> str:
    return normalize_groups(call, call.type(0).shape[1], [call.input(1), call.input(2)])


def _group_norm(call: NodeCall) -> str:
    groups, channels = call.attribute("num_groups"), call.type(0).shape[1]
    vectors = [call.input(1), call.input(2)]
    if call.opset < 21 and channels != groups:  # one number for each group
        each = channels // groups
        vectors = [call.add("reshape", [vector], shape=[groups, 1]) for vector in vectors]
        vectors = [call.add("broadcast_to", [vector], shape=[groups, each]) for vector in vectors]
        vectors = [call.add("reshape", [vector], shape=[channels]) for vector in vectors]
    return normalize_groups(call, groups, vectors)


def normalize_groups(call: NodeCall, groups: int, vectors: Sequence[str]) -> str:
    """Return input 0, [n, c, …], normalised over each group, times and plus `vectors` [c]."""
    shape, data = call.type(0).shape, call.input(0)
    layout = {3: "NCL", 4: "NCHW", 5: "NCDHW"}.get(len(shape))
    if layout is None:
        data = call.add("reshape", [data], shape=[*shape[:2], math.prod(shape[2:])])
    epsilon = call.attribute("epsilon", 1e-5)
    result = call.add(
        "group_norm", [data, *vectors], groups=groups, epsilon=epsilon, layout=layout or "NCL"
    )
    return result if layout else call.add("reshape", [result], shape=shape)


def _layer_norm(call: NodeCall) -> Sequence[str]:
    shape = call.type(0).shape
    axis, epsilon = (
        call.axis(call.attribute("axis", -1), len(shape)),
        call.attribute("epsilon", 1e-5),
    )
    wants_all = len([name for name in call.node.outputs if name]) > 1
    if call.has(2) and not wants_all and _is_whole(call, axis, 1, 2):
        return [call.add("layer_norm", call.inputs(), epsilon=epsilon)]
    axes = list(range(axis, len(shape)))
    names = ("", "", "") if wants_all else ("",)
    result, *statistics = call.builder.add_many(
        "standardize", [call.input(0)], names, axes=axes, epsilon=epsilon, statistics=wants_all
    )
    result = call.add("multiply", [result, call.input(1)])
    if call.has(2):
        result = call.add("add", [result, call.input(2)])
    return [result, *statistics]


def _rms_norm(call: NodeCall) -> str:
    shape = call.type(0).shape
    axis, epsilon = (
        call.axis(call.attribute("axis", -1), len(shape)),
        call.attribute("epsilon", 1e-5),
    )
    if _is_whole(call, axis, 1):
        return call.add("rms_norm", [call.input(0), call.input(1)], epsilon=epsilon)
    axes = list(range(axis, len(shape)))
    result = call.add("standardize", [call.input(0)], axes=axes, epsilon=epsilon, centered=False)
    return call.add("multiply", [result, call.input(1)])


def _is_whole(call: NodeCall, axis: int, *places: int) -> bool:
    """Return whether some inputs have exactly the extents of input 0 from `axis` on."""
    return all(call.type(index).shape == call.type(0).shape[axis:] for index in places)


def _mean_variance(call: NodeCall) -> str:
    axes = call.attribute("axes") or [0, 2, 3]
    return call.add("standardize", [call.input(0)], axes=axes, epsilon=0.0, outside=1e-9)


def _lp_norm(call: NodeCall) -> str:
    p, axis = call.attribute("p", 2), call.attribute("axis", -1)
    if p not in (1, 2):
        call.refuse(f"p is {p}; it must be 1 or 2")
    return call.add("lp_normalize", [call.input(0)], axis=axis, p=p)


def _lrn(call: NodeCall) -> str:
    return call.add(
        "local_response_norm", [call.input(0)], size=call.attribute("size"),
        alpha=call.attribute("alpha", 1e-4), beta=call.attribute("beta", 0.75),
        bias=call.attribute("bias", 1.0),
    )  # fmt: skip


NORMALIZATION: Mapping[str, Converter] = {
    "BatchNormalization": _batch_norm,
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _instance_norm,
    "LRN": _lrn,
    "LayerNormalization": _layer_norm,
    "LpNormalization": _lp_norm,
    "MeanVarianceNormalization": _mean_variance,
    "RMSNormalization": _rms_norm,
    "SimplifiedLayerNormalization": _rms_norm,
}
