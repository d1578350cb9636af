"""The chains of `chains.py` as loops that Numba compiles: rows in parallel, vectors along them."""

# Numba has no types.
# pyright: reportMissingImports=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false
# pyright: reportUntypedFunctionDecorator=false

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from bench.peers.program import Program
from bench.pipelines.chains import RATE

Array = NDArray[Any]
jit: Callable[..., Any] = nb.njit(parallel=True, fastmath=True)
each = nb.prange
RATE_32 = np.float32(RATE)
QUARTER, SIX = np.float32(0.25), np.float32(6)


@jit
def jacobi(source, result):
    rows, columns = source.shape
    for y in each(rows):
        if y == 0 or y == rows - 1:
            result[y, :] = source[y, :]
        else:
            result[y, 0] = source[y, 0]
            result[y, columns - 1] = source[y, columns - 1]
            for x in range(1, columns - 1):
                around = source[y - 1, x] + source[y + 1, x]
                result[y, x] = (around + source[y, x - 1] + source[y, x + 1]) * QUARTER


@jit
def heat(source, result):
    depth, rows, columns = source.shape
    for z in each(depth):
        if z == 0 or z == depth - 1:
            result[z, :, :] = source[z, :, :]
        else:
            result[z, 0, :] = source[z, 0, :]
            result[z, rows - 1, :] = source[z, rows - 1, :]
            for y in range(1, rows - 1):
                result[z, y, 0] = source[z, y, 0]
                result[z, y, columns - 1] = source[z, y, columns - 1]
                for x in range(1, columns - 1):
                    here = source[z, y, x]
                    around = source[z - 1, y, x] + source[z + 1, y, x]
                    around += source[z, y - 1, x] + source[z, y + 1, x]
                    around += source[z, y, x - 1] + source[z, y, x + 1]
                    result[z, y, x] = here + (around - SIX * here) * RATE_32


KERNELS: dict[str, Any] = {"jacobi": jacobi, "heat": heat}


def numba_program(kind: str, steps: int, arrays: Sequence[Array], threads: int) -> Program:
    """Return `steps` steps of the chain `kind`, compiled."""
    nb.set_num_threads(threads)
    begin = time.perf_counter()
    (first,), step = arrays, KERNELS[kind]
    turns = np.empty_like(first), np.empty_like(first)
    step(first, turns[0])
    spent = time.perf_counter() - begin

    def call() -> None:
        source = first
        for number in range(steps):
            step(source, turns[number % 2])
            source = turns[number % 2]

    return Program("Numba", call, lambda: turns[(steps - 1) % 2], tuned_s=spent)
