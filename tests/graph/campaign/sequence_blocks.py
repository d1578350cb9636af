"""Blocks of networks for sequences: attention, dense layers, recurrent layers."""

from __future__ import annotations

import numpy as np

from tests.graph.campaign.elementwise_blocks import composed_activation, is_float, normalization
from tests.graph.campaign.network_writer import Block, NetworkWriter, Value


def is_sequence(x: Value) -> bool:
    return is_float(x) and len(x.shape) == 3


def dense(net: NetworkWriter, x: Value) -> Value | None:
    if not is_float(x) or len(x.shape) < 2:
        return None
    width = int(net.rng.choice([1, 4, 8, 12, 17]))
    weights = net.weights(x.shape[-1], width, scale=x.shape[-1] ** -0.5)
    y = net.add("MatMul", [x, weights])
    if net.rng.random() < 0.7:
        y = net.add("Add", [y, net.weights(width, scale=0.5)])
    return composed_activation(net, y) if net.rng.random() < 0.4 else y


def attention(net: NetworkWriter, x: Value) -> Value | None:
    """Self-attention with heads, a mask, and a residual, as exporters write it."""
    if not is_sequence(x) or x.shape[2] % 2:
        return None
    batch, tokens, width = x.shape
    heads = 2
    y = normalization(net, x) if net.rng.random() < 0.5 else x
    assert y is not None
    parts: list[Value] = []
    for _ in range(3):
        part = net.add("MatMul", [y, net.weights(width, width, scale=width**-0.5)])
        part = net.add("Add", [part, net.weights(width, scale=0.2)])
        part = net.add("Reshape", [part, net.integers(batch, tokens, heads, width // heads)])
        parts.append(net.add("Transpose", [part], perm=[0, 2, 1, 3]))
    scores = net.add("MatMul", [parts[0], net.add("Transpose", [parts[1]], perm=[0, 1, 3, 2])])
    divisor = net.constant(np.array((width / heads) ** 0.5, np.float32))
    scores = _masked(net, net.add("Div", [scores, divisor]), tokens)
    y = net.add("MatMul", [net.add("Softmax", [scores], axis=-1), parts[2]])
    y = net.add("Transpose", [y], perm=[0, 2, 1, 3])
    y = net.add("Reshape", [y, net.integers(batch, tokens, width)])
    y = net.add("MatMul", [y, net.weights(width, width, scale=width**-0.5)])
    return net.add("Add", [y, x]) if net.rng.random() < 0.8 else y


def _masked(net: NetworkWriter, scores: Value, tokens: int) -> Value:
    """Return the scores with later tokens left out: by a sum, by a choice, or not at all."""
    later = np.triu(np.ones((tokens, tokens), bool), 1)
    match int(net.rng.integers(3)):
        case 0:
            return net.add("Add", [scores, net.constant(np.where(later, -1e9, 0).astype("f4"))])
        case 1:
            low = net.constant(np.array(-np.inf, np.float32))
            return net.add("Where", [net.constant(later), low, scores])
        case _:
            return scores


def recurrent(net: NetworkWriter, x: Value) -> Value | None:
    """An LSTM, GRU or RNN over the first axis, both its sequence and its last state used."""
    if not is_sequence(x) or x.shape[0] * x.shape[1] > 64:
        return None
    operator = str(net.rng.choice(["LSTM", "GRU", "RNN"]))
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
    direction = str(net.rng.choice(["forward", "reverse", "bidirectional"]))
    directions, hidden = 1 + (direction == "bidirectional"), int(net.rng.choice([1, 3, 5, 8]))
    inputs: list[Value | None] = [
        x,
        net.weights(directions, gates * hidden, x.shape[2], scale=0.4),
        net.weights(directions, gates * hidden, hidden, scale=0.4),
        net.weights(directions, 2 * gates * hidden, scale=0.2),
    ]
    if net.rng.random() < 0.3:
        lengths = net.rng.integers(1, x.shape[0] + 1, x.shape[1]).astype(np.int32)
        inputs.append(net.constant(lengths))
    y, last = net.add_many(operator, inputs, 2, hidden_size=hidden, direction=direction)
    if net.rng.random() < 0.3:
        return last
    y = net.add("Transpose", [y], perm=[0, 2, 1, 3])
    return net.add("Reshape", [y, net.integers(x.shape[0], x.shape[1], directions * hidden)])


def embedding(net: NetworkWriter, x: Value) -> Value | None:
    """Add a row of a table for each token; its numbers are an input."""
    if not is_sequence(x):
        return None
    rows = int(net.rng.choice([1, 7, 30]))
    tokens = net.input(net.rng.integers(0, rows, x.shape[:2]).astype(np.int64))
    table = net.weights(rows, x.shape[2], scale=1.0)
    return net.add("Add", [x, net.add("Gather", [table, tokens], axis=0)])


def contraction(net: NetworkWriter, x: Value) -> Value | None:
    if not is_sequence(x):
        return None
    equation = str(net.rng.choice(["bij,bkj->bik", "bij,bij->bi", "bij,bik->bjk", "bij,bij->ij"]))
    return net.add("Einsum", [x, net.add("Tanh", [x])], equation=equation)


SEQUENCES: tuple[Block, ...] = (
    attention,
    attention,
    dense,
    dense,
    recurrent,
    embedding,
    contraction,
    normalization,
)
