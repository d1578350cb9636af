"""Small computations, and sketches of them made by hand."""

from __future__ import annotations

import ansorc.lang as ac
from ansorc.lang import ComputeDAG, compute, placeholder, reduce_axis
from ansorc.schedule import Hole
from ansorc.schedule.state import Step
from ansorc.schedule.steps import (
    CacheWrite,
    ComputeAt,
    Reorder,
    Split,
    Unroll,
    Vectorize,
)
from tests.support.assumed import machine

ZEN = machine("x86_64-linux-gnu -mcpu=znver3 -cores=4")


def matmul(n: int, m: int, depth: int) -> ComputeDAG:
    a, b = placeholder((n, depth), name="A"), placeholder((depth, m), name="B")
    k = reduce_axis(depth, name="k")
    c = compute((n, m), lambda i, j: ac.sum(a[i, k] * b[k, j], axis=k), name="C")
    return ComputeDAG([a, b, c])


def convolution(size: int, channels: int, stride: int, *, constant: bool = False) -> ComputeDAG:
    """A padded 3×3 convolution; its padding is the stage P. Its weights may be constant."""
    x = placeholder((size, size, channels), name="X")
    w = placeholder((3, 3, channels, channels), name="W", constant=constant)
    padded = compute(
        (size + 2, size + 2, channels),
        lambda h, v, c: ac.if_then_else(
            ac.all_of(h >= 1, h < size + 1, v >= 1, v < size + 1), x[h - 1, v - 1, c], 0.0
        ),
        name="P",
    )
    r, s = reduce_axis(3, name="r"), reduce_axis(3, name="s")
    k = reduce_axis(channels, name="k")
    out = (size - 1) // stride + 1
    y = compute(
        (out, out, channels),
        lambda h, v, c: ac.sum(
            padded[h * stride + r, v * stride + s, k] * w[r, s, k, c], axis=[r, s, k]
        ),
        name="Y",
    )
    return ComputeDAG([x, w, y])


def transpose(n: int, m: int) -> ComputeDAG:
    a = placeholder((m, n), name="A")
    b = compute((n, m), lambda i, j: a[j, i] * 2.0, name="B")
    return ComputeDAG([a, b])


def smoothing(n: int) -> ComputeDAG:
    """Each element from three neighbours."""
    a = placeholder((n + 2,), name="A")
    b = compute((n,), lambda i: a[i] + a[i + 1] + a[i + 2], name="B")
    return ComputeDAG([a, b])


def tiled_matmul() -> tuple[Step, ...]:
    """A matmul C with a local tile inside the first tile level of its copy, lengths left open.

    Tile variables: i and j of 4 levels, k of 2.
    """
    space = [name for level in (0, 1, 2) for name in (f"i.{level}", f"j.{level}")]
    order = (*space[:2], "k.0", *space[2:4], "k.1", *space[4:])
    return (
        CacheWrite("C", "local"),
        Split("C", "i", (Hole("i", (1, 2, 3)),)),
        Split("C", "j", (Hole("j", (1, 2, 3)),)),
        Reorder("C", ("i.0", "j.0", "i.1", "j.1")),
        ComputeAt("C.local", "C", "j.0"),
        Split("C.local", "i", (Hole("i", (2,)), Hole("i", (3,)))),
        Split("C.local", "j", (Hole("j", (2,)), Hole("j", (3,)))),
        Split("C.local", "k", (Hole("k", (1,)),)),
        Reorder("C.local", order),
        Unroll("C.local", "i.2"),
        Vectorize("C.local", "j.2"),
    )
