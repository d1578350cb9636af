"""Sorting, ranking and searching in networks, of PyTorch and of ONNX, on numbers hard to sort."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.graph.network import Network
from tests.graph.torch.torch_oracle import module_of, tensors_in
from tests.lang.operators.hard_numbers import Array, Rng, assert_same, hard_numbers, order_of
from tests.support.onnx_oracle import node_model

torch: Any = pytest.importorskip("torch")

FILLS = 8
"""How often each program runs, on new numbers."""
EDGES = np.array([-np.inf, -3.0, -1.0, -1.0, 0.0, 0.5, 2.0, 70.0], np.float32)
DTYPES = ("float32", "float64", "int32", "int64", "float32")

FUNCTIONS: dict[str, Callable[[Any, int, int], Any]] = {
    # Stable, as PyTorch orders equal elements otherwise in any way that the CPU is fast at.
    "sort": lambda x, axis, k: x.sort(stable=True, dim=axis, descending=k % 2 > 0),
    "argsort": lambda x, axis, k: x.argsort(stable=True, dim=axis, descending=k % 2 > 0),
    "msort": lambda x, axis, k: x.msort(),
    "topk": lambda x, axis, k: x.topk(k, axis, largest=k % 2 > 0)[0],
    "kthvalue": lambda x, axis, k: x.kthvalue(k, axis)[0],
    "median": lambda x, axis, k: (x.median(axis)[0], x.median()),
    "quantile": lambda x, axis, k: x.double().quantile(k / 9, axis),
    "bucketize": lambda x, axis, k: torch.bucketize(
        x, torch.from_numpy(EDGES), right=k % 2 > 0
    ),
    "searchsorted": lambda x, axis, k: torch.searchsorted(
        torch.from_numpy(EDGES), x, right=k % 2 > 0, out_int32=k > 2
    ),
    "extremes": lambda x, axis, k: (
        *x.max(axis), *x.min(axis), x.argmax(axis), x.argmin(), x.amax(axis), x.amin(),
        *torch.aminmax(x, dim=axis), x.cummax(axis)[0], x.cummin(axis)[0],
    ),
    "clamp": lambda x, axis, k: (
        x.clamp(-1, 2), x.clamp_min(0), torch.relu(x), torch.maximum(x, x.flip(axis)),
        torch.minimum(x, x.flip(axis)),
    ),
}  # fmt: skip
"""Functions of one tensor by an axis and a number between 1 and the extent of that axis."""


def test_as_pytorch() -> None:
    """All functions in one network: it is built once."""
    as_pytorch_at_random(list(FUNCTIONS), np.random.default_rng(0))


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_pytorch_many_times(name: str, seed: int) -> None:
    as_pytorch_at_random([name], np.random.default_rng((3, seed)))


def as_pytorch_at_random(names: Sequence[str], rng: Rng) -> None:
    rank = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.choice([1, 2, 3, 7, 16, 40], rank))
    axis, dtype = int(rng.integers(rank)), str(rng.choice(DTYPES))
    k = int(rng.integers(1, shape[axis] + 1))

    def function(x: Any) -> list[Any]:
        return [FUNCTIONS[name](x, axis - rank, k) for name in names]

    given = torch.from_numpy(hard_numbers(rng, shape, dtype))
    graph = ac.from_torch(module_of(function), (given,))
    run = ac.build(graph)
    for _ in range(FILLS):
        given = hard_numbers(rng, shape, dtype)
        found = run.run(dict.fromkeys(graph.inputs, given))
        wanted = tensors_in(function(torch.from_numpy(given)))
        for one, expected in zip(found.values(), wanted, strict=True):
            what = f"{names} of {shape} {dtype} along {axis}"
            np.testing.assert_allclose(one, expected.numpy(), rtol=1e-6, err_msg=what)


def test_the_place_of_the_largest_of_a_window() -> None:
    """The last NaN, else the first of equals; never a place of the padding."""
    rng = np.random.default_rng(0)
    graph = ac.from_torch(module_of(_pools), (torch.zeros(2, 3, 11, 9),))
    run = ac.build(graph)
    for _ in range(20):
        given = hard_numbers(rng, (2, 3, 11, 9), "float32")
        found = run.run(dict.fromkeys(graph.inputs, given)).values()
        for one, wanted in zip(found, tensors_in(_pools(torch.from_numpy(given))), strict=True):
            np.testing.assert_array_equal(one, wanted.numpy())


def _pools(x: Any) -> Any:
    pool = torch.nn.functional.max_pool2d
    return pool(x, 3, 2, 1, return_indices=True), pool(x, 2, 1, 1, 2, return_indices=True)


@pytest.mark.parametrize("largest", [0, 1])
def test_onnx_top_k(largest: int) -> None:
    onnx_top_k_at_random(np.random.default_rng(largest), largest)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("largest", [0, 1])
def test_onnx_top_k_many_times(largest: int, seed: int) -> None:
    onnx_top_k_at_random(np.random.default_rng((4, seed)), largest)


def onnx_top_k_at_random(rng: Rng, largest: int) -> None:
    """NaN is the largest, where ONNX and its runtime say nothing: as in PyTorch and NumPy."""
    shape = tuple(int(n) for n in rng.choice([1, 2, 5, 9, 40], int(rng.integers(1, 4))))
    axis, dtype = int(rng.integers(len(shape))), str(rng.choice(DTYPES))
    k = int(rng.integers(1, shape[axis] + 1))
    inputs: list[Array] = [hard_numbers(rng, shape, dtype), np.array([k])]
    attributes: dict[str, Any] = {"axis": axis - len(shape), "largest": largest}
    model, _ = node_model("TopK", inputs, known=[1], outputs=2, **attributes)
    graph = ac.from_onnx(model)
    run = ac.build(graph)
    for _ in range(FILLS):
        given = hard_numbers(rng, shape, dtype)
        found = run.run(dict.fromkeys(graph.inputs, given))
        order = np.take(order_of(given, axis, descending=largest > 0), np.arange(k), axis)
        values, places = (found[name] for name in graph.outputs)
        assert_same(places, order, (shape, axis, dtype, k))
        assert_same(values, np.take_along_axis(given, order, axis), (shape, axis, dtype, k))


@pytest.mark.parametrize(("extent", "k"), [(300, 300), (300, 3)])
def test_long_rows_in_networks(extent: int, k: int) -> None:
    """Passes that merge runs are one task; few of many are looked for in a few blocks."""
    rng = np.random.default_rng(0)
    given = hard_numbers(rng, (2, extent), "float32")
    model, _ = node_model("TopK", [given, np.array([k])], known=[1], outputs=2)
    graph = ac.from_onnx(model)
    run = ac.build(graph)
    passes = [node for node in graph.nodes if str(node.operator) == "merge_runs"]
    assert len(passes) == (3 if k == extent else 0)
    tasks = [task.name for task in Network.of(graph).tasks.values()]
    assert len(tasks) == (3 if k == extent else 1), tasks
    for _ in range(FILLS):
        given = hard_numbers(rng, given.shape, "float32")
        found = run.run(dict.fromkeys(graph.inputs, given))
        order = order_of(given, 1, descending=True)[:, :k]
        values, places = (found[name] for name in graph.outputs)
        assert_same(places, order, extent)
        assert_same(values, np.take_along_axis(given, order, 1), extent)
