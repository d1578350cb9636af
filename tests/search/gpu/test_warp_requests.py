"""What warps ask for is counted once for each kind of warp, as it would be for each by itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from ansorc.search.gpu.warp_requests import RequestCounter, kinds_of_warps
from ansorc.target.gpu_requests import sectors, wavefronts

ROWS, WARP = 3000, 32
Numbers = NDArray[np.float64]
Count = Callable[[NDArray[np.int64], int], NDArray[np.int64]]


def random_digits(rng: np.random.Generator, count: int) -> list[Numbers]:
    """Return extents and steps of the digits of threads' numbers, the slowest first."""
    drawn: list[Numbers] = []
    for _ in range(count):
        extents = rng.choice([1, 2, 3, 4, 8, 16, 32, 64], ROWS)
        steps = rng.choice([0, 1, 2, 4, 7, 16, 32, 33, 1024, -1], ROWS)
        drawn += [extents.astype(np.float64), steps.astype(np.float64)]
    return drawn


def addresses_of(threads: int, digits: list[tuple[int, int]]) -> NDArray[np.int64]:
    """Return the byte of each lane by its digits; threads that are missing ask as the last."""
    addresses: list[int] = []
    for lane in range(WARP):
        rest, address = min(lane, threads - 1), 0
        for extent, step in reversed(digits):
            address += rest % extent * step
            rest //= extent
        addresses.append(address * 4)
    return np.array(addresses)


@pytest.mark.parametrize("count", [sectors, wavefronts])
def test_counts_are_those_of_each_warp_by_itself(count: Count) -> None:
    rng = np.random.default_rng(4)
    counter = RequestCounter(count, 4)
    for digit_count in (1, 2, 3):
        width = rng.choice([1, 2, 4], ROWS)
        digits = random_digits(rng, digit_count)
        threads = np.prod(digits[::2], axis=0)
        kinds = kinds_of_warps(width, threads, *digits)
        counts = counter(kinds, width, threads, *digits)
        for row in rng.integers(ROWS, size=150):
            numbers = [int(digit[row]) for digit in digits]
            pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
            addresses = addresses_of(int(threads[row]), pairs)
            assert counts[row] == count(addresses[None], int(width[row]) * 4)[0]
    assert len(counter) < 3 * ROWS


def test_digits_that_a_warp_does_not_reach_make_no_other_kind() -> None:
    width, threads = np.array([4, 4]), np.array([256.0, 512.0])
    outer, inner = np.array([8.0, 16.0]), np.array([32.0, 32.0])
    steps = np.array([100.0, 7.0]), np.array([1.0, 1.0])
    kinds = kinds_of_warps(width, threads, outer, steps[0], inner, steps[1])
    assert kinds[0] == kinds[1]
    assert kinds[0] != kinds_of_warps(width, threads, outer, steps[0], inner, 2 * steps[1])[0]
