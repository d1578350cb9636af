"""PyTorch in double precision, to compare imported graphs with."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.graph.graph_reference import run_reference

torch: Any = pytest.importorskip("torch")


def module_of(function: Any) -> Any:
    """A module that computes `function`."""
    made = torch.nn.Module()
    made.forward = function
    return made


def tensors_in(value: Any) -> list[Any]:
    leaves = torch.utils._pytree.tree_leaves(value)
    return [one for one in leaves if isinstance(one, torch.Tensor)]


def wide(value: Any) -> Any:
    return (
        value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
    )


def feeds_of(graph: ac.Graph, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    feeds = dict(zip(graph.inputs, args, strict=False))
    feeds.update({name: kwargs[name] for name in graph.inputs if name in kwargs})
    return {name: tensor.numpy() for name, tensor in feeds.items()}


def assert_as_torch(
    module: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, *, build: bool = True
) -> ac.Graph:
    """The graph of `module`, as a definition and compiled, computes what PyTorch does."""
    given = kwargs or {}
    graph = ac.from_torch(module, tuple(args), given)
    exact = copy.deepcopy(module).double() if list(module.parameters()) else module
    with torch.no_grad():
        wanted = exact(*map(wide, args), **{name: wide(one) for name, one in given.items()})
    feeds = feeds_of(graph, args, given)
    _assert_close(run_reference(graph, feeds), wanted, 2e-6)
    if build:
        _assert_close(ac.build(graph).run(feeds), wanted, 1e-4)
    return graph


def _assert_close(found: Mapping[str, Any], wanted: Any, tolerance: float) -> None:
    tensors = tensors_in(wanted)
    assert len(found) == len(tensors)
    for array, tensor in zip(found.values(), tensors, strict=True):
        expected = tensor.numpy()
        assert array.shape == expected.shape
        size = float(np.abs(expected).max(initial=0)) or 1.0
        np.testing.assert_allclose(array, expected, rtol=0, atol=tolerance * size)
