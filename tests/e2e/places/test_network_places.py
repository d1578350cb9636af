"""Operators of networks that read or write at places: what PyTorch and NumPy refuse is refused.

Random operators with random data, half of it with a place that there is not: an error of the call
exactly where PyTorch has one, else its result. Never a row without an error.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import FaultError, OutOfRangeError

torch: Any = pytest.importorskip("torch")

Function = Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any]
Case = tuple[Function, list[Any]]


def places(rng: np.random.Generator, shape: tuple[int, ...], extent: int, *, ends: bool) -> Any:
    """Places, of which about half have one that there is not; with `ends` also from the end."""
    found = rng.integers(-extent if ends else 0, extent, shape)
    if rng.random() < 0.5:
        wrong = [extent, extent + 5, 10**12, -extent - 1, -(10**15)] + ([] if ends else [-1])
        found[tuple(int(rng.integers(n)) for n in shape)] = rng.choice(wrong)
    return torch.from_numpy(found.astype(np.int64))


def table(rng: np.random.Generator, *shape: int) -> Any:
    return torch.from_numpy(rng.normal(size=shape).astype(np.float32))


def sizes(rng: np.random.Generator) -> tuple[int, int, int]:
    n, m, k = (int(one) for one in rng.choice([1, 2, 3, 5, 8, 17], 3))
    return n, m, k


def embedding(rng: np.random.Generator) -> Case:
    n, m, k = sizes(rng)
    return torch.nn.functional.embedding, [places(rng, (k, 2), n, ends=False), table(rng, n, m)]


def indexed(rng: np.random.Generator) -> Case:
    n, m, k = sizes(rng)
    return (lambda w, i: w[i]), [table(rng, n, m), places(rng, (k,), n, ends=True)]


def indexed_twice(rng: np.random.Generator) -> Case:
    n, m, k = sizes(rng)
    arguments = [table(rng, n, m), *(places(rng, (k,), extent, ends=True) for extent in (n, m))]
    return (lambda w, i, j: w[i, j]), arguments


def selected(rng: np.random.Generator) -> Case:
    n, m, k = sizes(rng)
    return (lambda w, i: w.index_select(1, i)), [table(rng, m, n), places(rng, (k,), n, ends=False)]


def gathered(rng: np.random.Generator) -> Case:
    n, m, k = sizes(rng)
    return (lambda w, i: w.gather(0, i)), [table(rng, n, m), places(rng, (k, m), n, ends=False)]


def scattered(rng: np.random.Generator) -> Case:
    n, m, k = sizes(rng)
    arguments = [table(rng, n, m), places(rng, (k, m), n, ends=False), table(rng, k, m)]
    if rng.random() < 0.5:
        return (lambda w, i, u: w.scatter_add(0, i, u)), arguments
    return (lambda w, i, u: w.scatter_reduce(0, i, u, "amax")), arguments


def put(rng: np.random.Generator) -> Case:
    n, m, k = sizes(rng)
    arguments = [table(rng, n, m), places(rng, (k,), n, ends=True), table(rng, k, m)]
    return (lambda w, i, u: w.index_put((i,), u, accumulate=True)), arguments


def entropy(rng: np.random.Generator) -> Case:
    n, m, _ = sizes(rng)
    labels = places(rng, (m,), n, ends=False)
    labels[rng.random(m) < 0.3] = -100  # what is ignored
    return torch.nn.functional.cross_entropy, [table(rng, m, n), labels]


def bags(rng: np.random.Generator) -> Case:
    n, m, k = sizes(rng)
    return torch.nn.functional.embedding_bag, [places(rng, (k, 3), n, ends=False), table(rng, n, m)]


def taken(rng: np.random.Generator) -> Case:
    n, m, k = sizes(rng)
    return torch.take, [table(rng, n, m), places(rng, (k,), n * m, ends=True)]


def masked(rng: np.random.Generator) -> Case:
    n, m, k = sizes(rng)
    mask = torch.from_numpy(rng.random((n, m)) < 0.4)
    return (lambda w, b, s: w.masked_scatter(b, s)), [table(rng, n, m), mask, table(rng, k + 2)]


OPERATORS = (
    embedding, indexed, indexed_twice, selected, gathered, scattered, put, entropy, bags, taken,
    masked,
)  # fmt: skip


class _Module(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        torch.nn.Module.__init__(self)
        self._function = function

    def forward(self, *arguments: Any) -> Any:
        return self._function(*arguments)


def check(seed: int) -> None:
    rng = np.random.default_rng(seed)
    make = OPERATORS[seed % len(OPERATORS)]
    function, arguments = make(rng)
    wanted: Any = None
    with suppress(IndexError, RuntimeError):
        wanted = function(*arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = ac.build(ac.from_torch(_Module(function), tuple(arguments)), name="net")
    inputs = [one.numpy() for one in arguments]
    for threads in (1, 0):
        if wanted is None:
            with pytest.raises(FaultError) as caught:
                module(*inputs, threads=threads)
            assert isinstance(caught.value, IndexError)
            assert "got the index" in str(caught.value)
        else:
            found = module(*inputs, threads=threads)
            np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("seed", range(len(OPERATORS) * 2))
def test_operators_of_pytorch(seed: int) -> None:
    check(seed)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_many_operators_of_pytorch() -> None:
    for seed in range(1000, 2000):
        check(seed)


def test_a_network_says_which_kernel() -> None:
    def forward(i: Any, w: Any, x: Any) -> Any:
        return torch.relu(torch.nn.functional.embedding(i, w) @ x)

    w, x = torch.ones(50, 8), torch.ones(8, 8)
    graph = ac.from_torch(_Module(forward), (torch.zeros(4, dtype=torch.int64), w, x))
    module = ac.build(graph, name="net")
    with pytest.raises(OutOfRangeError, match=r"net got the index 99 for dimension 0 .*\(in '"):
        module(np.array([0, 1, 99, 3]), w.numpy(), x.numpy())
    found = module(np.array([0, 1, 49, 3]), w.numpy(), x.numpy())
    assert (found == 8).all()


def test_networks_without_checks_read_what_there_is() -> None:
    w = torch.arange(10.0).reshape(5, 2)
    graph = ac.from_torch(
        _Module(torch.nn.functional.embedding), (torch.zeros(2, dtype=torch.int64), w)
    )
    module = ac.build(graph, name="net", check_indices=False)
    assert module.signature.faults == ()
    np.testing.assert_array_equal(module(np.array([1, 7]), w.numpy()), w.numpy()[[1, 4]])


def test_compiled_modules_raise_as_pytorch_does_and_go_on() -> None:
    w = torch.arange(10.0).reshape(5, 2)

    def embedded(i: Any) -> Any:
        return torch.nn.functional.embedding(i, w)

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no graph is left to PyTorch
        compiled = torch.compile(embedded, backend="ansorc")
        with torch.no_grad():
            for places, is_right in (([0, 4], True), ([0, 5], False), ([3, 1], True)):
                indices = torch.tensor(places)
                if is_right:
                    assert (compiled(indices) == w[indices]).all()
                else:
                    with pytest.raises(IndexError, match="index out of range"):
                        compiled(indices)


def test_compiled_modules_without_checks() -> None:
    w = torch.arange(10.0).reshape(5, 2)

    def function(i: Any) -> Any:
        return torch.nn.functional.embedding(i, w) + 1

    compiled = torch.compile(function, backend="ansorc", options={"check_indices": False})
    with torch.no_grad():
        assert (compiled(torch.tensor([0, 7])) == w[[0, 4]] + 1).all()
