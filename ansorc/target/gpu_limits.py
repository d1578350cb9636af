"""What a kernel may take of a GPU, told before anything is compiled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ansorc.target.gpu import GpuArchitecture
from ansorc.target.gpu_occupancy import MAX_REGISTERS, MAX_THREADS

MAX_GRID = (2**31 - 1, 65535, 65535)
"""Blocks along x, y, z."""


@dataclass(frozen=True)
class KernelDemands:
    """What a kernel asks for; arrays have one element for each program of a population."""

    threads: ArrayLike
    """Of a block."""
    shared_bytes: ArrayLike = 0
    """Of a block."""
    registers: ArrayLike = 0
    """Of a thread; 0 where nothing is known of them."""
    grid: tuple[ArrayLike, ...] = (1,)
    """Blocks along x, y, z."""


def fits(demands: KernelDemands, architecture: GpuArchitecture) -> NDArray[np.bool_]:
    """Return which of the kernels a GPU of `architecture` can launch."""
    good = np.asarray(np.asarray(demands.threads) <= MAX_THREADS)
    good = good & (np.asarray(demands.shared_bytes) <= architecture.block_shared_bytes)
    good = good & (np.asarray(demands.registers) <= MAX_REGISTERS)
    for blocks, most in zip(demands.grid, MAX_GRID, strict=False):
        good = good & (np.asarray(blocks) <= most)
    return good


def complaint(demands: KernelDemands, architecture: GpuArchitecture) -> str:
    """Return why one kernel cannot be launched, in words; "" if it can.

    The numbers of `demands` are those of one kernel.
    """
    threads, shared = int(np.asarray(demands.threads)), int(np.asarray(demands.shared_bytes))
    if threads > MAX_THREADS:
        return f"its blocks have {threads} threads, and {MAX_THREADS} are the most"
    if shared > architecture.block_shared_bytes:
        return (
            f"its blocks share {shared} bytes, and {architecture.block_shared_bytes} are the most "
            f"of {architecture.name}"
        )
    for axis, blocks, most in zip("xyz", demands.grid, MAX_GRID, strict=False):
        if int(np.asarray(blocks)) > most:
            return f"its grid has {int(np.asarray(blocks))} blocks along {axis}, the most is {most}"
    return ""
