"""PyTorch's own samples with numbers at the edge, and laid out in odd ways: right, or refused.

NaN, infinities, both zeros; tensors of no elements, of no axes, and with strides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import AnsorcError, IRError
from ansorc.ir.aligned import Array
from tests.graph.torch.test_samples import OPERATORS, called
from tests.graph.torch.torch_oracle import feeds_of, module_of, tensors_in, torch

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]

EDGES = (float("nan"), float("inf"), float("-inf"), 0.0, -0.0)
SHARE = 0.3
"""Of the numbers that become one of `EDGES`."""
SAMPLES = 3


def sampled(operator: Any) -> list[Any]:
    """Return samples spread over all, and the first ones with no elements and with no axes."""
    samples = list(operator.sample_inputs("cpu", torch.float32, requires_grad=False))
    spread = samples[:: max(1, len(samples) // SAMPLES)][:SAMPLES]
    of_tensors = [one for one in samples if isinstance(one.input, torch.Tensor)]
    spread += [one for one in of_tensors if one.input.numel() == 0][:1]
    spread += [one for one in of_tensors if one.input.dim() == 0][:1]
    return spread


def at_the_edge(tensor: Any, rng: np.random.Generator) -> Any:
    """Return `tensor` with some of its numbers replaced; integers are kept."""
    if not tensor.is_floating_point() or not tensor.numel():
        return tensor
    array: Array = tensor.numpy().copy()
    places = rng.random(array.shape) < SHARE
    array[places] = rng.choice(EDGES, int(places.sum()))
    return torch.from_numpy(np.asarray(array))


def strided(tensor: Any) -> Any:
    """Return the same numbers, each second element of a larger tensor."""
    if not tensor.dim() or not tensor.numel():
        return tensor
    larger = torch.empty(*tensor.shape[:-1], 2 * tensor.shape[-1], dtype=tensor.dtype)
    return larger[..., ::2].copy_(tensor)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda one: one.formatted_name)
def test_it_is_right_or_refused(operator: Any) -> None:
    rng = np.random.default_rng(0)
    refused, compared = "", 0
    for number, sample in enumerate(sampled(operator)):
        call, tensors = called(operator, sample)
        given = [strided(at_the_edge(one, rng) if number % 2 == 0 else one) for one in tensors]
        try:
            wanted = tensors_in(call(*(one.clone() for one in given)))
        except (AssertionError, IndexError, RuntimeError, TypeError, ValueError):
            continue  # PyTorch does not compute such numbers either
        if any(one.is_complex() or one.is_sparse for one in wanted):
            continue
        try:
            graph = ac.from_torch(module_of(call), tuple(given))
            results = ac.build(graph).run(feeds_of(graph, given, {}))
        except IRError:
            raise
        except AnsorcError as error:
            refused = str(error)
            continue
        compared += 1
        for name, array, tensor in zip(results, results.values(), wanted, strict=True):
            assert_close(f"sample {number}, {name}", np.asarray(array), tensor.numpy())
    if not compared:
        pytest.skip(refused or "no sample can be compared on a CPU")


def assert_close(where: str, result: Any, wanted: Any) -> None:
    assert result.shape == wanted.shape, where
    assert result.dtype.kind == wanted.dtype.kind, where
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(result, wanted, where)
        return
    size = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)) or 1.0
    np.testing.assert_allclose(result, wanted, rtol=1e-3, atol=1e-5 * size, err_msg=where)
