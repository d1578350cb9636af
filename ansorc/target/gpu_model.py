"""An estimate of a kernel's time on a GPU from what limits it: `seconds`.

The blocks of a kernel run in waves of what the SMs hold. In a wave an SM is busy for as long as its
busiest part, `PARTS`, is with the blocks that it holds; or for as long as one block takes that runs
alone, with its latencies. A part that is nearly as busy as the busiest one delays it: the cycles
are added in the norm of order `OVERLAP`, and the latencies in that of `HIDING`. All other numbers
are counts (`KernelDescription`) or figures of the machine (`Gpu`). `python -m bench gpu_model`
shows how well the model ranks measured kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from ansorc.target.gpu import WARP_THREADS, Gpu
from ansorc.target.gpu_kernel import GlobalAccess, KernelDescription, Numbers, as_floats
from ansorc.target.gpu_occupancy import resident_blocks, warps_of
from ansorc.target.gpu_requests import SECTOR_BYTES

Times = NDArray[np.float64]

PARTS = (
    "arithmetic", "integers", "special", "matrix", "issue", "fetch", "banks", "l2", "dram",
)  # fmt: skip
"""The parts of an SM: lanes for multiply-adds, for integers and for special functions, matrix
units, issue slots, fetching of instructions that its cache does not hold, banks of shared memory
and first-level cache; and its share of the second level and of memory."""
OVERLAP, HIDING = 2.0, 4.0
"""Orders of norms, without a unit: 1 if one waits for the other, large if it never waits."""
BARRIER_CYCLES = 30.0
"""Cycles from the last warp's arrival until all warps go on."""
FETCH_CYCLES = 1.0
"""Cycles of an SM for an instruction from the second-level cache."""
LAUNCH_SECONDS = 1.2e-6
"""Time of a launch in a graph of many: the median of 56 kernels of less than 3 us on an H200."""
MATRIX_STEP = 2048
"""Multiply-adds of a warp by one instruction of the matrix units (16 × 8 × 16)."""
REQUEST_BYTES = 128
"""Bytes of one request when a warp spills or loads a register."""


@dataclass(frozen=True)
class BlockCycles:
    """Cycles of an SM that one block keeps each part busy, and those of a block alone."""

    parts: Mapping[str, Times]
    """By the names in `PARTS`."""
    alone: Times

    def wave(self, blocks: Times) -> Times:
        """Return the cycles until `blocks` that an SM began together are done."""
        total: Times = np.zeros(())
        for cycles in self.parts.values():
            total = total + (cycles * blocks) ** OVERLAP
        return (total ** (HIDING / OVERLAP) + self.alone**HIDING) ** (1 / HIDING)


def seconds(kernel: KernelDescription, gpu: Gpu) -> Times:
    """Return the estimated time of each kernel; infinite where a block cannot be launched."""
    blocks = _product(kernel.grid)
    resident = _resident(kernel, gpu)
    cycles = block_cycles(kernel, gpu)
    each = blocks / gpu.multiprocessors
    held = np.minimum(np.maximum(1, resident), np.ceil(each))
    waves = np.floor(each / held)
    rest = np.ceil(each - waves * held)
    total = waves * cycles.wave(held) + np.where(rest > 0, cycles.wave(rest), 0.0)
    return np.where(resident >= 1, total / gpu.clock_hz + LAUNCH_SECONDS, np.inf)


def limits(kernel: KernelDescription, gpu: Gpu) -> dict[str, Times]:
    """Return the seconds that each of `PARTS` alone would take, and `alone`: all blocks in turn."""
    cycles = block_cycles(kernel, gpu)
    each = _product(kernel.grid) / gpu.multiprocessors / gpu.clock_hz
    turns = each / np.maximum(1, _resident(kernel, gpu))
    return {name: part * each for name, part in cycles.parts.items()} | {
        "alone": cycles.alone * turns
    }


def block_cycles(kernel: KernelDescription, gpu: Gpu) -> BlockCycles:
    """Return how long one block keeps each part of an SM busy, and how long it takes alone."""
    machine = gpu.architecture
    warps = warps_of(kernel.threads).astype(float)
    resident = np.maximum(1.0, _resident(kernel, gpu))
    banks, requests = _bank_cycles(kernel, gpu)
    matrix = kernel.matrix_multiply_adds / getattr(machine.matrix_rates, kernel.matrix_dtype)
    others = (
        kernel.integer_operations
        + kernel.special_operations
        + kernel.matrix_multiply_adds / MATRIX_STEP
        + requests
    )
    issued = kernel.multiply_adds + others
    arithmetic = kernel.multiply_adds * WARP_THREADS / machine.fp32_lanes
    in_cache = machine.instruction_cache_bytes
    misses = np.clip(as_floats(kernel.code_bytes) / in_cache - 1, 0, 1)
    l2, dram = _bytes_beyond_l1(kernel, gpu, resident)
    share = gpu.multiprocessors
    parts = {
        "arithmetic": arithmetic * warps,
        "integers": kernel.integer_operations * WARP_THREADS / machine.integer_lanes * warps,
        "special": kernel.special_operations * WARP_THREADS / machine.special_lanes * warps,
        "matrix": matrix * warps,
        "issue": issued * warps / machine.schedulers,
        "fetch": issued * warps * misses * FETCH_CYCLES,
        "banks": banks * warps,
        "l2": l2 * share / gpu.l2_bytes_per_cycle,
        "dram": dram * share * gpu.clock_hz / gpu.dram_bytes_per_second,
    }
    alone = (arithmetic + matrix) * machine.schedulers + others + banks
    return BlockCycles(parts, alone + _latencies(kernel, gpu, dram / np.maximum(1, l2)))


