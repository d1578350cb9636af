"""One block of memory for all intermediate tensors of a network, by their lifetimes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansorc.graph.partition import Lifetime
from ansorc.ir.aligned import ALIGNMENT


def place_in_arena(
    lives: Sequence[Lifetime], alignment: int = ALIGNMENT
) -> tuple[Mapping[str, int], int]:
    """Return the offset of each tensor, a multiple of `alignment` bytes, and the size of the whole.

    Tensors whose lifetimes meet do not overlap. The largest is placed first, each at the lowest
    offset that is free while it lives (Pisarchyk and Lee, "Efficient Memory Management for Deep
    Neural Net Inference", 2020: greedy by size).
    """
    placed: list[tuple[int, int, Lifetime]] = []
    for life in sorted(lives, key=lambda life: (-life.bytes, life.first, life.name)):
        size = -(-life.bytes // alignment) * alignment
        begin = _lowest_gap(size, sorted(
            (start, end) for start, end, other in placed
            if life.first <= other.last and other.first <= life.last
        ))  # fmt: skip
        placed.append((begin, begin + size, life))
    offsets = {life.name: begin for begin, _, life in placed}
    return offsets, max((end for _, end, _ in placed), default=0)


def _lowest_gap(size: int, taken: Sequence[tuple[int, int]]) -> int:
    """Return the lowest offset of `size` free bytes; the intervals `taken` are sorted."""
    begin = 0
    for start, end in taken:
        if start - begin >= size:
            break
        begin = max(begin, end)
    return begin
