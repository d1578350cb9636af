"""Operators of 16-bit floats err no more than 1.2 times as much as PyTorch's, root mean square."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ansorc as ac
from ansorc import ops
from ansorc.ir.aligned import Array
from tests.graph.torch.torch_oracle import torch

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]
F: Any = torch.nn.functional
Shapes = tuple[tuple[int, ...], ...]
Tensor = ac.Tensor
Build = (
    Callable[[Tensor], Tensor]
    | Callable[[Tensor, Tensor], Tensor]
    | Callable[[Tensor, Tensor, Tensor], Tensor]
)
Peer = Callable[[Any], Any] | Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any]
Case = tuple[Build, Peer, Shapes, tuple[float, ...]]
CASES: dict[str, Case] = {
    "sum": (lambda x: ops.sum(x, 1), lambda x: x.sum(1), ((64, 4096),), (3.0,)),
    "mean": (lambda x: ops.mean(x, 1), lambda x: x.mean(1), ((64, 4096),), (100.0,)),
    "softmax": (ops.softmax, lambda x: x.softmax(-1), ((16, 4096),), (0.0,)),
    "log_softmax": (ops.log_softmax, lambda x: x.log_softmax(-1), ((16, 4096),), (0.0,)),
    "layer_norm": (
        ops.layer_norm,
        lambda x, a, b: F.layer_norm(x, (4096,), a, b),
        ((16, 4096), (4096,), (4096,)),
        (100.0, 1.0, 0.0),
    ),
    "rms_norm": (
        ops.rms_norm,
        lambda x, a: F.rms_norm(x, (4096,), a, 1e-5),
        ((16, 4096), (4096,)),
        (100.0, 1.0),
    ),
    "matmul": (ops.matmul, lambda x, y: x @ y, ((64, 1024), (1024, 64)), (1.0, 0.0)),
    "conv2d": (
        lambda x, w: ops.conv2d(x, w, layout="NCHW"),
        F.conv2d,
        ((1, 64, 14, 14), (32, 64, 3, 3)),
        (1.0, 0.0),
    ),
    "global_avg_pool": (
        lambda x: ops.global_avg_pool(x, "NCHW"),
        lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1),
        ((4, 64, 64, 64),),
        (2.0,),
    ),
    "gelu": (ops.gelu, F.gelu, ((64, 1024),), (-1.0,)),
    "attention": (
        ops.attention,
        F.scaled_dot_product_attention,
        ((1, 4, 64, 64), (1, 4, 1024, 64), (1, 4, 1024, 64)),
        (0.0, 0.0, 0.0),
    ),
}


def _array(tensor: Any, kind: str) -> Array:
    bits = tensor.contiguous().view(torch.int16).numpy()
    return bits.view(np.float16 if kind == "float16" else ml_dtypes.bfloat16)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_errors_beside_those_of_pytorch(name: str, kind: str) -> None:
    build, function, shapes, means = CASES[name]
    generator = torch.Generator().manual_seed(11)
    given = [
        (torch.randn(shape, generator=generator) + mean).to(getattr(torch, kind))
        for shape, mean in zip(shapes, means, strict=True)
    ]
    exact: Array = function(*(one.double() for one in given)).numpy()
    theirs: Array = function(*given).double().numpy()
    inputs = [ac.placeholder(shape, f"x{n}", kind) for n, shape in enumerate(shapes)]
    result = build(*inputs)
    found = np.empty(result.shape, result.dtype.numpy)
    ac.build(ac.ComputeDAG([*inputs, result]))(*(_array(one, kind) for one in given), found)
    errors = [np.sqrt(np.mean((one.astype(float) - exact) ** 2)) for one in (found, theirs)]
    assert errors[0] <= 1.2 * errors[1], errors
