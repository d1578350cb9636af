"""Bank conflicts, sectors and lines of one request, against counting by sets."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorc.target.gpu_requests import (
    count_shared_wavefronts,
    global_wavefronts,
    lines,
    sectors,
    wavefronts,
)

LANES = np.arange(32)


@pytest.mark.parametrize(
    ("stride", "width", "cycles"),
    [(4, 4, 1), (8, 4, 2), (128, 4, 32), (0, 4, 1), (132, 4, 1), (8, 8, 2), (16, 16, 4),
     (32, 16, 8), (0, 16, 4), (2, 2, 1)],
)  # fmt: skip
def test_strided_threads(stride: int, width: int, cycles: int) -> None:
    assert wavefronts(LANES * stride, width) == cycles


@given(
    units=st.lists(st.integers(0, 200), min_size=32, max_size=32),
    width=st.sampled_from([1, 2, 4, 8, 16]),
)
def test_counts_are_those_of_sets(units: list[int], width: int) -> None:
    addresses = np.array(units) * width
    threads = 32 * 4 // max(width, 4)
    cycles = 0
    for first in range(0, 32, threads):
        found: defaultdict[int, set[int]] = defaultdict(set)
        for address in addresses[first : first + threads]:
            for word in range(address // 4, (address + width - 1) // 4 + 1):
                found[word % 32].add(word)
        cycles += max(map(len, found.values()))
    assert wavefronts(addresses, width) == cycles
    assert sectors(addresses, width) == len({each // 32 for each in addresses})
    assert lines(addresses, width) == len({each // 128 for each in addresses})


def test_arrays_of_requests() -> None:
    addresses = LANES * np.array([4, 8, 128])[:, None]
    assert wavefronts(addresses, 4).tolist() == [1, 2, 32]
    assert sectors(addresses, 4).tolist() == [4, 8, 32]
    assert lines(addresses, 4).tolist() == [1, 2, 32]


def test_shared_memory_does_two_parts_at_once_for_neighbours() -> None:
    same = LANES // 2 * 16
    assert (wavefronts(same, 16), count_shared_wavefronts(same, 16)) == (4, 2)
    assert count_shared_wavefronts(LANES // 4 * 4 * 4 + LANES % 2 * 16, 16) <= 4
    assert count_shared_wavefronts(LANES * 16, 16) == 4
    assert count_shared_wavefronts(LANES * 0, 16) == 2
    assert count_shared_wavefronts(LANES // 2 * 4, 4) == 1


def test_global_memory_finds_two_lines_a_cycle() -> None:
    assert global_wavefronts(LANES * 4, 4) == 1
    assert global_wavefronts(4 + LANES * 4, 4) == 1
    assert global_wavefronts(LANES * (128 + 4), 4) == 16
