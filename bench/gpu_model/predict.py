"""Times of measured kernels as predicted naively, by the model, and by trees that correct it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ansorc.search.model.boosting import FeatureMatrix, Growth, grow_trees
from ansorc.target.gpu_kernel import GlobalAccess
from ansorc.target.gpu_model import limits, seconds
from ansorc.target.gpu_occupancy import resident_blocks, warps_of
from bench.gpu_model.data import Measured
from bench.gpu_model.gemm import Floats

GROWTH = Growth(trees=300, leaves=31, learning_rate=0.1, least_rows=50)
"""Leaves are large: what a few kernels of one GPU do seldom carries over to another."""
SEEDS = 3
ENOUGH_WARPS = 16
"""Of an SM, from which on more do not help; in the naive model."""


def naive(measured: Measured) -> Floats:
    """Times by multiply-adds, requests, traffic, occupancy and waves, as one might jot down."""
    kernel, gpu = measured.kernels, measured.gpu
    machine = gpu.architecture
    blocks = kernel.grid[0] * kernel.grid[1]
    resident = np.maximum(1, resident_blocks(
        machine, kernel.threads, kernel.registers, kernel.shared_bytes))  # fmt: skip
    requests = sum(np.asarray(each.requests, float)
                   for each in (*kernel.global_accesses, *kernel.shared_accesses))  # fmt: skip
    warps = warps_of(kernel.threads)
    cycles = warps * 32 * (kernel.multiply_adds / machine.fp32_lanes + requests / 32)
    busy = np.minimum(1, resident * warps / ENOUGH_WARPS)
    waves = np.ceil(blocks / (gpu.multiprocessors * resident))
    moved = sum(np.asarray(each.block_bytes, float) for each in kernel.global_accesses) * blocks
    return np.maximum(
        waves * resident * cycles / busy / gpu.clock_hz, moved / gpu.dram_bytes_per_second / 4
    )


def modelled(measured: Measured) -> Floats:
    """Times by `ansorc.target.gpu_model`."""
    return np.asarray(seconds(measured.kernels, measured.gpu))


def corrected(others: list[Measured], measured: Measured) -> Floats:
    """Times by the model, corrected by trees that have learned from `others`, on other GPUs.

    The trees predict the logarithm of measured by modelled time, from the parts of the model and
    the description. A constant factor of each GPU is taken out.
    """
    rows = np.concatenate([_features(each) for each in others])
    wanted = np.concatenate([_centred(np.log(each.seconds / modelled(each))) for each in others])

    def squares(said: Floats, _: object) -> tuple[Floats, Floats]:
        return said - wanted, np.ones_like(said)

    found = np.zeros(len(measured.seconds))
    for seed in range(SEEDS):
        growth = replace(GROWTH, seed=seed)
        trees = grow_trees(rows, squares, growth)
        found += trees.predict(_features(measured), raw_score=True, num_threads=1) / SEEDS
    return modelled(measured) * np.exp(found)


def _centred(values: Floats) -> Floats:
    return values - np.median(values)


def _features(measured: Measured) -> FeatureMatrix:
    """What the model's parts and the description say of each kernel: [rows, features]."""
    kernel, gpu = measured.kernels, measured.gpu
    machine = gpu.architecture
    time = modelled(measured)
    resident = resident_blocks(machine, kernel.threads, kernel.registers, kernel.shared_bytes)
    warps = warps_of(kernel.threads)
    blocks = kernel.grid[0] * kernel.grid[1]
    waves = blocks / (gpu.multiprocessors * np.maximum(1, resident))
    work = np.maximum(1.0, np.asarray(kernel.multiply_adds, float))
    found = [np.log(1e-9 + part / time) for part in limits(kernel, gpu).values()]
    found += [
        resident, resident * warps, warps, np.ceil(waves) / waves, np.minimum(waves, 64),
        kernel.registers, kernel.shared_bytes, kernel.independent, kernel.integer_operations / work,
        work / kernel.steps / 1e3, kernel.waits / work, kernel.barriers / work,
        kernel.spill_requests / work, kernel.code_bytes / machine.instruction_cache_bytes,
    ]  # fmt: skip
    for access in (*kernel.global_accesses, *kernel.shared_accesses):
        found += [access.requests / work, access.wavefronts * (access.requests / work)]
        if isinstance(access, GlobalAccess):
            found += [access.sectors * (access.requests / work),
                      access.held_bytes * resident / machine.l1_bytes]  # fmt: skip
    columns = [np.broadcast_to(np.asarray(each, float), time.shape) for each in found]
    return np.stack(columns, axis=1).astype(np.float32)
