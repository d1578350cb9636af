"""Modules of many element-wise layers, each of which reads the one before it more than once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.graph.torch.torch_oracle import assert_as_torch, torch

nn: Any = torch.nn
LAYERS = {
    "silu": nn.SiLU, "gelu": nn.GELU, "tanh gelu": lambda: nn.GELU(approximate="tanh"),
    "celu": nn.CELU, "mish": nn.Mish,
}  # fmt: skip


@pytest.mark.parametrize("name", ["gelu", "mixed"])
def test_chains_of_layers(name: str) -> None:
    names = [list(LAYERS)[n % len(LAYERS)] if name == "mixed" else name for n in range(12)]
    module = nn.Sequential(*(LAYERS[one]() for one in names)).eval()
    torch.manual_seed(0)
    assert_as_torch(module, [torch.rand(8, 33) * 2 - 1])
