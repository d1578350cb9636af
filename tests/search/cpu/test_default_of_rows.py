"""softmax, log-softmax, layer norm and the norm of the default schedule, on hard inputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

import ansorc as ac

Array = np.ndarray
SHAPE = (37, 1001)


def rows(kind: str) -> Array:
    """Rows whose naive formula overflows, cancels, or loses the small terms."""
    normal = np.random.default_rng(0).standard_normal(SHAPE)
    made = {
        "plain": normal,
        "huge": normal * 1e4,
        "far from zero": normal + 3e3,
        "one large": np.where(np.arange(SHAPE[1]) == 7, 80.0, normal * 1e-3),
        "all the same": np.full(SHAPE, -5.0),
    }
    return made[kind].astype(np.float32)


KINDS = ("plain", "huge", "far from zero", "one large", "all the same")


@cache
def built(operator: Callable[[ac.Tensor], ac.Tensor], shape: tuple[int, ...]) -> ac.Module:
    source = ac.placeholder(shape, "A")
    return ac.build(ac.ComputeDAG([source, operator(source)]))


@cache
def built_layer_norm() -> ac.Module:
    source = ac.placeholder(SHAPE, "A")
    scale, shift = (ac.placeholder((SHAPE[1],), name) for name in "BC")
    return ac.build(ac.ComputeDAG([source, scale, shift, ac.ops.layer_norm(source, scale, shift)]))


def run(operator: Callable[[ac.Tensor], ac.Tensor], data: Array) -> Array:
    found = np.full(data.shape, np.nan, np.float32)
    built(operator, data.shape)(data, found)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_softmax(kind: str) -> None:
    data = rows(kind)
    wide = data.astype(np.float64)
    power = np.exp(wide - wide.max(axis=1, keepdims=True))
    expected = power / power.sum(axis=1, keepdims=True)
    found = run(ac.ops.softmax, data)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-37)
    np.testing.assert_allclose(found.sum(axis=1, dtype=np.float64), 1.0, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_log_softmax(kind: str) -> None:
    data = rows(kind)
    wide = data.astype(np.float64)
    shifted = wide - wide.max(axis=1, keepdims=True)
    expected = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    found = run(ac.ops.log_softmax, data)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "one large"])
def test_layer_norm(kind: str) -> None:
    """The mean is taken off before squaring: 3000 ± 1 keeps its variance."""
    data = rows(kind)
    wide = data.astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    expected = centred / np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)
    ones, zeros = np.ones(SHAPE[1], np.float32), np.zeros(SHAPE[1], np.float32)
    found = np.full(SHAPE, np.nan, np.float32)
    built_layer_norm()(data, ones, zeros, found)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-3)


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_a_norm_in_shares(threads: int) -> None:
    data = np.random.default_rng(1).standard_normal((2, 211, 307)).astype(np.float32)
    found = np.full((2,), np.nan, np.float32)
    built(ac.ops.norm2, data.shape)(data, found, threads=threads)
    expected = np.sqrt((data.astype(np.float64) ** 2).sum(axis=(1, 2)))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
