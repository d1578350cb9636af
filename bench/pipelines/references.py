"""The newer applications once more in NumPy, written without the definitions of ansorc."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.pipelines.filters import BLEND, LEVELS, WEIGHTS

Array = NDArray[Any]


def hist(image: Array) -> Array:
    """Return the image with the brightness of its pixels moved to equal frequencies."""
    wide = image.astype(np.int32)
    bright = np.tensordot(np.array(WEIGHTS, np.int32), wide, axes=1) >> 8
    counts = np.bincount(bright.ravel(), minlength=LEVELS)
    table = np.cumsum(counts) * (LEVELS - 1) // bright.size
    red, blue = ((wide[0] - bright) * 183) >> 8, ((wide[2] - bright) * 144) >> 8
    change = (red * 359) >> 8, -((blue * 88 + red * 183) >> 8), (blue * 454) >> 8
    return np.clip(table[bright] + np.stack(change), 0, 255).astype(np.uint8)


def iir_blur(image: Array) -> Array:
    """Return the image after recursive filters to and fro along both axes."""
    result = image.astype(np.float64)
    for axis in (1, 2):
        for _ in range(2):
            result = np.flip(_running_mean(result, axis), axis)
    return result


def _running_mean(image: Array, axis: int) -> Array:
    lines = np.moveaxis(image, axis, 0).copy()
    for number in range(1, len(lines)):
        lines[number] = (1 - BLEND) * lines[number - 1] + BLEND * lines[number]
    return np.moveaxis(lines, 0, axis)


REFERENCES: dict[str, Callable[..., Array]] = {
    reference.__name__: reference for reference in (hist, iir_blur)
}


def reference_of(name: str, inputs: Sequence[Array]) -> Array | None:
    """Return what an application has to give; None where its definition is the reference."""
    return REFERENCES[name](*inputs) if name in REFERENCES else None
