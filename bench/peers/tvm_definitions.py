"""The problems as tensor expressions of TVM, channels-last, for MetaSchedule to schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import te, tirx

from bench.peers.problem import Array, Convolution, Norm, Problem, Product, Scores

Definition = tuple[list[Any], list[Array]]
"""The tensors, inputs before the output, and the arrays of the inputs."""


def definition(problem: Problem) -> Definition:
    """Return the computation of `problem`."""
    match problem:
        case Convolution():
            return _convolution(problem)
        case Product(a, b):
            return _product(a, b)
        case Norm(x):
            return _norm(x)
        case Scores(query, key):
            return _scores(query, key)


def _product(a: Array, b: Array) -> Definition:
    left, right = _placeholder(a, "a"), _placeholder(b, "b")
    k = te.reduce_axis((0, a.shape[2]), "k")
    shape = (*a.shape[:2], b.shape[2])
    c = te.compute(shape, lambda n, i, j: te.sum(left[n, i, k] * right[n, k, j], axis=k), name="c")
    return [left, right, c], [a, b]


def _norm(x: Array) -> Definition:
    data = _placeholder(x, "x")
    i, j = te.reduce_axis((0, x.shape[1]), "i"), te.reduce_axis((0, x.shape[2]), "j")
    square = te.compute(
        (len(x),), lambda n: te.sum(data[n, i, j] * data[n, i, j], axis=[i, j]), name="square"
    )
    norm = te.compute((len(x),), lambda n: te.sqrt(square[n]), name="norm")
    return [data, norm], [x]


def _scores(query: Array, key: Array) -> Definition:
    batch, length, heads, hidden = query.shape
    q, k = _placeholder(query, "query"), _placeholder(key, "key")
    shape = (batch, heads, length, length)
    d = te.reduce_axis((0, hidden), "d")
    product = te.compute(
        shape, lambda n, h, i, j: te.sum(q[n, i, h, d] * k[n, j, h, d], axis=d), name="scores"
    )
    m, s = te.reduce_axis((0, length), "m"), te.reduce_axis((0, length), "s")
    highest = te.compute(
        shape[:3], lambda n, h, i: te.max(product[n, h, i, m], axis=m), name="highest"
    )
    raised = te.compute(
        shape, lambda n, h, i, j: te.exp(product[n, h, i, j] - highest[n, h, i]), name="raised"
    )
    total = te.compute(shape[:3], lambda n, h, i: te.sum(raised[n, h, i, s], axis=s), name="total")
    softmax = te.compute(
        shape, lambda n, h, i, j: raised[n, h, i, j] / total[n, h, i], name="softmax"
    )
    return [q, k, softmax], [query, key]


def _convolution(conv: Convolution) -> Definition:
    """A transposed convolution is one of the dilated input, its weights turned round before."""
    rank = conv.rank
    folded, bias = conv.folded()
    if conv.is_transposed:
        folded = np.ascontiguousarray(np.flip(folded, tuple(range(rank))))
    x, w = _placeholder(conv.x, "x"), _placeholder(folded, "w")
    source, stride = _padded(conv, x, folded.shape[:rank])
    taps = [te.reduce_axis((0, extent), f"r{i}") for i, extent in enumerate(folded.shape[:rank])]
    depth, width = folded.shape[rank], folded.shape[-1] // conv.groups
    channel = te.reduce_axis((0, depth), "rc")

    def value(n: Any, *at: Any) -> Any:
        *places, c = at
        spots = [
            p * s + t * d for p, s, t, d in zip(places, stride, taps, conv.dilation, strict=True)
        ]
        first = 0 if conv.groups == 1 else tirx.indexdiv(c, width) * depth
        if depth == 1:
            return te.sum(source[(n, *spots, first)] * w[(*taps, 0, c)], axis=taps)
        terms = source[(n, *spots, first + channel)] * w[(*taps, channel, c)]
        return te.sum(terms, axis=[*taps, channel])

    y = te.compute(conv.out_shape, value, name="conv")
    if bias is None:
        return [x, w, y], [conv.x, folded]
    b = _placeholder(bias, "bias")
    zero = tirx.const(0, "float32")
    relu = te.compute(conv.out_shape, lambda *at: te.max(y[at] + b[at[-1]], zero), name="relu")
    return [x, w, b, relu], [conv.x, folded, bias]


def _padded(conv: Convolution, x: Any, kernel: Sequence[int]) -> tuple[Any, tuple[int, ...]]:
    """Return the input with its zeros, and the stride to go over it."""
    rank = conv.rank
    if conv.is_transposed:
        margins = [k - 1 - p for k, p in zip(kernel, conv.padding, strict=True)]
        spread, steps = conv.stride, (1,) * rank
    else:
        margins, spread, steps = list(conv.padding), (1,) * rank, conv.stride
    if not any(margins) and not conv.is_transposed:
        return x, steps
    extents = conv.x.shape[1:-1]
    shape = [(e - 1) * s + 1 + 2 * m for e, s, m in zip(extents, spread, margins, strict=True)]

    def value(n: Any, *at: Any) -> Any:
        *places, c = at
        inside: list[Any] = []
        spots: list[Any] = []
        for place, margin, step, extent in zip(places, margins, spread, extents, strict=True):
            spot = place - margin
            inside += [spot >= 0, spot < (extent - 1) * step + 1] if margin else []
            inside += [tirx.indexmod(spot, step) == 0] if step > 1 else []
            spots.append(tirx.indexdiv(spot, step) if step > 1 else spot)
        return tirx.if_then_else(tirx.all(*inside), x[(n, *spots, c)], tirx.const(0, "float32"))

    return te.compute((len(conv.x), *shape, conv.x.shape[-1]), value, name="pad"), steps


def _placeholder(array: Array, name: str) -> Any:
    return te.placeholder(array.shape, name=name, dtype="float32")
