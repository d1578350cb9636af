"""Networks of many element-wise nodes, each of which reads the one before it more than once."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from onnx import NodeProto

import ansorc as ac
from ansorc.ir.aligned import Array
from tests.graph.onnx.onnx_models import model_of, node

SHAPE = (8, 33)


def sigmoid(v: Array) -> Array:
    return 1 / (1 + np.exp(-v))


NODES: dict[str, tuple[Callable[[str, str], list[NodeProto]], Callable[[Array], Array]]] = {
    "add": (lambda a, b: [node("Add", [a, a], [b])], lambda v: v + v),
    "silu": (
        lambda a, b: [node("Sigmoid", [a], [f"{b}s"]), node("Mul", [a, f"{b}s"], [b])],
        lambda v: v * sigmoid(v),
    ),
    "gelu": (
        lambda a, b: [node("Gelu", [a], [b])],
        lambda v: v * 0.5 * (1 + np.vectorize(math.erf)(v * math.sqrt(0.5))),
    ),
    "celu": (
        lambda a, b: [node("Celu", [a], [b])],
        lambda v: np.maximum(v, 0) + np.minimum(0, np.exp(v) - 1),
    ),
    "mish": (
        lambda a, b: [node("Mish", [a], [b])],
        lambda v: v * np.tanh(np.log1p(np.exp(v))),
    ),
    "residual": (
        lambda a, b: [node("Tanh", [a], [f"{b}s"]), node("Add", [a, f"{b}s"], [b])],
        lambda v: v + np.tanh(v),
    ),
}


def is_right(kind: str, length: int) -> None:
    """Build a chain, and compare it with the same in float64."""
    kinds = [list(NODES)[n % len(NODES)] if kind == "mixed" else kind for n in range(length)]
    nodes = [made for n, one in enumerate(kinds) for made in NODES[one][0](f"t{n}", f"t{n + 1}")]
    network = ac.build(ac.from_onnx(model_of(nodes, {"t0": SHAPE}, [f"t{length}"], opset=20)))
    x = np.random.default_rng(length).uniform(-1, 1, SHAPE).astype(np.float32)
    wanted = x.astype(np.float64)
    for one in kinds:
        wanted = NODES[one][1](wanted)
    # exp(x) - 1 loses digits near 0, once a node
    atol = length * 1e-7 if kind in ("celu", "mixed") else 1e-37
    np.testing.assert_allclose(network(x), wanted, 1e-3, atol)


@pytest.mark.parametrize("kind", ["add", "residual", "mixed"])
def test_chains_of_nodes(kind: str) -> None:
    is_right(kind, 14)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [*NODES, "mixed"])
@pytest.mark.parametrize("length", [14, 50, 100])
def test_long_chains_of_nodes(kind: str, length: int) -> None:
    is_right(kind, length)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["silu", "celu", "mixed"])
def test_chains_of_200_nodes(kind: str) -> None:
    is_right(kind, 200)