def _latencies(kernel: KernelDescription, gpu: Gpu, missing: Times) -> Times:
    """Return the cycles that a lone warp waits.

    `missing` is the share of misses of the second-level cache.
    """
    latency = gpu.architecture.latencies
    loaded = latency.l2 + (latency.dram - latency.l2) * np.minimum(1, missing)
    has_async = gpu.architecture.has_async_copies
    copied: Times = np.zeros(())
    for access in kernel.global_accesses:
        copied = copied + np.where(access.is_asynchronous & has_async, 0, access.waits)
    chain = np.maximum(0, latency.multiply_add - 1 - kernel.independent)
    return as_floats(
        (kernel.steps / np.maximum(1, kernel.stages) + copied) * loaded
        + (kernel.waits - kernel.global_waits) * latency.shared
        + kernel.global_waits * latency.l1
        + kernel.multiply_adds / np.maximum(1, kernel.independent) * chain
        + kernel.barriers * BARRIER_CYCLES
    )


def _bank_cycles(kernel: KernelDescription, gpu: Gpu) -> tuple[Times, Times]:
    """Return the cycles of the banks, and the load and store instructions, for one warp."""
    machine = gpu.architecture
    each = REQUEST_BYTES / machine.shared_bytes_per_cycle
    least = WARP_THREADS / machine.memory_lanes
    requests = as_floats(kernel.spill_requests)
    banks: Times = requests * least
    for access in (*kernel.global_accesses, *kernel.shared_accesses):
        asked = as_floats(access.requests)
        requests = requests + asked
        banks = banks + asked * np.maximum(least, as_floats(access.wavefronts) * each)
    return banks, requests


def _bytes_beyond_l1(kernel: KernelDescription, gpu: Gpu, resident: Times) -> tuple[Times, Times]:
    """Return the bytes of one block from and to the second-level cache, and memory."""
    warps = warps_of(kernel.threads)
    room = np.maximum(0, gpu.architecture.l1_bytes - resident * kernel.shared_bytes)
    l2: Times = np.zeros(())
    dram: Times = np.zeros(())
    waves = [wave_bytes(access, kernel, gpu, resident) for access in kernel.global_accesses]
    every = sum((wave for wave, _ in waves), np.zeros(()))
    blocks = _product(kernel.grid)
    together = np.minimum(resident * gpu.multiprocessors, blocks)
    known: dict[str, Times] = {}
    for access, (wave, whole) in zip(kernel.global_accesses, waves, strict=True):
        asked = as_floats(access.requests * warps * access.sectors * SECTOR_BYTES)
        least = np.minimum(asked, access.block_bytes)
        fits = np.clip(room / np.maximum(1, resident * access.held_bytes), 0, 1)
        l2 = l2 + np.where(access.is_store, asked, fits * least + (1 - fits) * asked)
        stays = whole + every - wave <= gpu.l2_bytes
        part: Times = np.zeros(())
        if access.tensor:  # all of it is read, whatever the requests in the loops
            depends = _product(access.depends_on)
            part = depends * access.tensor_bytes / blocks
        read = np.where(stays, whole / blocks, wave / together)
        moved = np.minimum(read, np.maximum(asked, part))
        before = known.get(access.tensor, 0.0) if access.tensor else 0.0
        again = np.where(every <= gpu.l2_bytes, np.minimum(moved, before), 0.0)
        known[access.tensor] = np.maximum(moved, before)
        dram = dram + moved - again
    local = as_floats(kernel.spilled_bytes) * (kernel.threads * resident)
    spills = as_floats(kernel.spill_requests) * (warps * float(REQUEST_BYTES))
    spills = spills * (1 - np.clip(room / np.maximum(1, local), 0, 1))
    beyond = np.where(local * gpu.multiprocessors > gpu.l2_bytes, spills, 0.0)
    return l2 + spills, dram + beyond


def wave_bytes(
    access: GlobalAccess, kernel: KernelDescription, gpu: Gpu, resident: Times
) -> tuple[Times, Times]:
    """Return the distinct bytes that the blocks of a wave touch, and all blocks.

    Blocks of a wave share what they read, in the second level. What it holds besides what a wave
    touches of the rest is read once in the whole kernel. Of a tensor that each block has a part of
    the parts may overlap at their borders, which blocks near each other touch: all are the tensor.
    """
    wave = np.minimum(resident * gpu.multiprocessors, _product(kernel.grid))
    inner: Times = np.ones(())
    in_wave, in_all = inner, inner
    for extent, depends in zip(kernel.grid, access.depends_on, strict=True):
        here = np.clip(np.ceil(wave / inner), 1, extent)
        in_wave = in_wave * np.where(depends, here, 1)
        in_all = in_all * np.where(depends, extent, 1)
        inner = inner * extent
    each = as_floats(access.block_bytes)
    part = access.tensor_bytes / inner
    is_near = inner / kernel.grid[-1] * each <= gpu.l2_bytes / 2
    each = np.where((in_all == inner) & is_near, np.minimum(each, part), each)
    return np.minimum(in_wave, wave) * each, in_all * each


def _resident(kernel: KernelDescription, gpu: Gpu) -> Times:
    blocks = resident_blocks(
        gpu.architecture, kernel.threads, kernel.registers, kernel.shared_bytes
    )
    return blocks.astype(float)


def _product(extents: tuple[Numbers, ...]) -> Times:
    return as_floats(reduce(np.multiply, extents))
