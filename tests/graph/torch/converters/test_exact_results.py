"""Imported operators whose results are PyTorch's to the bit, at NaN, infinities and both zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import GraphError
from tests.graph.torch.torch_oracle import feeds_of, module_of, torch
from tests.support.nightly import sampled

pytestmark = pytest.mark.filterwarnings("ignore")
NAN, INF = float("nan"), float("inf")
SPECIAL = (INF, -INF, NAN, 0.0, -0.0, 1.0, -1.0, 0.5)
X, Y = torch.cartesian_prod(torch.tensor(SPECIAL), torch.tensor(SPECIAL)).T.contiguous()
BYTES = torch.tensor([1, -7, 127, -128, 100, 5, 0, 77])
PLACES = torch.tensor([0, 1, 2, 3, 7, 6, 5, 4])


def assert_exact(
    function: Callable[[Any], Any] | Callable[[Any, Any], Any], *given: Any, rtol: float = 0
) -> None:
    """The compiled `function` is PyTorch's; zeros have its signs."""
    eager: Callable[..., Any] = function
    graph = ac.from_torch(module_of(eager), given)
    results = ac.build(graph).run(feeds_of(graph, given, {}))
    for (name, found), tensor in zip(results.items(), eager(*given), strict=True):
        wanted = tensor.numpy()
        assert found.dtype == wanted.dtype, name
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=0, err_msg=name)
        if wanted.dtype.kind == "f":
            zeros = wanted == 0
            signs = np.signbit(found)[zeros], np.signbit(wanted)[zeros]
            np.testing.assert_array_equal(*signs, err_msg=name)


def _sorted_rows(rng: np.random.Generator, count: int) -> Any:
    """Boundaries in order, with repetitions, infinities and some NaNs at the end."""
    rows = rng.integers(-4, 5, (3, count)).astype(np.float32)
    rows[rng.random(rows.shape) < rng.choice([0, 0.2, 0.7])] = NAN
    rows[0, 0] = INF
    return torch.from_numpy(np.sort(rows))


def _searched(rows: Any, values: Any) -> Any:
    row = rows[0].contiguous()
    return (
        torch.searchsorted(rows, values),
        torch.searchsorted(rows, values, right=True, out_int32=True),
        torch.bucketize(values, row),
        torch.bucketize(values, row, right=True),
    )


@pytest.mark.parametrize("count", sampled([1, 6, 7, 17], [1, 7]))
def test_searches_meet_nan_as_pytorch(count: int) -> None:
    rng = np.random.default_rng(count)
    values = torch.tensor([NAN, INF, -INF, -4.0, 0.0, 0.5, 4.0, -1.0, -0.0]).repeat(3, 1)
    graph = ac.from_torch(module_of(_searched), (_sorted_rows(rng, count), values))
    run = ac.build(graph)
    for _ in range(20):
        given = _sorted_rows(rng, count), values
        results = run.run(feeds_of(graph, given, {}))
        for found, wanted in zip(results.values(), _searched(*given), strict=True):
            np.testing.assert_array_equal(found, wanted.numpy(), err_msg=str(given[0]))


def test_a_conversion_to_16_bits_rounds() -> None:
    given = torch.tensor([257.0, 70000.0, -0.1, 1 / 3, 1e-9, 3e38, NAN, INF, -0.0])
    assert_exact(
        lambda x: (
            x.bfloat16().float(),
            x.half().float(),
            (x * 3).half().bfloat16().float(),
            x.bfloat16().double() - x,
            (x.half().float() == x).int(),
            x.half() + 0,
        ),
        given,
    )


Module: Any = torch.nn.Module


class Weighted(Module):
    """A function of an input and a weight that is known."""

    def __init__(self, function: Callable[..., Any], weight: Any) -> None:
        Module.__init__(self)
        self.function = function
        self.register_buffer("weight", weight)

    def forward(self, x: Any) -> Any:
        return (self.function(self.weight) + x,)


NARROW: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "bits": ("float16", lambda w: w.view(torch.int16).float().sum()),
    "exponents": ("bfloat16", lambda w: ((w.view(torch.int16) >> 7) & 255).float()),
    "overflow": ("float16", lambda w: (w * 1000 * 1000).float()),
    "roundings": ("bfloat16", lambda w: (w + 1 - 1).float()),
    "8 bits": ("float8_e4m3fn", lambda w: w.float() * 2),
    "8 bits, scaled": ("float8_e5m2", lambda w: w.to(torch.bfloat16) * 0.3),
}


