"""Quantised modules of PyTorch: operators of pt2e, and tensors of torchao that have parts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.graph.torch.compile_backend import torch_backend
from tests.graph.torch.torch_oracle import module_of, torch

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("torch.ao.quantization.fx._decomposed")
Q: Any = torch.ops.quantized_decomposed
SCALES = torch.tensor([0.1, 0.03, 0.5, 0.007])
ZEROS = torch.tensor([3, -5, 0, 100])
BYTES = torch.randint(-128, 128, (4, 6), dtype=torch.int8)

OPERATORS: dict[str, Callable[[Any], Any]] = {
    "tensor there": lambda x: Q.quantize_per_tensor(x, 0.1, 3, -128, 127, torch.int8),
    "tensor to uint8": lambda x: Q.quantize_per_tensor(x, 0.013, 128, 0, 255, torch.uint8),
    "tensor and back": lambda x: Q.dequantize_per_tensor(
        Q.quantize_per_tensor(x, 0.1, 3, -8, 7, torch.int8), 0.1, 3, -8, 7, torch.int8
    ),
    "by tensors": lambda x: Q.quantize_per_tensor.tensor(
        x, SCALES[1], ZEROS[1], -128, 127, torch.int8
    ),
    "back by tensors": lambda x: Q.dequantize_per_tensor.tensor(
        (x * 9).to(torch.int8), SCALES[1], ZEROS[1], -128, 127, torch.int8
    ),
    "channels there": lambda x: Q.quantize_per_channel(
        x, SCALES, ZEROS, 0, -128, 127, torch.int8
    ),
    "channels of the last axis": lambda x: Q.quantize_per_channel(
        x.t(), SCALES, ZEROS, 1, -128, 127, torch.int8
    ),
    "channels back": lambda x: Q.dequantize_per_channel(
        (x * 9).to(torch.int8), SCALES, ZEROS, 0, -128, 127, torch.int8
    ),
    "channels without zeros": lambda x: Q.dequantize_per_channel(
        (x * 9).to(torch.int8), SCALES, None, 0, -128, 127, torch.int8
    ),
    "a weight": lambda x: torch.nn.functional.linear(
        x, Q.dequantize_per_channel(BYTES, SCALES, ZEROS, 0, -128, 127, torch.int8)
    ),
    "tokens": lambda x: Q.quantize_per_token(
        x, SCALES[:, None], ZEROS[:, None], -128, 127, torch.int8
    ),
    "tokens back": lambda x: Q.dequantize_per_token(
        BYTES + x.to(torch.int8), SCALES[:, None], ZEROS[:, None], -128, 127, torch.int8,
        torch.float32,
    ),
    "groups": lambda x: x * Q.dequantize_per_channel_group(
        BYTES, SCALES[:, None].expand(4, 2), None, -128, 127, torch.int8, 3, torch.float32
    ),
    "bytes": lambda x: torch._int_mm((x.repeat(8, 4) * 9).to(torch.int8), BYTES.repeat(6, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str) -> None:
    function = OPERATORS[name]
    for seed in range(3):
        given = torch.randn(4, 6, generator=torch.Generator().manual_seed(seed)) * 2
        wanted = function(given).numpy()
        found = ac.build(ac.from_torch(module_of(function), (given,)))(given.numpy())
        assert found.dtype == wanted.dtype
        if wanted.dtype.kind == "f":
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("config", [
    "Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig", "IntxWeightOnlyConfig",
    "Int8DynamicActivationIntxWeightConfig",
])  # fmt: skip
def test_tensors_that_have_parts(config: str) -> None:
    ao: Any = pytest.importorskip("torchao.quantization")
    if not hasattr(ao, config):
        pytest.skip(f"this torchao has no {config}")
    torch.compiler.reset()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.GELU(), torch.nn.Linear(96, 32))
    ao.quantize_(model.eval(), getattr(ao, config)())
    given = torch.randn(8, 64)
    run = torch.compile(model, backend=torch_backend)
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            torch.testing.assert_close(run(given), model(given), atol=1e-4, rtol=1e-4)
        wanted = model(given).numpy()
    assert not [one for one in caught if "ansorc" in str(one.message)]
    found = ac.build(ac.from_torch(model, (given,)))(given.numpy())
    np.testing.assert_allclose(found, wanted, atol=1e-4)
