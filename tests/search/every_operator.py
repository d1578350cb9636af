"""A small computation for every ready-made operator, and for weights whose layout may change."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import ansorc.lang as ac
from ansorc.lang import operators as ops


class Case(NamedTuple):
    """Shapes of the inputs, further arguments, options, and dtypes that are not float32."""

    shapes: tuple[tuple[int, ...], ...]
    arguments: tuple[object, ...] = ()
    options: Mapping[str, object] = MappingProxyType({})
    dtypes: tuple[str, ...] = ()
    is_list: bool = False
    """Whether the operator takes its tensors as a list."""


_IMAGE, _CUBE, _MATRIX = (1, 6, 6, 8), (1, 4, 4, 4, 8), (6, 20)
_OF_ONE = (
    "elu", "gelu", "hard_sigmoid", "hard_swish", "leaky_relu", "mish", "relu", "relu6", "selu",
    "sigmoid", "silu", "softplus", "softsign", "tanh", "softmax", "log_softmax", "max", "mean",
    "min", "prod", "sum", "flatten",
)  # fmt: skip
_OF_TWO = ("add", "divide", "maximum", "minimum", "multiply", "power", "subtract")
CASES: dict[str, Case] = {
    **dict.fromkeys(_OF_ONE, Case((_MATRIX,))),
    **dict.fromkeys(_OF_TWO, Case((_MATRIX, _MATRIX))),
    "argmax": Case((_MATRIX,), (1,)),
    "argmin": Case((_MATRIX,), (0,)),
    "sort": Case((_MATRIX,)),
    "argsort": Case((_MATRIX,), (0,)),
    "top_k": Case((_MATRIX,), (3,)),
    "fft": Case(((3, 12), (3, 12))),
    "ifft": Case(((3, 4), (3, 4))),
    "rfft": Case(((3, 8),)),
    "norm2": Case(((3, 4, 10),)),
    "prelu": Case((_MATRIX, (20,))),
    "bias_add": Case((_MATRIX, (20,))),
    "batch_norm": Case((_MATRIX, (20,), (20,))),
    "batch_norm_inference": Case((_MATRIX, (20,), (20,), (20,), (20,))),
    "cast": Case((_MATRIX,), ("float64",)),
    "clip": Case((_MATRIX,), (0.0, 1.0)),
    "where": Case((_MATRIX, _MATRIX, _MATRIX), dtypes=("bool",)),
    "take": Case(((9, 20), (5,)), dtypes=("float32", "int32")),
    "gather": Case((_MATRIX, _MATRIX), dtypes=("float32", "int32")),
    "embedding": Case(((9, 20), (5,)), dtypes=("float32", "int32")),
    "one_hot": Case(((5,),), (12,), dtypes=("int32",)),
    "matmul": Case(((12, 32), (32, 24))),
    "batch_matmul": Case(((2, 4, 16), (2, 16, 9))),
    "dense": Case(((7, 30), (36, 30))),
    "sparse_matmul": Case(
        ((5, 12), (9, 8), (9,), (4,)), dtypes=("float32", "float32", "int32", "int32")
    ),
    "dense_packed": Case(((16, 32), (8, 48, 4)), dtypes=("uint8", "int8")),
    "dense_packed of a short sum": Case(((24, 16), (4, 96, 4)), dtypes=("uint8", "int8")),
    "dense_packed of bfloat16": Case(((16, 16), (8, 48, 2)), dtypes=("bfloat16", "bfloat16")),
    "dense_packed shifted": Case(
        ((5, 16), (4, 32, 4)), options={"is_shifted": True}, dtypes=("int8", "int8")
    ),
    "pack_groups": Case(((24, 16),), (4,), dtypes=("int8",)),
    "attention": Case(((1, 2, 6, 8), (1, 2, 12, 8), (1, 2, 12, 8)), options={"causal": True}),
    "cross_entropy": Case((_MATRIX, (6,)), dtypes=("float32", "int32")),
    "l2_normalize": Case((_MATRIX,)),
    "attention_scores": Case(((1, 12, 2, 8), (1, 12, 2, 8))),
    "capsule_conv2d": Case(((1, 3, 3, 2, 2, 2), (2, 2, 2, 2, 2, 4))),
    "conv1d": Case(((1, 9, 6), (3, 6, 8)), options={"padding": 1}),
    "conv2d": Case((_IMAGE, (3, 3, 8, 12)), options={"padding": 1, "stride": 2}),
    "conv2d in groups": Case((_IMAGE, (2, 2, 4, 12)), options={"groups": 2, "dilation": 2}),
    "conv3d": Case(((1, 3, 3, 3, 4), (2, 2, 2, 4, 8)), options={"padding": 1}),
    "depthwise_conv2d": Case(((1, 6, 6, 20), (3, 3, 20)), options={"padding": 1}),
    "conv1d_transpose": Case(((1, 6, 4), (4, 4, 8)), options={"stride": 2, "padding": 1}),
    "conv2d_transpose": Case(((1, 4, 4, 4), (4, 4, 4, 8)), options={"stride": 2, "padding": 1}),
    "conv3d_transpose": Case(
        ((1, 2, 2, 2, 4), (4, 4, 4, 4, 8)), options={"stride": 2, "padding": 1}
    ),
    "conv2d_winograd": Case((_IMAGE, (3, 3, 8, 12)), options={"padding": 1}),
    "winograd_weights": Case(((3, 3, 4, 20),)),
    "group_norm": Case((_IMAGE, (8,), (8,)), (2,)),
    "instance_norm": Case((_IMAGE, (8,), (8,))),
    "layer_norm": Case((_MATRIX, (20,), (20,))),
    "rms_norm": Case((_MATRIX, (20,))),
    "pad": Case((_MATRIX,), ((1, 2), (0, 3))),
    "edge_pad": Case((_MATRIX,), ((1, 2), (0, 3))),
    "reflect_pad": Case((_MATRIX,), ((1, 2), (0, 3))),
    "avg_pool1d": Case(((1, 9, 20),), (2,)),
    "avg_pool2d": Case((_IMAGE,), (3,), {"padding": 1}),
    "avg_pool3d": Case((_CUBE,), (2,)),
    "max_pool1d": Case(((1, 9, 20),), (2,)),
    "max_pool2d": Case((_IMAGE,), (3,), {"padding": 1, "stride": 2}),
    "max_pool3d": Case((_CUBE,), (2,)),
    "global_avg_pool": Case((_IMAGE,)),
    "global_max_pool": Case((_IMAGE,)),
    "resize2d_bilinear": Case((_IMAGE,), (9,)),
    "resize2d_nearest": Case((_IMAGE,), (9,)),
    "broadcast_to": Case(((1, 20),), ((6, 20),)),
    "concat": Case((_MATRIX, _MATRIX), (0,), is_list=True),
    "expand_dims": Case((_MATRIX,), (1,)),
    "flip": Case((_MATRIX,), (1,)),
    "reshape": Case((_MATRIX,), ((8, 15),)),
    "slice": Case((_MATRIX,), ((1, 2), (5, 18))),
    "squeeze": Case(((6, 1, 20),)),
    "stack": Case((_MATRIX, _MATRIX), (0,), is_list=True),
    "tile": Case(((3, 7),), ((2, 3),)),
    "transpose": Case((_MATRIX,), ((1, 0),)),
    "cumsum": Case((_MATRIX,), (1,)),
    "cumprod": Case((_MATRIX,), (0,)),
    "cummax": Case((_MATRIX,), (1,), {"reverse": True}),
    "cummin": Case((_MATRIX,), (1,)),
}
"""By the name of the operator, and after it what is particular."""
_OF_WEIGHTS = (
    "matmul", "dense", "dense_packed", "conv1d", "conv2d", "conv3d", "conv2d_transpose",
    "depthwise_conv2d",
)  # fmt: skip
NAMES = (*CASES, *(f"{name} of weights" for name in _OF_WEIGHTS))


def computation(name: str) -> ac.ComputeDAG:
    """Return the computation that is called `name` in NAMES."""
    is_constant = name.endswith(" of weights")
    case = CASES[name.removesuffix(" of weights")]
    dtypes = (*case.dtypes, *("float32" for _ in case.shapes[len(case.dtypes) :]))
    tensors = [
        ac.placeholder(shape, f"in{place}", dtype, constant=is_constant and place > 0)
        for place, (shape, dtype) in enumerate(zip(case.shapes, dtypes, strict=True))
    ]
    return defined(name, case, tensors)


def defined(name: str, case: Case, tensors: list[ac.Tensor]) -> ac.ComputeDAG:
    """Return the operator of a case applied to `tensors`."""
    operator: Any = getattr(ops, name.partition(" ")[0])
    given = (tensors,) if case.is_list else tensors
    result = operator(*given, *case.arguments, **case.options)
    results: list[ac.Tensor] = [*result] if isinstance(result, tuple) else [result]
    return ac.ComputeDAG([*tensors, *results])
