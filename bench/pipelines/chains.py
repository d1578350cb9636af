"""Steps of a solver, one after another: grids whose borders keep what they hold."""

from __future__ import annotations

from functools import partial

import ansorc as ac
from bench.pipelines.definitions import Tensors, total

SIDE, DEPTH = 1024, 128
"""The rows and columns of the plane, and the side of the cube."""
RATE = 0.1
"""The part of the differences to its neighbours that a point of the cube takes in a step."""


def jacobi(steps: int) -> Tensors:
    """Replace each point of a plane by the mean of its four neighbours, so many times."""
    plane = ac.placeholder((SIDE, SIDE), "plane")

    def step(before: ac.Tensor, y: ac.Scalar, x: ac.Scalar) -> ac.Scalar:
        inside = ac.all_of(y >= 1, y < SIDE - 1, x >= 1, x < SIDE - 1)
        around = before[y - 1, x] + before[y + 1, x] + before[y, x - 1] + before[y, x + 1]
        return ac.if_then_else(inside, around * 0.25, before[y, x])

    last = plane
    for number in range(steps):
        last = ac.compute((SIDE, SIDE), partial(step, last), f"jacobi{number}")
    return [plane, last]


def heat(steps: int) -> Tensors:
    """Let heat flow between the six neighbours of each point of a cube, so many times."""
    cube = ac.placeholder((DEPTH, DEPTH, DEPTH), "cube")

    def step(before: ac.Tensor, z: ac.Scalar, y: ac.Scalar, x: ac.Scalar) -> ac.Scalar:
        places = [limit for p in (z, y, x) for limit in (p >= 1, p < DEPTH - 1)]
        around = total([
            before[z - 1, y, x], before[z + 1, y, x], before[z, y - 1, x],
            before[z, y + 1, x], before[z, y, x - 1], before[z, y, x + 1],
        ])  # fmt: skip
        here = before[z, y, x]
        return ac.if_then_else(ac.all_of(*places), here + (around - here * 6) * RATE, here)

    last = cube
    for number in range(steps):
        last = ac.compute((DEPTH, DEPTH, DEPTH), partial(step, last), f"heat{number}")
    return [cube, last]
