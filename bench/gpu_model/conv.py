"""The measured convolutions: what a kernel of these parameters does.

One 15 × 15 filter, in constant memory, over an image of 4096 × 4096 results in float32. A block of
block_size_x × block_size_y threads; each makes tile_size_x × tile_size_y results, neighbours a
block apart. All loops over the filter and the tile are unrolled, so each element that a thread
needs is loaded once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ansorc.target.gpu_kernel import GlobalAccess, KernelDescription, SharedAccess
from ansorc.target.gpu_requests import count_shared_wavefronts, global_wavefronts, sectors
from bench.gpu_model.gemm import WORD_BYTES, Columns, Floats, Integers, most_registers

EXTENT, FILTER = 4096, 15
BORDER = FILTER - 1
BASE_REGISTERS, RESULT_REGISTERS = 24, 5
"""Addresses and counters; a result with what was loaded for it."""
IN_FLIGHT = 4
"""Loads that are issued together; of a row that is copied, what is left over goes one by one."""
READ_ONLY_OPERATIONS = 4
"""Integer operations for an address of a load that is moved ahead."""
INSTRUCTION_BYTES = 16
WARPS = 4
"""Of which the requests are counted, on average."""


def describe(columns: Columns) -> KernelDescription:
    """Return the kernels of these parameters, an array element for each row."""
    kernel = _Kernel({name: values.astype(np.int64) for name, values in columns.items()})
    batches = kernel.loads / IN_FLIGHT
    instructions = (
        kernel.multiply_adds + kernel.loads + 2 * kernel.copies + kernel.others + kernel.spills
    )
    return KernelDescription(
        grid=kernel.grid,
        threads=kernel.threads,
        registers=kernel.registers,
        shared_bytes=kernel.is_shared * kernel.pitch * kernel.height * WORD_BYTES,
        multiply_adds=kernel.multiply_adds,
        integer_operations=kernel.others,
        global_accesses=kernel.global_accesses(),
        shared_accesses=kernel.shared_accesses(),
        independent=kernel.results,
        steps=np.where(kernel.is_shared, kernel.copy_waits, 1),
        waits=batches,
        global_waits=np.where(kernel.is_shared, 0, batches),
        barriers=1.0 * kernel.is_shared,
        spilled_bytes=WORD_BYTES * kernel.excess,
        spill_requests=kernel.spills,
        code_bytes=INSTRUCTION_BYTES * instructions,
    )


class _Kernel:
    """What one thread and one block do."""

    def __init__(self, p: dict[str, Integers]) -> None:
        self.bx, self.by = p["block_size_x"], p["block_size_y"]
        self.tx, self.ty = p["tile_size_x"], p["tile_size_y"]
        self.threads, self.results = self.bx * self.by, self.tx * self.ty
        self.multiply_adds = FILTER * FILTER * self.results
        self.is_shared = p.get("use_shmem", np.ones_like(self.bx)) == 1
        self.width = self.bx * self.tx + BORDER
        self.height = self.by * self.ty + BORDER
        self.pitch = self.width + _padding(self.bx, self.width) * p["use_padding"]
        self.divides = (EXTENT % (self.bx * self.tx) == 0) & (EXTENT % (self.by * self.ty) == 0)
        once = _distinct(self.bx, self.tx) * _distinct(self.by, self.ty)
        self.loads = np.where(self.is_shared | self.divides, once, self.multiply_adds)
        across, down = -(-self.width // self.bx), -(-self.height // self.by)
        self.copies = self.is_shared * across * down
        self.copy_waits = down * np.maximum(_waits(across), _waits(self.width // self.bx))
        is_moved = (p["read_only"] == 1) & ~self.is_shared
        self.others = (
            20 + 3 * self.copies + 2 * self.results + READ_ONLY_OPERATIONS * self.loads * is_moved
        )
        wanted = BASE_REGISTERS + self._held(is_moved & self.divides)
        self.registers = np.minimum(wanted, most_registers(self.threads))
        self.excess = np.maximum(0, wanted - 255)
        self.spills = (1 + self.ty) * self.loads * self.excess / wanted

    @property
    def grid(self) -> tuple[Floats, Floats]:
        """Blocks along x and y."""
        return np.ceil(EXTENT / (self.bx * self.tx)), np.ceil(EXTENT / (self.by * self.ty))

    def _held(self, is_moved: NDArray[np.bool_]) -> Integers:
        """Registers for results and elements; loads that are moved ahead keep whole rows.

        Through the read-only path a load may be moved before others, and what several rows of
        results need is kept from the first to the last of them.
        """
        rows = np.where(self.by < FILTER, (self.ty - 1) * self.by, 0) + 2
        window = rows * FILTER * self.tx + self.results
        return np.where(is_moved, window, RESULT_REGISTERS * self.results)

    def global_accesses(self) -> tuple[GlobalAccess, GlobalAccess]:
        """Reads of the image, directly or to copy it, and writes of the results."""
        image = _threads(self.bx, self.threads, np.full_like(self.bx, EXTENT + BORDER))
        shifted = [image + WORD_BYTES * shift for shift in range(0, 32, 5)]
        lines = np.mean([global_wavefronts(each, WORD_BYTES) for each in shifted], axis=(0, 2))
        touched = np.mean([sectors(each, WORD_BYTES) for each in shifted], axis=(0, 2))
        block_bytes = self.width * self.height * WORD_BYTES
        reads = GlobalAccess(
            np.where(self.is_shared, self.copies, self.loads), touched, lines, block_bytes,
            (1.0, 1.0), held_bytes=block_bytes,
        )  # fmt: skip
        writes = GlobalAccess(
            self.results, touched, lines, self.threads * self.results * WORD_BYTES, (1.0, 1.0),
            is_store=True,
        )  # fmt: skip
        return reads, writes

    def shared_accesses(self) -> tuple[SharedAccess, SharedAccess]:
        """The copy of the block's part of the image, and its use."""
        tile = _threads(self.bx, self.threads, self.pitch)
        banks = count_shared_wavefronts(tile, WORD_BYTES).mean(axis=-1)
        copied = SharedAccess(self.copies, banks, is_store=True)
        return copied, SharedAccess(self.loads * self.is_shared, banks)


def _distinct(block: Integers, tile: Integers) -> Integers:
    """Elements along one axis that a thread needs: tiles of the filter, a block apart."""
    return np.minimum(block, FILTER) * (tile - 1) + FILTER


def _waits(loads: Integers) -> Integers:
    """How often a thread waits that loads so many elements of a row."""
    return loads // IN_FLIGHT + loads % IN_FLIGHT


def _padding(block: Integers, width: Integers) -> Integers:
    """Columns that keep the rows of a warp on different banks."""
    needed = (block % 32 != 0) & ((width - block) % 32 != 0)
    return np.where(needed, (32 - (width - block)) & 31, 0)


def _threads(extent: Integers, threads: Integers, pitch: Integers) -> Integers:
    """Bytes that the threads of the first warps start from: rows × warps × 32."""
    lanes = np.arange(WARPS * 32).reshape(WARPS, 32)
    thread = np.minimum(lanes % threads[:, None, None], threads[:, None, None] - 1)
    extent, pitch = extent[:, None, None], pitch[:, None, None]
    return WORD_BYTES * (thread // extent * pitch + thread % extent)
