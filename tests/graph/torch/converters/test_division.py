"""Quotients, remainders and powers of an imported module are PyTorch's, to the bit and the zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ansorc as ac
from tests.graph.torch.torch_oracle import feeds_of, module_of, torch

pytestmark = pytest.mark.filterwarnings("ignore")
F: Any = torch.nn.functional
NAMES = ("%", "//", "fmod", "floor", "trunc")
SPECIAL = (0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1.0, -3.0, 6.0, 0.1, 1e4)


def _operations(a: Any, b: Any) -> tuple[Any, ...]:
    quotients = [torch.div(a, b, rounding_mode=mode) for mode in ("floor", "trunc")]
    return (a % b, a // b, torch.fmod(a, b), *quotients)


def _powers(a: Any, b: Any) -> tuple[Any, ...]:
    return a**b, a**7, a**63, 3 ** b.abs(), a**2


def _sums(a: Any, b: Any) -> tuple[Any, ...]:
    return a @ b, a.sum(0), a.sum(dtype=a.dtype), a.prod(1), F.linear(a, b), a.cumsum(1)


def _limits(x: Any) -> tuple[Any, ...]:
    return x.isinf(), x.isfinite()


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


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
def test_powers_of_integers_wrap(dtype: str) -> None:
    kind = getattr(torch, dtype)
    ends = torch.iinfo(kind)
    generator = torch.Generator().manual_seed(5)
    a = torch.randint(max(ends.min, -(10**6)), min(ends.max, 10**6), (300,), generator=generator)
    b = torch.randint(-3 if ends.min else 0, 100, (300,), generator=generator)
    a[:60] = torch.randint(-2 if ends.min else 0, 3, (60,), generator=generator)
    args = a.to(kind), b.to(kind)
    module = module_of(_powers)
    graph = ac.from_torch(module, args)
    found = ac.build(graph).run(feeds_of(graph, args, {}))
    for name, wanted in zip(graph.outputs, module(*args), strict=True):
        np.testing.assert_array_equal(found[name], wanted.numpy(), err_msg=name)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_products_and_sums_of_narrow_integers_stay_narrow(dtype: str) -> None:
    kind = getattr(torch, dtype)
    generator = torch.Generator().manual_seed(6)
    a, b = (torch.randint(0, 120, (9, 9), generator=generator).to(kind) for _ in "ab")
    module = module_of(_sums)
    graph = ac.from_torch(module, (a, b))
    found = ac.build(graph).run(feeds_of(graph, (a, b), {}))
    for name, wanted in zip(graph.outputs, module(a, b), strict=True):
        np.testing.assert_array_equal(found[name], wanted.numpy(), err_msg=name)
        assert found[name].dtype == wanted.numpy().dtype


def test_a_large_float64_is_not_infinite() -> None:
    x = torch.tensor([1e300, -1e300, float("inf"), -float("inf"), float("nan"), 0.0]).double()
    x[:2] = torch.tensor([1e300, -1e300], dtype=torch.float64)
    module = module_of(_limits)
    graph = ac.from_torch(module, (x,))
    found = ac.build(graph).run(feeds_of(graph, (x,), {}))
    for name, wanted in zip(graph.outputs, module(x), strict=True):
        np.testing.assert_array_equal(found[name], wanted.numpy())
