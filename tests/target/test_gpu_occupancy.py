"""Blocks an SM holds: cases of NVIDIA's occupancy calculator."""

from __future__ import annotations

import numpy as np
import pytest

from ansorc.target.gpu import GPUS, GpuArchitecture
from ansorc.target.gpu_occupancy import occupancy, resident_blocks

A100, T4, RTX3090 = (GPUS[name].architecture for name in ("a100", "t4", "rtx3090"))


@pytest.mark.parametrize(
    ("architecture", "threads", "registers", "shared", "blocks"),
    [
        (A100, 256, 32, 0, 8),  # threads
        (A100, 32, 16, 0, 32),  # blocks
        (RTX3090, 32, 16, 0, 16),
        (T4, 256, 32, 0, 4),
        (A100, 256, 64, 0, 4),  # registers
        (A100, 256, 65, 0, 3),  # 72 are taken
        (A100, 256, 255, 0, 1),
        (A100, 96, 40, 0, 16),  # 12 warps in each quarter of the registers
        (A100, 1024, 65, 0, 0),
        (A100, 256, 256, 0, 0),
        (A100, 1056, 16, 0, 0),
        (A100, 128, 32, 16 * 1024, 9),  # shared memory, and 1 KiB of each block
        (A100, 128, 32, 163 * 1024, 1),
        (A100, 128, 32, 163 * 1024 + 1, 0),
        (T4, 128, 32, 16 * 1024, 4),
        (T4, 33, 32, 0, 16),  # two warps, of which one has a thread
    ],
)
def test_blocks(
    architecture: GpuArchitecture, threads: int, registers: int, shared: int, blocks: int
) -> None:
    assert resident_blocks(architecture, threads, registers, shared) == blocks


def test_arrays() -> None:
    found = resident_blocks(A100, np.array([128, 256]), np.array([[32], [64]]), 0)
    assert found.tolist() == [[16, 8], [8, 4]]
    assert occupancy(A100, 256, np.array([32, 64, 255]), 0).tolist() == [1.0, 0.5, 0.125]
