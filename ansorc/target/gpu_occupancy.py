"""Occupancy: the blocks of a kernel that an SM holds, by the rules of NVIDIA's calculator."""

from __future__ import annotations

from functools import reduce

import numpy as np
from numpy.typing import NDArray

from ansorc.target.gpu import WARP_THREADS, GpuArchitecture
from ansorc.target.gpu_kernel import Numbers, as_integers

REGISTER_UNIT = 256
"""Registers are given to a warp in multiples of this."""
MAX_REGISTERS = 255
"""Registers of a thread; the rest is spilled."""
MAX_THREADS = 1024
"""Threads of a block."""


def warps_of(threads: Numbers) -> NDArray[np.int64]:
    """Return the warps of a block of `threads`; the last one may be filled in part."""
    return -(-as_integers(threads) // WARP_THREADS)


def resident_blocks(
    architecture: GpuArchitecture,
    threads: Numbers,
    registers: Numbers,
    shared_bytes: Numbers,
) -> NDArray[np.int64]:
    """Return the blocks that an SM holds at a time; 0 where a block cannot be launched.

    Args:
        threads: Of a block.
        registers: Of a thread.
        shared_bytes: Of a block.

    All may be arrays, which are broadcast against one another.
    """
    threads, registers, shared = map(as_integers, (threads, registers, shared_bytes))
    warps = np.maximum(1, warps_of(threads))
    of_a_warp = _round_up(np.maximum(1, registers) * WARP_THREADS, REGISTER_UNIT)
    quarter = architecture.registers // architecture.schedulers
    by_registers = quarter // of_a_warp * architecture.schedulers // warps
    unit = 128 if architecture.reserved_shared_bytes else 256
    taken = _round_up(shared, unit) + architecture.reserved_shared_bytes
    by_shared = architecture.shared_bytes // np.maximum(1, taken)
    held = (architecture.blocks, architecture.warps // warps, by_registers, by_shared)
    blocks = reduce(np.minimum, held)
    fits = (threads <= MAX_THREADS) & (registers <= MAX_REGISTERS)
    return np.where(fits & (shared <= architecture.block_shared_bytes), blocks, 0)


def occupancy(
    architecture: GpuArchitecture,
    threads: Numbers,
    registers: Numbers,
    shared_bytes: Numbers,
) -> NDArray[np.float64]:
    """Return the share of an SM's resident warps that a kernel fills; see `resident_blocks`."""
    blocks = resident_blocks(architecture, threads, registers, shared_bytes)
    return blocks * warps_of(threads) / architecture.warps


def _round_up(value: NDArray[np.int64], unit: int) -> NDArray[np.int64]:
    """Return `value` rounded up to a multiple of `unit`."""
    return -(-value // unit) * unit
