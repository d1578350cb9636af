"""Small networks for the tests, made by hand."""

from __future__ import annotations

import numpy as np

from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import FLOAT32


class Weights:
    """Draws float32 weights, always the same."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def __call__(self, *shape: int) -> Array:
        scale = float(np.prod(shape[1:])) ** -0.5
        return (self._rng.standard_normal(shape) * scale).astype(np.float32)


def residual_network(channels: int = 8, size: int = 10) -> Graph:
    """Two convolutions with batch norms and a residual, a pool, a dense layer: channels first."""
    draw, b = Weights(), GraphBuilder("residual")
    x = b.input("x", TensorType(FLOAT32, (1, channels, size, size)))
    y = x
    for number in range(2):
        w = b.constant(draw(channels, channels, 3, 3))
        y = b.add("conv2d", [y, w], padding=1, layout="NCHW")
        scale, shift = b.constant(draw(channels) + 1), b.constant(draw(channels))
        y = b.add("batch_norm", [y, scale, shift], axis=1)
        y = b.add("relu", [y]) if number == 0 else y
    y = b.add("relu", [b.add("add", [y, x])])
    y = b.add("global_avg_pool", [y], layout="NCHW")
    dense = b.add("matmul", [y, b.constant(draw(channels, 5))])
    return b.graph([b.add("add", [dense, b.constant(draw(5))], "logits")])


def attention_network(tokens: int = 6, heads: int = 2, width: int = 8) -> Graph:
    """One block of attention with a mask, its heads split and joined by reshapes."""
    draw, b = Weights(1), GraphBuilder("attention")
    x = b.input("x", TensorType(FLOAT32, (1, tokens, width)))
    mask = b.input("mask", TensorType(FLOAT32, (1, 1, 1, tokens)))
    parts: list[str] = []
    for _ in range(3):
        y = b.add("matmul", [x, b.constant(draw(width, width))])
        y = b.add("add", [y, b.constant(draw(width))])
        y = b.add("reshape", [y], shape=[1, tokens, heads, width // heads])
        parts.append(b.add("transpose", [y], order=[0, 2, 1, 3]))
    keys = b.add("transpose", [parts[1]], order=[0, 1, 3, 2])
    scores = b.add("matmul", [parts[0], keys])
    scores = b.add("add", [b.add("multiply", [scores, b.scalar(0.5, scores)]), mask])
    y = b.add("matmul", [b.add("softmax", [scores], axis=-1), parts[2]])
    y = b.add("reshape", [b.add("transpose", [y], order=[0, 2, 1, 3])], shape=[1, tokens, width])
    return b.graph([b.add("add", [y, x], "y")])


NETWORKS = {"residual": residual_network, "attention": attention_network}


def inputs_of(graph: Graph, seed: int = 2) -> dict[str, Array]:
    """Return random inputs for `graph`."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.standard_normal(kind.shape).astype(kind.dtype.numpy)
        for name, kind in graph.inputs.items()
    }
