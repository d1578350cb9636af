"""Whatever a user gives to `ac.ops`, it is taken, or refused by an error of ansorc."""

# pyright: basic, reportArgumentType=false, reportCallIssue=false
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc import ops
from tests.e2e.hostile.values import bare_errors

V, W, Q = (ac.placeholder((4,), name) for name in "VWQ")
M, N = ac.placeholder((3, 4), "M"), ac.placeholder((4, 3), "N")
B = ac.placeholder((2, 3, 4), "B")
C = ac.placeholder((2, 4, 3), "C")
L = ac.placeholder((1, 6, 4), "L")
I2 = ac.placeholder((1, 6, 6, 4), "I2")
I3 = ac.placeholder((1, 5, 5, 5, 4), "I3")
K1, K2 = ac.placeholder((3, 4, 2), "K1"), ac.placeholder((3, 3, 4, 2), "K2")
K3 = ac.placeholder((3, 3, 3, 4, 2), "K3")
D2 = ac.placeholder((3, 3, 4), "D2")
P = ac.placeholder((2,), "P", "int64")
PM = ac.placeholder((3, 4), "PM", "int64")
T = ac.placeholder((3, 4), "T", "bool")
A4 = ac.placeholder((1, 2, 5, 4), "A4")
X = ac.placeholder((3, 8), "X", "uint8")
Y = ac.placeholder((2, 5, 4), "Y", "int8")
CD = ac.placeholder((1, 5, 5, 2, 2, 3), "CD")
CW = ac.placeholder((3, 3, 2, 2, 3, 2), "CW")

CALLS: Mapping[str, tuple[Sequence[Any], Mapping[str, Any]]] = {
    "add": ([M, V], {"name": "y"}), "subtract": ([M, V], {}), "multiply": ([M, V], {}),
    "divide": ([M, V], {}), "maximum": ([M, V], {}), "minimum": ([M, V], {}),
    "power": ([M, V], {}), "where": ([T, M, V], {"name": "y"}),
    "argmax": ([M, 1, "y"], {"keepdims": True}), "argmin": ([M, 0], {"keepdims": False}),
    "argsort": ([M, 1, "y"], {"descending": True}), "sort": ([M, 1, "y"], {"descending": True}),
    "top_k": ([M, 2, 1, "y"], {"largest": False}),
    "cumsum": ([M, 1, "y"], {"reverse": True, "sum_dtype": "float64"}),
    "cumprod": ([M, 0, "y"], {"exclusive": True}),
    "cummax": ([M, 1, "y"], {"reverse": True}), "cummin": ([M, -1, "y"], {}),
    "fft": ([M, M, "y"], {}), "ifft": ([M], {"imaginary": M}), "rfft": ([M, "y"], {}),
    "attention": ([A4, A4, A4], {"causal": True, "scale": 0.5, "name": "y"}),
    "attention_scores": ([A4, A4, "y"], {}),
    "avg_pool1d": ([L, 2], {"stride": 2, "count_include_pad": False, "ceil_mode": True}),
    "avg_pool2d": ([I2, (2, 2)], {"stride": (2, 1), "padding": 1, "layout": "NHWC"}),
    "avg_pool3d": ([I3, 2], {"dilation": 1, "name": "y"}),
    "max_pool1d": ([L, 2], {"stride": 2}), "max_pool2d": ([I2, (2, 2)], {"padding": (1, 1, 0, 0)}),
    "max_pool3d": ([I3, 2], {"dilation": (1, 1, 1), "ceil_mode": False}),
    "batch_matmul": ([B, C, "y"], {"sum_dtype": "float32"}),
    "batch_norm": ([M, V, W, -1, "y"], {}),
    "batch_norm_inference": ([M, V, W, Q, V], {"axis": 1, "epsilon": 1e-5, "name": "y"}),
    "bias_add": ([M, V, -1, "y"], {}), "broadcast_to": ([M, (2, 3, 4), "y"], {}),
    "capsule_conv2d": ([CD, CW], {"stride": 1, "padding": 1, "name": "y"}),
    "cast": ([M, "int32", "y"], {}), "clip": ([M, -1.0, 1.0, "y"], {}),
    "concat": ([[M, M], 0, "y"], {}), "stack": ([[M, M], 0, "y"], {}),
    "conv1d": ([L, K1], {"stride": 1, "padding": 1, "groups": 1, "sum_dtype": "float32"}),
    "conv2d": ([I2, K2], {"stride": (1, 2), "padding": 1, "dilation": 1, "pad_value": 0.0}),
    "conv3d": ([I3, K3], {"layout": "NDHWC", "name": "y"}),
    "conv1d_transpose": ([L, K1], {"stride": 2, "output_padding": 1}),
    "conv2d_transpose": ([I2, K2], {"stride": (2, 2), "groups": 1, "padding": 1}),
    "conv3d_transpose": ([I3, K3], {"stride": 1, "name": "y"}),
    "conv2d_winograd": ([I2, K2], {"padding": 1, "name": "y"}),
    "winograd_weights": ([K2, "y"], {}),
    "cross_entropy": ([B, PM.__class__(ac.placeholder((2, 3), "E", "int64").buffer), "y"], {}),
    "dense": ([M, ac.placeholder((5, 4), "U"), "y"], {"sum_dtype": None}),
    "dense_packed": ([X, Y], {"is_shifted": False, "name": "y"}),
    "depthwise_conv2d": ([I2, D2], {"stride": 2, "padding": 1, "pad_value": 1.0}),
    "edge_pad": ([M, (1, 0), (0, 1), "y"], {}), "reflect_pad": ([M, (1, 0), (0, 1), "y"], {}),
    "pad": ([M, (1, 0), (0, 1), 2.0, "y", ["i", "j"]], {}),
    "elu": ([M, 1.0, "y"], {}), "embedding": ([M, P, "y"], {}),
    "expand_dims": ([M, (0, 2), "y"], {}), "flatten": ([B, 1, "y"], {}), "flip": ([M, 0, "y"], {}),
    "gather": ([M, PM, 1, "clip", "y"], {}), "gelu": ([M, "y"], {"approximate": True}),
    "global_avg_pool": ([I2, "NHWC", "y"], {}), "global_max_pool": ([I2, "", "y"], {}),
    "group_norm": ([I2, V, W, 2], {"epsilon": 1e-5, "layout": "NHWC", "name": "y"}),
    "hard_sigmoid": ([M, 0.2, 0.5, "y"], {}), "hard_swish": ([M, "y"], {}),
    "instance_norm": ([I2, V, W], {"epsilon": 1e-5}), "l2_normalize": ([M, 1, 1e-12, "y"], {}),
    "layer_norm": ([M, V, W, 1e-5, "y"], {}), "leaky_relu": ([M, 0.1, "y"], {}),
    "log_softmax": ([M, -1, "y"], {}), "softmax": ([M, -1, "y"], {}),
    "matmul": ([M, N, "y"], {"sum_dtype": "float64"}),
    "max": ([M, 1, "y"], {"keepdims": True}), "min": ([M, (0, 1), "y"], {"keepdims": False}),
    "sum": ([M, None, "y"], {"keepdims": True}), "prod": ([M, 0, "y"], {}),
    "mean": ([M, (0,), "y"], {}), "mish": ([M, "y"], {}), "norm2": ([B, "y"], {}),
    "one_hot": ([P, 5, -1, "float32", "y"], {}),
    "pack_groups": ([ac.placeholder((5, 8), "G", "int8"), 4, "y"], {}),
    "prelu": ([M, V, -1, "y"], {}), "relu": ([M, "y"], {}), "relu6": ([M, "y"], {}),
    "reshape": ([M, (2, -1), "y"], {}),
    "resize2d_bilinear": ([I2, (3, 9)], {"coordinates": "half_pixel", "layout": "NHWC"}),
    "resize2d_nearest": ([I2, 4], {"rounding": "floor", "name": "y"}),
    "rms_norm": ([M, V, 1e-5, "y"], {}), "selu": ([M, "y"], {}), "sigmoid": ([M, "y"], {}),
    "silu": ([M, "y"], {}), "slice": ([M, (0, None), (2, None), (1, 2), "y"], {}),
    "softplus": ([M, "y"], {}), "softsign": ([M, "y"], {}),
    "sparse_matmul": ([M, *ac.sparse_blocks(np.ones((4, 8), np.float32)).placeholders(), "y"], {}),
    "squeeze": ([ac.placeholder((3, 1), "Z"), 1, "y"], {}),
    "take": ([M, P, 1, "wrap", "y"], {}), "tanh": ([M, "y"], {}), "tile": ([M, (2, 1), "y"], {}),
    "transpose": ([M, (1, 0), "y"], {}),
}  # fmt: skip


