"""Sums of products of many factors, each of which varies along some of the axes."""

from __future__ import annotations

import numpy as np
import pytest

import ansorc.lang as ac
from ansorc.lang import reference
from ansorc.lang.contract import contract
from ansorc.lang.dag import ComputeDAG
from tests.support.nightly import sampled

LETTERS = "abcdefgh"


@pytest.mark.parametrize("seed", sampled(range(400), range(100)))
def test_random_products(seed: int) -> None:
    """Held against `einsum`; axes that no factor has, one has, and all have are among them."""
    rng = np.random.default_rng(seed)
    rank, inner = int(rng.integers(0, 4)), int(rng.integers(1, 4))
    shape = [int(extent) for extent in rng.integers(1, 5, rank + inner)]
    if rng.random() < 0.5:  # equal extents: what is summed along a wrong axis has the right shape
        shape = [3] * len(shape)
    used = [rng.random(len(shape)) < 0.5 for _ in range(int(rng.integers(1, 6)))]
    boxes = [[n if has else 1 for n, has in zip(shape, one, strict=True)] for one in used]
    factors = [rng.integers(-3, 4, box).astype(np.float64) for box in boxes]
    letters = LETTERS[: len(shape)]
    full = [np.broadcast_to(factor, shape) for factor in factors]
    wanted = np.einsum(f"{','.join([letters] * len(full))}->{letters[:rank]}", *full)
    found = contract(factors, shape, rank)
    assert found.ndim == rank
    np.testing.assert_array_equal(np.broadcast_to(found, shape[:rank]), wanted)


def test_a_chain_of_products_is_summed_over_what_lies_between() -> None:
    a, b, c = (ac.placeholder((9, 9), name) for name in "ABC")
    j, k = ac.reduce_axis(9, "j"), ac.reduce_axis(9, "k")
    chain = ac.compute((9, 9), lambda i, m: ac.sum(a[i, j] * b[j, k] * c[k, m], axis=[j, k]))
    rng = np.random.default_rng(0)
    given = [rng.integers(-3, 4, (9, 9)).astype(np.float32) for _ in range(3)]
    (found,) = reference.evaluate(ComputeDAG([a, b, c, chain]), given)
    np.testing.assert_array_equal(found, given[0] @ given[1] @ given[2])


def test_long_chains_take_little_memory() -> None:
    """The product of the first two has as many elements as each, not one for each term."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal((700, 700)) for _ in range(3))
    factors = [a[:, None, :, None], b[None, None], c.T[None, :, None, :]]
    found = contract(factors, (700, 700, 700, 700), 2)
    np.testing.assert_allclose(found, a @ b @ c, atol=1e-8)
