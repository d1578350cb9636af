"""Modules that return intermediate tensors, tensors twice, inputs and parameters."""

from __future__ import annotations

import pytest

from tests.graph.torch.random_modules import RandomModule
from tests.graph.torch.torch_oracle import assert_as_torch, torch

pytestmark = pytest.mark.filterwarnings("ignore")


def test_random_modules_compute_what_pytorch_does() -> None:
    for seed in range(6):
        check_module(seed, build=seed == 0)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(100, 400, 100))
def test_many_random_modules_compute_what_pytorch_does(first: int) -> None:
    for seed in range(first, first + 100):
        check_module(seed, build=True)


def check_module(seed: int, *, build: bool) -> None:
    """Hold a random module, imported and maybe built, against PyTorch."""
    x = torch.randn(2, 4, 6, 6, generator=torch.Generator().manual_seed(seed))
    assert_as_torch(RandomModule(seed).eval(), (x,), build=build)
