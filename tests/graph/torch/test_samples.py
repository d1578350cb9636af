"""PyTorch's own samples of all its operators: what is imported is right, the rest is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import GraphError
from ansorc.graph.graph_reference import run_reference
from tests.graph.torch.torch_oracle import feeds_of, module_of, tensors_in, torch, wide

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]
methods: Any = pytest.importorskip("torch.testing._internal.common_methods_invocations")
tree: Any = torch.utils._pytree

SAMPLES = 3
"""Of an operator, spread over those that PyTorch tests it with."""
UNDEFINED = ("empty", "jiterator", "sparse", "_scaled_dot_product_flash", "_attention_forward")
"""In names of operators whose results have no fixed values, or that a CPU does not compute."""
FLOATS_OF_16_BITS = ("half", "bfloat16")
OPERATORS = [
    one for one in methods.op_db
    if torch.float32 in one.dtypes and not any(word in one.name for word in UNDEFINED)
    and one.name not in FLOATS_OF_16_BITS
]  # fmt: skip


def chosen(operator: Any) -> list[Any]:
    samples = list(operator.sample_inputs("cpu", torch.float32, requires_grad=False))
    return samples[:: max(1, len(samples) // SAMPLES)][:SAMPLES]


def called(operator: Any, sample: Any) -> tuple[Any, list[Any]]:
    """A function of the tensors of a sample, and those tensors."""
    leaves, spec = tree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def call(*tensors: Any) -> Any:
        given = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            given[place] = tensor
        first, others, named = tree.tree_unflatten(given, spec)
        return operator(first, *others, **named)

    return call, [leaves[place].detach().clone().contiguous() for place in places]


def exact(function: Any, tensors: Sequence[Any]) -> list[Any]:
    """What PyTorch computes, in double precision if it can."""
    try:
        return tensors_in(function(*(wide(one.clone()) for one in tensors)))
    except (RuntimeError, TypeError, ValueError):
        return tensors_in(function(*(one.clone() for one in tensors)))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda one: one.formatted_name)
def test_it_is_right_or_refused(operator: Any) -> None:
    refused, compared = "", 0
    for sample in chosen(operator):
        call, tensors = called(operator, sample)
        if any(0 in one.shape for one in tensors):
            continue
        try:
            wanted = exact(call, tensors)
        except (AssertionError, RuntimeError, TypeError):
            continue  # not with such tensors: complex ones, other devices
        try:
            graph = ac.from_torch(module_of(call), tuple(tensors))
        except GraphError as error:
            refused = str(error)
            continue
        compared += 1
        found = list(run_reference(graph, feeds_of(graph, tensors, {})).values())
        assert len(found) == len(wanted)
        for array, tensor in zip(found, wanted, strict=True):
            assert_close(array, tensor.numpy())
    if not compared:
        pytest.skip(refused or "no sample can be compared on a CPU")


def assert_close(found: Any, wanted: Any) -> None:
    assert found.shape == wanted.shape
    assert found.dtype.kind == wanted.dtype.kind
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(found, wanted)
        return
    size = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)) or 1.0
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=3e-6 * size)
