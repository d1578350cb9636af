"""The times of programs for a GPU by the model of the machine."""

from __future__ import annotations

import numpy as np

from ansorc.schedule.extent import BoolArray
from ansorc.search.cost_model import Float64Array
from ansorc.search.gpu.description import descriptions
from ansorc.search.gpu.kernels import kernels_of
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.genes import Genes, choice_values, population_state
from ansorc.target.gpu_kernel import KernelDescription
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
    state = population_state(sketch, genes)
    choices, rows = choice_values(sketch, genes), len(genes)
    times = np.zeros((rows, len(kernels_of(state))))
    for number, kernel in enumerate(descriptions(state, rows, choices)):
        is_long = np.asarray(kernel.code_bytes) > MAX_CODE
        uncertain = np.where(is_long, PENALTY, 1.0) * np.where(_fills(kernel, sketch), 1.0, PENALTY)
        narrowness = 1 + narrow * narrow_share(kernel)
        times[:, number] = seconds(kernel, sketch.target.gpu) * uncertain * narrowness
    return times


def narrow_share(kernel: KernelDescription) -> Float64Array:
    """Return how much of what a block moves is asked for less than 16 bytes a thread at a time."""
    narrow, total = np.zeros(()), np.zeros(())
    for access in kernel.global_accesses:
        moved = np.asarray(access.block_bytes, float)
        total = total + moved
        narrow = narrow + moved * (1 - np.minimum(1, np.asarray(access.sectors) / WIDE_SECTORS))
    return np.asarray(narrow / np.maximum(1, total), float)


def _fills(kernel: KernelDescription, sketch: Sketch) -> BoolArray:
    """Return [rows]: whether an SM holds two blocks of `kernel` at once, or enough warps."""
    architecture = sketch.target.gpu.architecture
    blocks = resident_blocks(architecture, kernel.threads, kernel.registers, kernel.shared_bytes)
    return np.asarray((blocks >= 2) | (blocks * warps_of(kernel.threads) >= LEAST_WARPS))
