"""Chains of element-wise nodes, each of which reads the one before it more than once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import ansorc.lang as ac
from ansorc.ir.aligned import Array

KINDS = ("add", "silu", "gelu", "celu", "mish")
SHAPE = (8, 33)


def node(kind: str, v: Any) -> Any:
    """One node, of the value `v`."""
    match kind:
        case "add":
            return v * 0.375 + v * 0.5
        case "silu":
            return v * ac.sigmoid(v)
        case "gelu":
            return v * 0.5 * (1.0 + ac.erf(v * 0.7071))
        case "celu":
            return ac.maximum(v, 0.0) + ac.minimum(0.0, ac.exp(v) - 1.0)
        case "mish":
            return v * ac.tanh(ac.log(1.0 + ac.exp(v)))
        case _:
            raise ValueError(kind)


NUMPY: dict[str, Callable[[Array], Array]] = {
    "add": lambda v: v * 0.375 + v * 0.5,
    "silu": lambda v: v / (1 + np.exp(-v)),
    "gelu": lambda v: v * 0.5 * (1 + np.vectorize(math.erf)(v * 0.7071)),
    "celu": lambda v: np.maximum(v, 0) + np.minimum(0, np.exp(v) - 1),
    "mish": lambda v: v * np.tanh(np.log(1 + np.exp(v))),
}
"""The same in float64."""


def kinds_of(kind: str, length: int) -> list[str]:
    """The kinds of the nodes of a chain, in turn for "mixed"."""
    return [KINDS[n % len(KINDS)] if kind == "mixed" else kind for n in range(length)]


def stage(kind: str, before: ac.Tensor, name: str) -> ac.Tensor:
    """One node of each element of `before`."""
    return ac.compute(before.shape, lambda i, j: node(kind, before[i, j]), name)


def chain(kind: str, length: int, shape: tuple[int, int] = SHAPE) -> ac.ComputeDAG:
    """A chain of computations of one tensor each."""
    source = last = ac.placeholder(shape, "x")
    for number, one in enumerate(kinds_of(kind, length)):
        last = stage(one, last, f"t{number}")
    return ac.ComputeDAG([source, last])


def expected(kind: str, length: int, x: Array) -> Array:
    """What the chain gives, in float64."""
    found = x.astype(np.float64)
    for one in kinds_of(kind, length):
        found = NUMPY[one](found)
    return found
