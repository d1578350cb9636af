"""The sets of a cache: lines whose addresses differ by a multiple of a way share one."""

from __future__ import annotations

_WAYS = 8
"""Lines that a set holds, at least; 12 to 20 in newer caches."""


def way_bytes(cache_bytes: int) -> int:
    """Return the bytes from one line of a cache to the next one of the same set.

    A power of two, as the number of sets is: 4 KiB, a page, in the first caches of x86, whether
    they have 32 or 48 KiB. Of larger caches it is what the fewest ways allow.
    """
    return 1 << max(0, (cache_bytes // _WAYS).bit_length() - 1)
