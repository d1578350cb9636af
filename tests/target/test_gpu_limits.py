"""What a GPU can launch, over arrays and in words."""

from __future__ import annotations

import numpy as np

from ansorc.target.gpu import gpu_for
from ansorc.target.gpu_limits import KernelDemands, complaint, fits

ARCHITECTURE = gpu_for("sm_80", "").architecture


def test_limits_are_those_of_the_architecture() -> None:
    threads = np.array([1024, 1025, 256, 256, 256])
    shared = np.array([0, 0, 163 * 1024, 163 * 1024 + 1, 0])
    registers = np.array([64, 64, 255, 64, 256])
    found = fits(KernelDemands(threads, shared, registers, (1024,)), ARCHITECTURE)
    assert found.tolist() == [True, False, True, False, False]


def test_what_breaks_a_limit_is_said_in_words() -> None:
    assert complaint(KernelDemands(1024), ARCHITECTURE) == ""
    assert "1025 threads" in complaint(KernelDemands(1025), ARCHITECTURE)
    assert "of sm_80" in complaint(KernelDemands(32, 200_000), ARCHITECTURE)
    assert "along y" in complaint(KernelDemands(32, grid=(1, 70_000)), ARCHITECTURE)
