"""Tensors while a network is imported: names of the graph's, or values that are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeVar, cast

import numpy as np

from ansorc.ir.aligned import Array

T = TypeVar("T")
Value: TypeAlias = "str | Array"
"""A tensor of the graph by name, or values that are known at import."""
HALF_FLOATS = ("float16", "bfloat16")
"""Floats that a graph computes with in float32."""
LAYOUTS = {1: "NCL", 2: "NCHW", 3: "NCDHW"}
"""The layouts of images with channels first, by the number of spatial dimensions."""


def widen(array: Array) -> Array:
    """Return known values as the graph computes with them."""
    return array.astype(np.float32) if array.dtype.name in HALF_FLOATS else array


def as_list(results: T | Sequence[T]) -> list[T]:
    """Return the results of a converter, which may return a single one."""
    if isinstance(results, (list, tuple)):
        return list(cast("Sequence[T]", results))
    return [cast("T", results)]
