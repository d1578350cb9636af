"""What the requests of warps to memory take, counted once for each kind of warp.

Of the thousands of programs that a search looks at many ask for the same elements of a tensor: the
first threads of a block are a warp, and what the others do makes no difference to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.extent import BoolArray, IntArray
from ansorc.search.memo import share
from ansorc.target.gpu import WARP_THREADS

Floats = NDArray[np.float64]
_MULTIPLIER, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)


def kinds_of_warps(width: IntArray, threads: Floats, *digits: Floats) -> NDArray[np.uint64]:
    """Return [rows]: numbers, the same for warps that ask for the same elements of a tensor.

    The first threads of a block are a warp, so digits that none of them reaches do not matter.
    `width` and `digits` are as in `RequestCounter`.
    """
    lanes = np.minimum(threads, WARP_THREADS).astype(np.int64)
    kinds = _mix(np.zeros(1, np.int64) + (width * (WARP_THREADS + 1) + lanes))
    inner = np.ones(1)
    for extent, step in reversed(list(zip(digits[::2], digits[1::2], strict=True))):
        covered = inner * extent
        reached = np.where(covered >= WARP_THREADS, 0, extent).astype(np.int64)
        is_moving = (inner < WARP_THREADS) & (extent > 1)
        digit = np.where(is_moving, step.astype(np.int64) * WARP_THREADS + reached, 0)
        kinds = _mix(kinds ^ digit.astype(np.uint64))
        inner = covered
    return kinds


def _mix(numbers: IntArray | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers all of whose bits depend on those of `numbers`, different for others."""
    mixed = numbers.astype(np.uint64) * _MULTIPLIER
    return mixed ^ (mixed >> _SHIFT)


@share
def request_counter(
    dag: ComputeDAG, count: Callable[[IntArray, int], IntArray], element_bytes: int
) -> RequestCounter:
    """Return the counter for all programs of `dag`."""
    return RequestCounter(count, element_bytes)


@dataclass(eq=False)
class RequestCounter:
    """Counts what the requests of warps to a tensor take, once for each kind of warp."""

    count: Callable[[IntArray, int], IntArray]
    """What the addresses of a warp, and the bytes of each thread's request, take."""
    element_bytes: int
    _kinds: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    """The kinds that were counted, sorted."""
    _counts: Floats = field(default_factory=lambda: np.zeros(0))

    def __call__(
        self, kinds: NDArray[np.uint64], width: IntArray, threads: Floats, *digits: Floats
    ) -> Floats:
        """Return the count for each program.

        `kinds` are those of `kinds_of_warps`, `width` is in elements; `digits` are the extent and
        the step, in elements, of each digit of a thread's number, the slowest first.
        """
        places, is_known = self._find(kinds)
        if not is_known.all():
            numbers = np.broadcast_arrays(kinds, width, threads, *digits)
            new, first = np.unique(kinds[~is_known], return_index=True)
            rows = np.flatnonzero(~is_known)[first]
            counts = self._count(*[each[rows] for each in numbers[1:]])
            everything = np.concatenate([self._kinds, new])
            order = np.argsort(everything)
            self._kinds = everything[order]
            self._counts = np.concatenate([self._counts, counts])[order]
            places, _ = self._find(kinds)
        return self._counts[places]

    def __len__(self) -> int:
        """How many kinds were counted."""
        return len(self._kinds)

    def _find(self, kinds: NDArray[np.uint64]) -> tuple[NDArray[np.intp], BoolArray]:
        """Return where kinds are among those that were counted, if they are."""
        if not len(self._kinds):
            return np.zeros(kinds.shape, np.intp), np.zeros(kinds.shape, np.bool_)
        places = np.searchsorted(self._kinds, kinds)
        places = np.minimum(places, len(self._kinds) - 1)
        return places, self._kinds[places] == kinds

    def _count(self, width: IntArray, threads: Floats, *digits: Floats) -> Floats:
        addresses = self._addresses(threads, digits)
        counts = np.zeros(len(width))
        for each in np.unique(width):
            rows = width == each
            counts[rows] = self.count(addresses[rows], int(each) * self.element_bytes)
        return counts

    def _addresses(self, threads: Floats, digits: Sequence[Floats]) -> IntArray:
        """[rows, 32]: the bytes of each lane of a warp from those of the first."""
        most = threads.astype(np.int32)[:, None] - 1
        lane = np.minimum(np.arange(WARP_THREADS, dtype=np.int32), most)
        total = np.zeros(lane.shape, dtype=np.int64)
        for extent, step in reversed(list(zip(digits[::2], digits[1::2], strict=True))):
            length = extent[:, None].astype(np.int32)
            outer = lane // length
            total += (lane - outer * length) * step[:, None].astype(np.int64)
            lane = outer
        return total * self.element_bytes
