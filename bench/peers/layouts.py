"""Moving the axes of channels-last arrays to where the libraries want them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bench.peers.problem import Array, Convolution

Restore = Callable[[Array], Array]


def channels_first(array: Array) -> Array:
    """Return [n, …, c] as [n, c, …]."""
    return np.ascontiguousarray(np.moveaxis(array, -1, 1))


def channels_last(array: Array) -> Array:
    """Return [n, c, …] as [n, …, c]."""
    return np.moveaxis(array, 1, -1)


def library_weight(conv: Convolution, weight: Array) -> Array:
    """Return [… kernel, ci, co] as [co, ci, … kernel]; of a transposed convolution [ci, co, …]."""
    *kernel, ci, co = range(weight.ndim)
    front = (ci, co) if conv.is_transposed else (co, ci)
    return np.ascontiguousarray(weight.transpose(*front, *kernel))


def as_images(conv: Convolution) -> tuple[Convolution, Restore]:
    """Return a convolution of capsules as one of images, and what moves its result back.

    Where the last of three dimensions is not convolved, its places are images of their own. Other
    convolutions are returned as they are.
    """
    last = [numbers[2:] for numbers in (conv.weight.shape[:3], conv.stride, conv.padding)]
    if conv.rank != 3 or last != [(1,), (1,), (0,)]:
        return conv, lambda result: result
    batch, rows = conv.x.shape[0], conv.x.shape[3]
    x = np.ascontiguousarray(np.moveaxis(conv.x, 3, 1)).reshape(
        -1, *conv.x.shape[1:3], conv.x.shape[4]
    )
    images = replace(
        conv,
        x=x,
        weight=np.ascontiguousarray(conv.weight[:, :, 0]),
        stride=conv.stride[:2],
        padding=conv.padding[:2],
        dilation=conv.dilation[:2],
    )

    def restore(result: Array) -> Array:
        return np.moveaxis(result.reshape(batch, rows, *result.shape[1:]), 1, 3)

    return images, restore
