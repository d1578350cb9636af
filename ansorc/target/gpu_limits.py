"""Limits of a launch by CUDA, for one kernel or for a population of kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ansorc.target.machine import Target

Count: TypeAlias = int | npt.NDArray[np.int64]
"""One number, or one for each row of a population."""
LaunchExtents: TypeAlias = tuple[Count, Count, Count]
"""Along x, y and z."""

STATIC_SHARED_BYTES = 48 << 10
"""More shared memory than this must be asked for at the launch."""


@dataclass(frozen=True)
class LaunchLimits:
    """The largest launch that a GPU takes."""

    threads: int = 1024
    """Threads of a block."""
    block: tuple[int, int, int] = (1024, 1024, 64)
    grid: tuple[int, int, int] = ((1 << 31) - 1, 65535, 65535)
    shared_bytes: int = STATIC_SHARED_BYTES
    """Shared memory of a block."""
    registers: int = 255
    """Registers of 4 bytes that a thread can address."""


def launch_limits(target: Target) -> LaunchLimits:
    """Return the limits of `target`, a GPU."""
    return LaunchLimits(shared_bytes=target.gpu.architecture.block_shared_bytes)


def exceeds(
    limits: LaunchLimits, grid: LaunchExtents, block: LaunchExtents, shared_bytes: Count
) -> bool | npt.NDArray[np.bool_]:
    """Return whether a launch is refused, for each row where there are several."""
    threads = block[0] * block[1] * block[2]
    is_refused = (threads > limits.threads) | (shared_bytes > limits.shared_bytes)
    for extents, most in ((grid, limits.grid), (block, limits.block)):
        for extent, limit in zip(extents, most, strict=True):
            is_refused = is_refused | (extent > limit)
    return bool(is_refused) if np.ndim(is_refused) == 0 else is_refused


def complaint(
    limits: LaunchLimits,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_bytes: int,
) -> str:
    """Return the reason why one launch is refused; "" if it is not."""
    threads = block[0] * block[1] * block[2]
    if threads > limits.threads:
        return f"its blocks have {threads} threads; the most is {limits.threads}"
    for name, extents, most in (
        ("threadIdx", block, limits.block),
        ("blockIdx", grid, limits.grid),
    ):
        for axis, extent, limit in zip("xyz", extents, most, strict=True):
            if extent > limit:
                return f"{name}.{axis} runs over {extent}; the most is {limit}"
    if shared_bytes > limits.shared_bytes:
        return (
            f"a block shares {shared_bytes} bytes of memory; the most here is {limits.shared_bytes}"
        )
    return ""