@pytest.mark.parametrize("name", NARROW)
def test_known_narrow_floats_are_what_pytorch_has(name: str) -> None:
    kind, function = NARROW[name]
    weight = torch.tensor([[0.1, 300.0, -0.37], [1e-3, -2.0, 0.0]]).to(getattr(torch, kind))
    module, given = Weighted(function, weight), torch.randn(2, 3)
    graph = ac.from_torch(module, (given,))
    (found,) = ac.build(graph).run(feeds_of(graph, (given,), {})).values()
    np.testing.assert_allclose(found, module(given)[0].numpy(), rtol=1e-6)


def test_a_negative_power_of_integers_is_refused() -> None:
    def inverse(x: Any) -> Any:
        return x**-1

    with pytest.raises(GraphError, match="no powers of integers with a negative number"):
        ac.from_torch(module_of(inverse), (BYTES,))


def test_signs() -> None:
    assert_exact(lambda x: (x.sign(), x.sgn(), x.signbit(), x.double().sign()), X)
    assert_exact(lambda x: (x.sign(), x.sgn(), x.signbit(), (x > 0).sign()), BYTES)


def test_angles_and_sides() -> None:
    assert_exact(
        lambda x, y: (torch.atan2(x, y), torch.hypot(x, y), torch.copysign(x, y), x.sinh()),
        X, Y, rtol=1e-5,
    )  # fmt: skip


@pytest.mark.nightly
def test_zeros_keep_their_signs() -> None:
    assert_exact(
        lambda x: (x.atan(), x.asin(), x.asinh(), x.atanh(), x.tanh(), x.sin(), x.tan()),
        X, rtol=1e-5,
    )  # fmt: skip


def test_numbers_on_the_left() -> None:
    assert_exact(lambda x: (3 % x, -5.5 % x, 1 // x, 7 / x, 2 - x), torch.tensor((*SPECIAL, 0.1)))
    assert_exact(lambda x: (30 % x, -7 % x, 100 // x, 2**x, 7 - x), torch.tensor([1, 2, 7, 5]))


@pytest.mark.parametrize("dtype", sampled(["int8", "uint8", "int32", "int64"], ["uint8", "int64"]))
def test_shifts(dtype: str) -> None:
    kind = getattr(torch, dtype)
    assert_exact(
        lambda x, y: (
            x << 1, x >> 1, x >> 2 & 3, (x << 4) | (x & 15), x << y, x >> y, 1 << y, 64 >> y,
            torch.bitwise_left_shift(x, 2), torch.bitwise_right_shift(x, y),
            x >> 100, x << 100, x >> (y - 6),
        ),
        BYTES.to(kind), PLACES.to(kind),
    )  # fmt: skip


def test_medians_of_what_is_a_number() -> None:
    given = torch.tensor([[NAN, 2, 3, 1], [NAN] * 4, [5, 4, 1, 2], [1, NAN, NAN, 2]])
    assert_exact(
        lambda x: (x.nanmedian(), x.nanmedian(1)[0], *x[2:].nanmedian(1), x.nanmedian(0)[0]), given
    )


def _every_other(x: Any, y: Any) -> Any:
    z = torch.zeros_like(x)
    z[:, ::2] = x[:, ::2] * 2
    z[:, 1::2] = y[:, 1::2]
    z[::3] = 5
    return z, x.narrow_copy(1, 1, 2), x.narrow_copy(0, -2, 2)


def test_every_other_element_is_written() -> None:
    generator = torch.Generator().manual_seed(0)
    assert_exact(_every_other, *torch.randn((2, 5, 7), generator=generator))


def test_bools_and_bytes_are_reduced() -> None:
    assert_exact(
        lambda x: (
            x.any(), x.any(0), x.all(1, keepdim=True), *(x > 1).max(0), (x > 1).min(),
            (x > 1).amax(0), *(x > 1).min(1),
        ),
        torch.tensor([[0, 1, 2], [2, 2, 2], [0, 2, 0]], dtype=torch.uint8),
    )  # fmt: skip


def test_leaky_slopes_that_are_drawn_in_training_only() -> None:
    assert_exact(lambda x: (torch.nn.functional.rrelu(x, 0.1, 0.5),), X[X > -INF], rtol=1e-6)
