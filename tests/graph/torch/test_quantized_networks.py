"""Networks that pt2e has quantised: their products are sums of integers, as PyTorch's own run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.graph.graph import Graph
from ansorc.graph.network import Network
from ansorc.ir.dtype import INT32
from tests.graph.torch.torch_oracle import module_of, torch

pytestmark = pytest.mark.filterwarnings("ignore")
pytest.importorskip("torch.ao.quantization.fx._decomposed")
Q: Any = torch.ops.quantized_decomposed
RANDOM = torch.Generator().manual_seed(0)
BYTE = (0, 255, torch.uint8)
"""The limits and the dtype of data."""


def draw(*shape: int) -> Any:
    return torch.randint(-127, 128, shape, dtype=torch.int8, generator=RANDOM)


WEIGHTS = {name: draw(*shape) for name, shape in {
    "conv": (8, 4, 3, 3), "depthwise": (8, 1, 3, 3), "line": (4, 4, 3), "dense": (5, 8),
    "odd": (8, 3, 1, 1),
}.items()}  # fmt: skip
BIAS = torch.randn(8, generator=RANDOM)


def stored(x: Any, scale: float = 0.02, zero: int = 117) -> Any:
    """Quantise and dequantise, as pt2e writes between two layers."""
    return Q.dequantize_per_tensor(Q.quantize_per_tensor(x, scale, zero, *BYTE), scale, zero, *BYTE)


def weight(name: str) -> Any:
    values = WEIGHTS[name]
    scales = torch.linspace(0.001, 0.003, len(values))
    zeros = torch.zeros(len(values), dtype=torch.int64)
    return Q.dequantize_per_channel(values, scales, zeros, 0, -128, 127, torch.int8)


def tensor_weight(name: str) -> Any:
    return Q.dequantize_per_tensor(WEIGHTS[name], 0.002, 0, -127, 127, torch.int8)


def convolve(x: Any) -> Any:
    return stored(torch.conv2d(stored(x), weight("conv"), BIAS, 1, 1).relu(), 0.01, 0)


def convolve_each_channel(x: Any) -> Any:
    x = torch.cat([stored(x), stored(x)], 1)
    return torch.conv2d(stored(x), weight("depthwise"), None, 2, 1, 1, 8)


def convolve_lines(x: Any) -> Any:
    return torch.conv1d(stored(x[:, :, 0]), tensor_weight("line"), None, 1, 1)


def convolve_odd_channels(x: Any) -> Any:
    return torch.conv2d(stored(x[:, :3]), tensor_weight("odd"), BIAS)


def multiply(x: Any) -> Any:
    return torch.nn.functional.linear(stored(x), weight("dense"), BIAS[:5])


LAYERS = [convolve, convolve_each_channel, convolve_lines, convolve_odd_channels, multiply]


def run(function: Any, given: Any) -> tuple[Graph, Any]:
    graph = ac.from_torch(module_of(function), (given,))
    network = Network.of(graph, "x86_64-linux-gnu -mcpu=znver4 -cores=2")
    return network.graph, ac.build(graph)(given.numpy())


def sums(graph: Graph) -> list[str]:
    """Return the dtypes of the sums that a network computes."""
    dags = [node.dag(graph.types) for node in graph.nodes]
    return [str(op.buffer.dtype) for dag in dags for op in dag.ops if op.reduce_axes]


@pytest.mark.parametrize("layer", LAYERS)
def test_products_are_sums_of_integers(layer: Any) -> None:
    given = torch.randn(2, 4, 7, 8, generator=RANDOM)
    graph, computed = run(layer, given)
    assert sums(graph) == [str(INT32)]
    wanted = layer(given).numpy()
    step = 0.0101 if layer is convolve else 1e-5  # a rounding may fall to the other side
    np.testing.assert_allclose(computed, wanted, atol=step)
    assert np.mean(computed != wanted) < 0.01 or layer is not convolve


def test_integers_of_one_network_follow_each_other() -> None:
    """Between two layers there are bytes alone."""

    def network(x: Any) -> Any:
        return multiply(convolve(x).mean((2, 3)))

    given = torch.randn(2, 4, 7, 8, generator=RANDOM)
    graph, computed = run(network, given)
    assert sums(graph) == [str(INT32), "float32", str(INT32)]
    np.testing.assert_allclose(computed, network(given).numpy(), atol=1e-2)
    assert not [node for node in graph.nodes if node.builtin.startswith("dequantize_")]


@pytest.mark.parametrize("limits", [(-8, 7), (0, 127)])
def test_limits_within_the_bytes(limits: tuple[int, int]) -> None:
    def network(x: Any) -> Any:
        return Q.quantize_per_tensor(x * 9, 0.1, 3, *limits, torch.int8)

    given = torch.randn(3, 5, generator=RANDOM)
    _, computed = run(network, given)
    np.testing.assert_array_equal(computed, network(given).numpy())


def test_a_weight_without_bytes_beside_it_is_of_floats() -> None:
    def network(x: Any) -> Any:
        return torch.nn.functional.linear(x, weight("dense"))

    given = torch.randn(3, 8, generator=RANDOM)
    graph, computed = run(network, given)
    assert sums(graph) == ["float32"]
    assert [array.dtype.name for array in graph.constants.values()] == ["float32"]
    np.testing.assert_allclose(computed, network(given).numpy(), atol=1e-5)
