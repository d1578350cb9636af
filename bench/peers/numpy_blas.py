"""NumPy and the BLAS that it brings: matrix products, and what can be brought into their form."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from bench.peers.problem import Array, Convolution, Norm, Product, Scores
from bench.peers.program import Make, Program, Request, Unsupported

_MAX_DEPTHWISE = 1
"""Channels of a group from which on a matrix product is worth while."""


def versions() -> dict[str, str]:
    """Return the versions of NumPy and of its BLAS."""
    build = cast(dict[str, Any], np.show_config(mode="dicts"))
    blas = build["Build Dependencies"]["blas"]
    return {"numpy": np.__version__, "blas": f"{blas['name']} {blas['version']}"}


def programs(request: Request) -> Iterator[tuple[str, Make]]:
    """Yield the one way that is usual for each problem."""
    match request.problem:
        case Product(a, b):
            out = np.empty((*a.shape[:2], b.shape[2]), np.float32)
            yield _always("matmul", lambda: np.matmul(a, b, out=out))
        case Norm(x):
            yield _always("sqrt of vdot", lambda: np.sqrt([np.vdot(one, one) for one in x]))
            flat = x.reshape(len(x), -1)
            yield _always("norm", lambda: np.linalg.norm(flat, axis=1))
        case Scores(query, key):
            yield _always("matmul, then softmax", lambda: _scores(query, key))
        case Convolution() as conv:
            yield _convolution(conv)


def _always(name: str, compute: Callable[[], Array]) -> tuple[str, Make]:
    held: list[Array] = []

    def run() -> None:
        held[:] = [compute()]

    return name, lambda: Program(name, run, lambda: held[0])


def _scores(query: Array, key: Array) -> Array:
    scores = np.matmul(query.transpose(0, 2, 1, 3), key.transpose(0, 2, 3, 1))
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


def _convolution(conv: Convolution) -> tuple[str, Make]:
    if conv.is_transposed:
        raise Unsupported("NumPy has no transposed convolution, and BLAS no form for it")
    if conv.weight.shape[-2] <= _MAX_DEPTHWISE:
        raise Unsupported("one channel a group is no matrix product")
    weight, bias = conv.folded()
    groups, depth = conv.groups, weight.shape[-1] // conv.groups
    # [groups, k·ci, co]: prepared before, as are those of every peer
    matrices = np.ascontiguousarray(
        weight.reshape(-1, groups, depth).transpose(1, 0, 2), np.float32
    )
    out = np.empty(conv.out_shape, np.float32)

    def compute() -> Array:
        for image, result in zip(conv.x, out, strict=True):
            _image(conv, image, matrices, result)
        if bias is not None:
            np.add(out, bias, out=out)
            np.maximum(out, 0, out=out)
        return out

    return _always("im2col and matmul", compute)


def _image(conv: Convolution, image: Array, matrices: Array, result: Array) -> None:
    """Write the convolution of `image` [… spatial, ci] to `result` [… spatial, co]."""
    rank = conv.rank
    padded = (
        np.pad(image, [*((p, p) for p in conv.padding), (0, 0)]) if any(conv.padding) else image
    )
    kernel = conv.weight.shape[:rank]
    spans = [d * (k - 1) + 1 for d, k in zip(conv.dilation, kernel, strict=True)]
    windows = sliding_window_view(padded, spans, tuple(range(rank)))
    places = tuple(slice(None, None, s) for s in conv.stride)
    taps = tuple(slice(None, None, d) for d in conv.dilation)
    windows = windows[(*places, slice(None), *taps)]  # [… out, ci, … kernel]
    ordered = np.moveaxis(windows, rank, -1)
    pixels, group_ci = math.prod(result.shape[:-1]), matrices.shape[1] // math.prod(kernel)
    flat = result.reshape(pixels, len(matrices), -1)
    for group, matrix in enumerate(matrices):
        part = ordered[..., group * group_ci : (group + 1) * group_ci]
        product = part.reshape(pixels, -1) @ matrix
        if len(matrices) == 1:
            flat[:, 0] = product
        else:
            flat[:, group] = product
