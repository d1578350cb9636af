"""Costs in a GPU's memory of one load or store of a warp, from the addresses of its threads.

Counted exactly, for arrays of requests: `wavefronts` of shared memory and the first-level cache,
which have the same 32 banks of 4 bytes, `sectors` of 32 bytes and `lines` of 128.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BANKS, BANK_BYTES = 32, 4
SECTOR_BYTES, LINE_BYTES = 32, 128
LINES_PER_CYCLE = 2

Addresses = NDArray[np.int64]
"""Bytes from a base that is aligned to a line: shape (…, 32), the last axis being the threads.

A thread that does not take part has the address of one that does.
"""


def wavefronts(addresses: Addresses, width: int) -> NDArray[np.int64]:
    """Return the cycles of the banks that each request takes; shape of `addresses` without threads.

    Threads that load the same word share it; others that need the same bank wait. A request of
    8 or 16 bytes (`width`) a thread is done in 2 or 4 parts of 16 or 8 threads each, and words are
    shared within a part only.
    """
    words = _pieces(addresses, width, BANK_BYTES)
    return _conflicts(words.reshape(*words.shape[:-1], -1, BANKS)).sum(axis=-1)


def count_shared_wavefronts(addresses: Addresses, width: int) -> NDArray[np.int64]:
    """Return `wavefronts` of shared memory, which does two parts at once where they allow it.

    They do where each thread asks for the same as its neighbour, or each as its neighbour's
    neighbour: half of the words are then asked for twice.
    """
    cycles = wavefronts(addresses, width)
    if width <= BANK_BYTES:
        return cycles
    words = _pieces(addresses, width, BANK_BYTES)
    pairs = words.reshape(*words.shape[:-1], -1, 2 * BANKS)
    return np.where(are_asked_twice(addresses), _conflicts(pairs).sum(axis=-1), cycles)


def are_asked_twice(addresses: Addresses) -> NDArray[np.bool_]:
    """Return whether each thread asks for the same as its neighbour, or as the one after it."""
    fours = addresses.reshape(*addresses.shape[:-1], -1, 4)
    twice = np.zeros(addresses.shape[:-1], bool)
    for first, second in (([0, 2], [1, 3]), ([0, 1], [2, 3])):
        twice |= (fours[..., first] == fours[..., second]).all(axis=(-1, -2))
    return twice


def _conflicts(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the most distinct words of one bank, of each last axis of `words`."""
    bank, row = words % BANKS, words // BANKS
    keys = np.sort(bank << 48 | row, axis=-1)
    bank = keys >> 48
    is_new = np.ones(keys.shape, bool)
    is_new[..., 1:] = keys[..., 1:] != keys[..., :-1]
    counted = np.cumsum(is_new, axis=-1)
    begins = np.ones(keys.shape, bool)
    begins[..., 1:] = bank[..., 1:] != bank[..., :-1]
    before = np.maximum.accumulate(np.where(begins, counted - 1, 0), axis=-1)
    return (counted - before).max(axis=-1)


def global_wavefronts(addresses: Addresses, width: int) -> NDArray[np.float64]:
    """Return the cycles of the first-level cache that each request to global memory takes.

    It finds `LINES_PER_CYCLE` lines a cycle; the rest is `wavefronts`.
    """
    return np.maximum(wavefronts(addresses, width), lines(addresses, width) / LINES_PER_CYCLE)


def sectors(addresses: Addresses, width: int) -> NDArray[np.int64]:
    """Return the sectors that each request of `width` bytes a thread touches."""
    return _distinct(_pieces(addresses, width, SECTOR_BYTES))


def lines(addresses: Addresses, width: int) -> NDArray[np.int64]:
    """Return the lines that each request of `width` bytes a thread touches."""
    return _distinct(_pieces(addresses, width, LINE_BYTES))


def _pieces(addresses: Addresses, width: int, unit: int) -> NDArray[np.int64]:
    """Return the numbers of the units of `unit` bytes that the threads touch, thread by thread."""
    step = min(unit, max(width, 1))
    offsets = np.arange(0, max(width, 1), step)
    units = (addresses[..., None] + offsets) // unit
    return units.reshape(*addresses.shape[:-1], -1)


def _distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    values = np.sort(values, axis=-1)
    return 1 + (values[..., 1:] != values[..., :-1]).sum(axis=-1)
