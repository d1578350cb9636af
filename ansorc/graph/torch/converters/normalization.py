"""ATen's operators that normalise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ansorc.graph.torch.torch_call import TorchCall, TorchConverter


def _batch_norm(call: TorchCall) -> Sequence[str]:
    """Normalisation by known statistics; all vectors that are known become two."""
    data, kind = call.input("input"), call.type("input").dtype
    channels = call.type("input").shape[1]
    given = {name: call.value(name) for name in ("weight", "bias", "running_mean", "running_var")}
    epsilon = float(call.get("eps"))
    if all(given[name] is not None or not call.has(name) for name in given):
        scale, shift, mean, variance = (
            np.full(channels, default) if array is None else np.asarray(array, np.float64)
            for array, default in zip(given.values(), (1.0, 0.0, 0.0, 1.0), strict=True)
        )
        factor = scale / np.sqrt(variance + epsilon)
        folded = [factor.astype(kind.numpy), (shift - mean * factor).astype(kind.numpy)]
        return [call.add("batch_norm", [data, *map(call.constant, folded)], axis=1)]
    defaults = {"weight": 1.0, "bias": 0.0}
    vectors = [
        call.input(name)
        if call.has(name)
        else call.constant(np.full(channels, defaults[name], kind.numpy))
        for name in given
    ]
    return [call.add("batch_norm_inference", [data, *vectors], axis=1, epsilon=epsilon)]


def _batch_statistics(call: TorchCall) -> Sequence[str]:
    """Normalisation by the statistics of the batch itself, none kept: an instance norm."""
    shape = call.type("input").shape
    axes = [d for d in range(len(shape)) if d != 1]
    result = call.add(
        "standardize", [call.input("input")], axes=axes, epsilon=float(call.get("eps"))
    )
    return [_scale_and_shift(call, result, [shape[1], *[1] * (len(shape) - 2)])]


def _training(call: TorchCall) -> str:
    call.refuse("it is a batch norm in training mode; call module.eval() before")


def _group_norm(call: TorchCall) -> Sequence[str]:
    shape, data = call.type("input").shape, call.input("input")
    groups, kind = call.get("num_groups", call.get("group")), call.type("input").dtype
    defaults = {"weight": 1.0, "bias": 0.0}
    vectors = [
        call.input(name)
        if call.has(name)
        else call.constant(np.full(shape[1], default, kind.numpy))
        for name, default in defaults.items()
    ]
    layout = {3: "NCL", 4: "NCHW", 5: "NCDHW"}.get(len(shape))
    if layout is None:
        data = call.reshape(data, [*shape[:2], math.prod(shape[2:])])
    result = call.add(
        "group_norm", [data, *vectors], groups=groups, epsilon=float(call.get("eps")),
        layout=layout or "NCL",
    )  # fmt: skip
    return [call.reshape(result, shape)]


def _layer_norm(call: TorchCall) -> Sequence[str]:
    shape, epsilon = call.type("input").shape, float(call.get("eps"))
    count = len(call.get("normalized_shape"))
    if any(index in call.node.used for index in (1, 2)):
        call.refuse("its mean and its deviation are read; compute them by mean and var")
    if call.has("weight") and call.has("bias"):
        inputs = [call.input(name) for name in ("input", "weight", "bias")]
        return [call.add("layer_norm", inputs, epsilon=epsilon)]
    axes = list(range(len(shape) - count, len(shape)))
    result = call.add("standardize", [call.input("input")], axes=axes, epsilon=epsilon)
    return [_scale_and_shift(call, result, list(shape[-count:]))]


def _scale_and_shift(call: TorchCall, result: str, shape: Sequence[int]) -> str:
    """`result` times the weight and plus the bias, where there are such, both of `shape`."""
    for operator, name in (("multiply", "weight"), ("add", "bias")):
        if call.has(name):
            result = call.add(operator, [result, call.reshape(call.input(name), shape)])
    return result


def _rms_norm(call: TorchCall) -> str:
    shape = call.type("input").shape
    count = len(call.get("normalized_shape"))
    epsilon = float(call.get("eps", np.finfo(call.type("input").dtype.name).eps))
    if call.has("weight"):
        return call.add("rms_norm", [call.input("input"), call.input("weight")], epsilon=epsilon)
    axes = list(range(len(shape) - count, len(shape)))
    return call.add(
        "standardize", [call.input("input")], axes=axes, epsilon=epsilon, centered=False
    )


TORCH_NORMALIZATION: Mapping[str, TorchConverter] = {
    "_native_batch_norm_legit.default": _training,
    "_native_batch_norm_legit.no_stats": _batch_statistics,
    "_native_batch_norm_legit_functional.default": _training,
    "_native_batch_norm_legit_no_training.default": _batch_norm,
    "group_norm.default": lambda call: _group_norm(call)[0],
    "layer_norm.default": lambda call: _layer_norm(call)[0],
    "native_batch_norm.default": _training,
    "native_group_norm.default": _group_norm,
    "native_layer_norm.default": _layer_norm,
    "rms_norm.default": _rms_norm,
}
