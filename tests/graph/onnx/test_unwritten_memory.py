"""Windows over what a kernel computes itself: borders of it are never written, and never count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto

import ansorc as ac
from ansorc.graph.graph_reference import run_reference
from ansorc.ir.aligned import Array
from tests.graph.onnx.onnx_models import model_of, node

Random = np.random.Generator
BEFORE = ("Exp", "Elu", "Sigmoid", "Softplus", "Mish", "LeakyRelu")
Made = tuple[NodeProto, dict[str, Array]]


def _lrn(random: Random, channels: int) -> Made:
    return node("LRN", ["a"], ["b"], size=int(random.choice([3, 5, 7])), alpha=0.1), {}


def _pool(kind: str) -> Callable[[Random, int], Made]:
    def make(random: Random, channels: int) -> Made:
        window = int(random.integers(2, 5))
        pads = [int(each) for each in random.integers(0, window, 4)]
        strides = [int(random.integers(1, 3))] * 2
        options: dict[str, Any] = {"count_include_pad": 1} if kind == "AveragePool" else {}
        made = node(
            kind, ["a"], ["b"], kernel_shape=[window] * 2, pads=pads, strides=strides, **options
        )
        return made, {}

    return make


def _convolution(kind: str, *, is_depthwise: bool) -> Callable[[Random, int], Made]:
    def make(random: Random, channels: int) -> Made:
        window, results = int(random.integers(2, 5)), int(random.integers(1, 9))
        groups = channels if is_depthwise else 1
        shape = (channels, 1) if is_depthwise else (results, channels)
        shape = shape[::-1] if kind == "ConvTranspose" and not is_depthwise else shape
        weight = random.normal(size=(*shape, window, window)).astype(np.float32)
        pads = [int(each) for each in random.integers(0, 2, 4)]
        strides = [int(random.integers(1, 3))] * 2
        made = node(kind, ["a", "w"], ["b"], pads=pads, strides=strides, group=groups)
        return made, {"w": weight}

    return make


WINDOWS: dict[str, Callable[[Random, int], Made]] = {
    "lrn": _lrn,
    "average": _pool("AveragePool"),
    "maximum": _pool("MaxPool"),
    "convolution": _convolution("Conv", is_depthwise=False),
    "depthwise": _convolution("Conv", is_depthwise=True),
    "transposed": _convolution("ConvTranspose", is_depthwise=False),
}


def is_right(seed: int) -> None:
    """Draw a window over an activation, and perhaps another after it; compare with float64."""
    random = np.random.default_rng(seed)
    channels, size = int(random.integers(1, 14)), [int(x) for x in random.integers(6, 15, 2)]
    first, last = random.choice(BEFORE, 2)
    made, weights = WINDOWS[random.choice([*WINDOWS])](random, channels)
    nodes = [node(first, ["x"], ["a"]), made, node(last, ["b"], ["c"])]
    shape = [int(random.integers(1, 3)), channels, *size]
    graph = ac.from_onnx(model_of(nodes, {"x": shape}, ["c"], weights, opset=18))
    x = random.uniform(0.1, 2, shape).astype(np.float32)
    (wanted,) = run_reference(graph, {"x": x}).values()
    network = ac.build(graph)
    for _ in range(2):
        np.testing.assert_allclose(network(x), wanted, 2e-3, 1e-4, err_msg=f"seed {seed}")


@pytest.mark.parametrize("seed", range(3))
def test_windows_over_what_is_computed(seed: int) -> None:
    is_right(seed)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(100, 500, 50))
def test_many_windows_over_what_is_computed(first: int) -> None:
    for seed in range(first, first + 50):
        is_right(seed)
