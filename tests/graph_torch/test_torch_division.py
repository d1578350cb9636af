"""Quotients and remainders of an imported module are those of PyTorch, to the bit and the zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch_oracle import feeds_of, module_of, torch

import ansorc as ac

pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = ("%", "//", "fmod", "floor", "trunc")
SPECIAL = (0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1.0, -3.0, 6.0, 0.1, 1e4)


def _operations(a: Any, b: Any) -> tuple[Any, ...]:
    quotients = [torch.div(a, b, rounding_mode=mode) for mode in ("floor", "trunc")]
    return (a % b, a // b, torch.fmod(a, b), *quotients)


def _pairs(dtype: Any) -> tuple[Any, Any]:
    """Return every pair of special numbers, and random ones with quotients of any size."""
    generator = torch.Generator().manual_seed(3)
    special = torch.cartesian_prod(torch.tensor(SPECIAL), torch.tensor(SPECIAL)).T
    random = torch.randn((2, 400), generator=generator, dtype=torch.float64)
    random[0] *= 10.0 ** torch.randint(-3, 30, (400,), generator=generator)
    return tuple(torch.cat([special.double(), random], 1).to(dtype))


def _results(args: tuple[Any, Any]) -> tuple[list[Any], list[Any]]:
    """Return what ansorc and PyTorch compute of a pair of tensors."""
    module = module_of(_operations)
    graph = ac.from_torch(module, args)
    found = ac.build(graph).run(feeds_of(graph, args, {}))
    return [found[name] for name in graph.outputs], [one.numpy() for one in module(*args)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats(dtype: str) -> None:
    results, wanted = _results(_pairs(getattr(torch, dtype)))
    for name, one, other in zip(NAMES, results, wanted, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)
        is_number = ~np.isnan(other)
        signs = np.signbit(one)[is_number], np.signbit(other)[is_number]
        np.testing.assert_array_equal(*signs, err_msg=name)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_integers(dtype: str) -> None:
    ends = torch.iinfo(getattr(torch, dtype))
    generator = torch.Generator().manual_seed(4)
    a = torch.randint(ends.min, ends.max, (500,), generator=generator, dtype=torch.int64)
    b = torch.randint(-9 if ends.min else 1, 9, (500,), generator=generator)
    b[b == 0] = 5
    results, wanted = _results((a.to(getattr(torch, dtype)), b.to(getattr(torch, dtype))))
    for name, one, other in zip(NAMES, results, wanted, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)
