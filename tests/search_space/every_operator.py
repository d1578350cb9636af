"""A small computation for every ready-made operator, and for weights whose layout may change."""

from __future__ import annotations

from collections.abc import Callable

import ansorc.lang as ac
from ansorc.lang import operators as ops

Build = Callable[..., ac.Tensor]
Inputs = tuple[tuple[int, ...] | tuple[tuple[int, ...], str], ...]

_IMAGE, _MATRIX = (1, 6, 6, 8), (6, 20)
_FLOATS: dict[str, tuple[Build, Inputs]] = {
    name: (getattr(ops, name), (_MATRIX,))
    for name in (
        "elu", "gelu", "hard_sigmoid", "hard_swish", "leaky_relu", "mish", "relu", "relu6", "selu",
        "sigmoid", "silu", "softplus", "softsign", "tanh", "softmax", "log_softmax",
        "max", "mean", "min", "prod", "sum", "flatten",
    )
}  # fmt: skip
_FLOATS |= {
    name: (getattr(ops, name), (_MATRIX, _MATRIX))
    for name in ("add", "divide", "maximum", "minimum", "multiply", "power", "subtract")
}
_FLOATS |= {
    "argmax": (lambda t: ops.argmax(t, 1), (_MATRIX,)),
    "argmin": (lambda t: ops.argmin(t, 0), (_MATRIX,)),
    "norm2": (ops.norm2, ((3, 4, 10),)),
    "prelu": (ops.prelu, (_MATRIX, (20,))),
    "bias_add": (ops.bias_add, (_MATRIX, (20,))),
    "batch_norm": (ops.batch_norm, (_MATRIX, (20,), (20,))),
    "batch_norm_inference": (ops.batch_norm_inference, (_MATRIX, (20,), (20,), (20,), (20,))),
    "cast": (lambda t: ops.cast(t, "float64"), (_MATRIX,)),
    "clip": (lambda t: ops.clip(t, 0.0, 1.0), (_MATRIX,)),
    "where": (ops.where, ((_MATRIX, "bool"), _MATRIX, _MATRIX)),
    "take": (ops.take, ((9, 20), ((5,), "int32"))),
    "gather": (ops.gather, (_MATRIX, (_MATRIX, "int32"))),
    "embedding": (ops.embedding, ((9, 20), ((5,), "int32"))),
    "one_hot": (lambda t: ops.one_hot(t, 12), (((5,), "int32"),)),
    "matmul": (ops.matmul, ((12, 32), (32, 24))),
    "batch_matmul": (ops.batch_matmul, ((2, 4, 16), (2, 16, 9))),
    "dense": (ops.dense, ((7, 30), (36, 30))),
    "dense_packed": (ops.dense_packed, (((16, 32), "uint8"), ((8, 48, 4), "int8"))),
    "dense_packed of bfloat16": (
        ops.dense_packed, (((16, 16), "bfloat16"), ((8, 48, 2), "bfloat16")),
    ),
    "dense_packed shifted": (
        lambda d, w: ops.dense_packed(d, w, is_shifted=True),
        (((5, 16), "int8"), ((4, 32, 4), "int8")),
    ),
    "pack_groups": (lambda w: ops.pack_groups(w, 4), (((24, 16), "int8"),)),
    "attention_scores": (ops.attention_scores, ((1, 12, 2, 8), (1, 12, 2, 8))),
    "capsule_conv2d": (ops.capsule_conv2d, ((1, 3, 3, 2, 2, 2), (2, 2, 2, 2, 2, 4))),
    "conv1d": (lambda d, w: ops.conv1d(d, w, padding=1), ((1, 9, 6), (3, 6, 8))),
    "conv2d": (lambda d, w: ops.conv2d(d, w, padding=1, stride=2), (_IMAGE, (3, 3, 8, 12))),
    "conv2d in groups": (
        lambda d, w: ops.conv2d(d, w, groups=2, dilation=2), (_IMAGE, (2, 2, 4, 12)),
    ),
    "conv3d": (lambda d, w: ops.conv3d(d, w, padding=1), ((1, 3, 3, 3, 4), (2, 2, 2, 4, 8))),
    "depthwise_conv2d": (
        lambda d, w: ops.depthwise_conv2d(d, w, padding=1), ((1, 6, 6, 20), (3, 3, 20)),
    ),
    "conv1d_transpose": (
        lambda d, w: ops.conv1d_transpose(d, w, stride=2, padding=1), ((1, 6, 4), (4, 4, 8)),
    ),
    "conv2d_transpose": (
        lambda d, w: ops.conv2d_transpose(d, w, stride=2, padding=1),
        ((1, 4, 4, 4), (4, 4, 4, 8)),
    ),
    "conv3d_transpose": (
        lambda d, w: ops.conv3d_transpose(d, w, stride=2, padding=1),
        ((1, 2, 2, 2, 4), (4, 4, 4, 4, 8)),
    ),
    "conv2d_winograd": (
        lambda d, w: ops.conv2d_winograd(d, w, padding=1), (_IMAGE, (3, 3, 8, 12)),
    ),
    "winograd_weights": (ops.winograd_weights, ((3, 3, 4, 20),)),
    "group_norm": (lambda d, s, b: ops.group_norm(d, s, b, 2), (_IMAGE, (8,), (8,))),
    "instance_norm": (ops.instance_norm, (_IMAGE, (8,), (8,))),
    "layer_norm": (ops.layer_norm, (_MATRIX, (20,), (20,))),
    "rms_norm": (ops.rms_norm, (_MATRIX, (20,))),
    "pad": (lambda t: ops.pad(t, (1, 2), (0, 3)), (_MATRIX,)),
    "edge_pad": (lambda t: ops.edge_pad(t, (1, 2), (0, 3)), (_MATRIX,)),
    "reflect_pad": (lambda t: ops.reflect_pad(t, (1, 2), (0, 3)), (_MATRIX,)),
    "avg_pool1d": (lambda t: ops.avg_pool1d(t, 2), ((1, 9, 20),)),
    "avg_pool2d": (lambda t: ops.avg_pool2d(t, 3, padding=1), (_IMAGE,)),
    "avg_pool3d": (lambda t: ops.avg_pool3d(t, 2), ((1, 4, 4, 4, 8),)),
    "max_pool1d": (lambda t: ops.max_pool1d(t, 2), ((1, 9, 20),)),
    "max_pool2d": (lambda t: ops.max_pool2d(t, 3, stride=2, padding=1), (_IMAGE,)),
    "max_pool3d": (lambda t: ops.max_pool3d(t, 2), ((1, 4, 4, 4, 8),)),
    "global_avg_pool": (ops.global_avg_pool, (_IMAGE,)),
    "global_max_pool": (ops.global_max_pool, (_IMAGE,)),
    "resize2d_bilinear": (lambda t: ops.resize2d_bilinear(t, 9), (_IMAGE,)),
    "resize2d_nearest": (lambda t: ops.resize2d_nearest(t, 9), (_IMAGE,)),
    "broadcast_to": (lambda t: ops.broadcast_to(t, (6, 20)), ((1, 20),)),
    "concat": (lambda a, b: ops.concat([a, b], 0), (_MATRIX, _MATRIX)),
    "expand_dims": (lambda t: ops.expand_dims(t, 1), (_MATRIX,)),
    "flip": (lambda t: ops.flip(t, 1), (_MATRIX,)),
    "reshape": (lambda t: ops.reshape(t, (8, 15)), (_MATRIX,)),
    "slice": (lambda t: ops.slice(t, (1, 2), (5, 18)), (_MATRIX,)),
    "squeeze": (ops.squeeze, ((6, 1, 20),)),
    "stack": (lambda a, b: ops.stack([a, b], 0), (_MATRIX, _MATRIX)),
    "transpose": (lambda t: ops.transpose(t, (1, 0)), (_MATRIX,)),
    "tile": (lambda t: ops.tile(t, (2, 3)), ((3, 7),)),
}  # fmt: skip
_OF_WEIGHTS = (
    "matmul", "dense", "dense_packed", "conv1d", "conv2d", "conv3d", "conv2d_transpose",
    "depthwise_conv2d",
)  # fmt: skip


def _dag(build: Build, inputs: Inputs, *, constant: bool) -> ac.ComputeDAG:
    tensors: list[ac.Tensor] = []
    for place, given in enumerate(inputs):
        shape, dtype = (given[0], given[1]) if isinstance(given[-1], str) else (given, "float32")
        is_constant = constant and place > 0
        tensors.append(ac.placeholder(shape, f"in{place}", dtype, constant=is_constant))
    return ac.ComputeDAG([*tensors, build(*tensors)])


def every_operator() -> dict[str, ac.ComputeDAG]:
    """Return the computations by the name of their operator and what is particular."""
    found = {n: _dag(build, inputs, constant=False) for n, (build, inputs) in _FLOATS.items()}
    return found | {
        f"{name} of weights": _dag(*_FLOATS[name], constant=True) for name in _OF_WEIGHTS
    }
