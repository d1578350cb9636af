"""The work of a kernel, in numbers that follow from its loops and indices: `KernelDescription`.

`gpu_model` computes a time from it. All arrays have one element for each kernel (row) of a
population, or are scalars, so many programs of one structure are described at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64] | NDArray[np.int64] | float
"""One number for each kernel, or one for all."""


def as_floats(numbers: NDArray[Any] | float) -> NDArray[np.float64]:
    """Return the numbers as float64."""
    if isinstance(numbers, int | float):
        return np.asarray(numbers, np.float64)
    return numbers.astype(np.float64, copy=False)


def as_integers(numbers: NDArray[Any] | float) -> NDArray[np.int64]:
    """Return the numbers as int64, cut off at the point."""
    if isinstance(numbers, int | float):
        return np.asarray(numbers, np.int64)
    return numbers.astype(np.int64, copy=False)


@dataclass(frozen=True)
class GlobalAccess:
    """A statement that loads from or stores to global memory."""

    requests: Numbers
    """Instructions of it that a warp issues in the whole kernel."""
    sectors: Numbers
    """Sectors of 32 bytes that one request touches."""
    wavefronts: Numbers
    """Cycles of the banks of the first-level cache that one request takes (`gpu_requests`)."""
    block_bytes: Numbers
    """Distinct bytes (of whole sectors) that a block touches in the whole kernel."""
    depends_on: tuple[Numbers, ...]
    """For each dimension of the grid, x first: 1 if other bytes are touched where it differs."""
    held_bytes: Numbers = 0.0
    """Bytes that a block touches between two uses of the same byte: if they fit, the second use
    hits the first-level cache. 0 if no byte is used again, or if L1 is bypassed."""
    is_store: bool = False
    tensor: str = ""
    """Accesses of one name touch the same bytes, or some of the same, a block after the other."""
    tensor_bytes: Numbers = np.inf
    """Bytes of the whole tensor, in whole sectors as in `block_bytes`."""
    is_asynchronous: NDArray[np.bool_] | bool = False
    """Whether it is copied to shared memory unchanged: from sm_80 on without registers
    (`cp.async`)."""
    waits: Numbers = 0.0
    """Times in the kernel that a thread waits for it, besides once in each of `steps`, where what
    is copied passes registers."""


@dataclass(frozen=True)
class SharedAccess:
    """A statement that loads from or stores to shared memory."""

    requests: Numbers
    """Instructions of it that a warp issues in the whole kernel."""
    wavefronts: Numbers
    """Cycles of the banks that one request takes (`gpu_requests`)."""
    is_store: bool = False


@dataclass(frozen=True)
class KernelDescription:
    """One launch. Counts are those of the whole kernel, of one thread, where not said otherwise."""

    grid: tuple[Numbers, ...]
    """Blocks along x, y, z."""
    threads: Numbers
    """Threads of a block."""
    registers: Numbers
    """Registers of a thread, as predicted or as compiled."""
    shared_bytes: Numbers
    """Shared memory of a block."""
    multiply_adds: Numbers
    """Instructions of the floating-point lanes: FFMA, FADD, FMUL."""
    integer_operations: Numbers
    """Instructions for indices, predicates, loops and moves."""
    global_accesses: tuple[GlobalAccess, ...]
    shared_accesses: tuple[SharedAccess, ...] = ()
    independent: Numbers = 1.0
    """Multiply-adds in a row of which none needs another's result."""
    steps: Numbers = 1.0
    """Times that a block loads, waits for the loads, and computes."""
    waits: Numbers = 1.0
    """Times that a warp waits for loads from shared memory or the first-level cache: iterations of
    the innermost loop that is not unrolled, as loads of one iteration are issued together."""
    barriers: Numbers = 0.0
    """`__syncthreads()` in the whole kernel."""
    stages: Numbers = 1.0
    """Steps whose loads are in flight at a time: 1 without double buffering."""
    global_waits: Numbers = 0.0
    """The part of `waits` that is for global memory, through the first-level cache."""
    special_operations: Numbers = 0.0
    """Instructions of the special function units."""
    matrix_multiply_adds: Numbers = 0.0
    """Multiply-adds (not instructions) of a whole warp on the matrix units."""
    matrix_dtype: Literal["float16", "bfloat16", "tfloat32", "int8"] = "float16"
    spilled_bytes: Numbers = 0.0
    """Local memory of a thread."""
    spill_requests: Numbers = 0.0
    """Loads and stores of local memory, of one register each."""
    code_bytes: Numbers = 0.0
    """Code of the loop that is repeated most; beyond the instruction cache fetching takes time."""
