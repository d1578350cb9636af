"""The times of programs for a GPU by the model of the machine."""

from __future__ import annotations

import numpy as np

from ansorc.schedule.extent import BoolArray
from ansorc.search.cost_model import Float64Array
from ansorc.search.gpu.description import descriptions
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.protocol import Genes
from ansorc.search.space.recorded import Population, analyse
from ansorc.target.gpu import GpuArchitecture
from ansorc.target.gpu_kernel import KernelDescription, as_floats
from ansorc.target.gpu_model import seconds
from ansorc.target.gpu_occupancy import resident_blocks, warps_of

LEAST_WARPS, PENALTY = 8, 1.25
"""Warps of a multiprocessor that hide each other's latencies, and how many times as fast a program
with fewer must seem: what the compiler makes of it is known less well than these."""

NARROW, WIDE_SECTORS = 0.03, 16
"""How much slower narrow accesses may seem, so that of programs that are as good one with wide ones
is taken; sectors of a request of 16 bytes a thread."""

MAX_CODE = 24 << 10
"""Bytes of straight code in which the compiler finds registers for all; in more it may spill."""


def seconds_of(sketch: Sketch, genes: Genes, narrow: float = 0.0) -> Float64Array:
    """Return the estimated seconds of the programs `genes` [rows, columns]: [rows].

    Those all of whose accesses to memory are narrow seem slower by the share `narrow`.
    """
    return np.asarray(kernel_seconds(sketch, genes, narrow).sum(axis=1))


def kernel_seconds(sketch: Sketch, genes: Genes, narrow: float = 0.0) -> Float64Array:
    """Return the estimated seconds of each kernel of the programs `genes`: [rows, kernels]."""
    numbers = np.stack(analyse(_estimate, sketch, genes), axis=1)
    times, shares = np.split(numbers, 2, axis=1)
    return times * (1 + narrow * shares)


def _estimate(programs: Population) -> list[Float64Array]:
    """Return the seconds of each kernel, then the share of narrow accesses of each."""
    times: list[Float64Array] = []
    shares: list[Float64Array] = []
    gpu = programs.sketch.target.gpu
    for kernel in descriptions(programs.state, programs.rows, programs.choices):
        is_long = kernel.code_bytes > MAX_CODE
        is_filling = _fills(kernel, gpu.architecture)
        uncertain = np.where(is_long, PENALTY, 1.0) * np.where(is_filling, 1.0, PENALTY)
        times.append(seconds(kernel, gpu) * uncertain)
        shares.append(narrow_share(kernel))
    return times + shares


def narrow_share(kernel: KernelDescription) -> Float64Array:
    """Return how much of what a block moves is asked for less than 16 bytes a thread at a time."""
    narrow: Float64Array = np.zeros(())
    total: Float64Array = np.zeros(())
    for access in kernel.global_accesses:
        moved = as_floats(access.block_bytes)
        total = total + moved
        narrow = narrow + moved * (1 - np.minimum(1, access.sectors / WIDE_SECTORS))
    return as_floats(narrow / np.maximum(1, total))


def _fills(kernel: KernelDescription, architecture: GpuArchitecture) -> BoolArray:
    """Return [rows]: whether an SM holds two blocks of `kernel` at once, or enough warps."""
    blocks = resident_blocks(architecture, kernel.threads, kernel.registers, kernel.shared_bytes)
    return (blocks >= 2) | (blocks * warps_of(kernel.threads) >= LEAST_WARPS)