def test_every_operator_is_here() -> None:
    assert set(CALLS) == set(ops.__all__)


@pytest.mark.parametrize("name", CALLS)
def test_hostile_arguments(name: str) -> None:
    args, options = CALLS[name]
    assert not bare_errors(name, getattr(ops, name), args, options)


def test_numbers_of_numpy_are_taken() -> None:
    one, two = np.int64(1), np.int32(2)
    assert ops.sum(M, axis=one).shape == (3,)
    assert ops.sum(M, axis=np.array([0, 1])).shape == ()
    assert ops.softmax(M, np.int8(-1)).shape == (3, 4)
    assert ops.reshape(M, (two, np.int64(6))).shape == (2, 6)
    assert ops.reshape(M, np.array([2, 6])).shape == (2, 6)
    assert ops.max_pool2d(I2, np.int64(2), stride=np.int64(2)).shape == (1, 3, 3, 4)
    assert ops.conv2d(I2, K2, padding=one, groups=np.int64(1)).shape == (1, 6, 6, 2)
    assert ops.pad(M, np.array([1, 0]), (0, one), np.float32(2.0)).shape == (4, 5)
    assert ops.clip(M, np.float32(-1.0), np.float64(1.0)).shape == (3, 4)
    assert ops.cast(M, np.int32).dtype.name == "int32"
    assert ops.one_hot(P, np.int64(5), dtype=np.dtype("float16")).dtype.name == "float16"
    assert ops.matmul(M, N, sum_dtype=np.float64).dtype.name == "float64"
    assert ops.sum(M, 1, keepdims=np.True_).shape == (3, 1)
    assert ops.top_k(M, np.int64(2))[0].shape == (3, 2)


def test_ends_beyond_a_dtype_are_none() -> None:
    half = ac.placeholder((4,), "half", "float16")
    text = ac.ComputeDAG([half, ops.clip(half, -1e9, 1e9, "y")]).to_text()
    assert "min(max(half[i0], float16(-inf)), float16(inf))" in text
    text = ac.ComputeDAG([M, ops.clip(M, -1e38, 0.1, "y")]).to_text()
    assert "min(max(M[i0, i1], -1e+38), 0.1)" in text
