"""What a GPU launches, over arrays and in words."""

from __future__ import annotations

import numpy as np

from ansorc.target import Target
from ansorc.target.gpu_limits import complaint, exceeds, launch_limits

LIMITS = launch_limits(Target.parse("cuda -arch=sm_80"))


def test_limits_are_those_of_the_architecture() -> None:
    threads = np.array([1024, 1025, 256, 256])
    shared = np.array([0, 0, 163 * 1024, 163 * 1024 + 1])
    found = exceeds(LIMITS, (1024, 1, 1), (threads, 1, 1), shared)
    assert np.asarray(found).tolist() == [False, True, False, True]


def test_what_breaks_a_limit_is_said_in_words() -> None:
    assert complaint(LIMITS, (1, 1, 1), (1024, 1, 1), 0) == ""
    assert "1025 threads" in complaint(LIMITS, (1, 1, 1), (1025, 1, 1), 0)
    assert "200000 bytes" in complaint(LIMITS, (1, 1, 1), (32, 1, 1), 200_000)
    assert "blockIdx.y" in complaint(LIMITS, (1, 70_000, 1), (32, 1, 1), 0)
