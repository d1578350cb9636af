"""The bytes after which the sets of a cache begin anew."""

from __future__ import annotations

import pytest

from ansorc.target.ways import way_bytes

KIB = 1024


@pytest.mark.parametrize(
    ("cache", "way"),
    [
        (32 * KIB, 4 * KIB),
        (48 * KIB, 4 * KIB),
        (64 * KIB, 8 * KIB),
        (1024 * KIB, 128 * KIB),
        (1280 * KIB, 128 * KIB),
        (0, 1),
    ],
)
def test_a_way_is_the_largest_power_of_two_in_an_eighth(cache: int, way: int) -> None:
    assert way_bytes(cache) == way
