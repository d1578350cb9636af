"""The order of blocks: in groups of neighbours along the last axis, all rows for each group.

    blockIdx.x i0@j0    ->    blockIdx.x j0@i0@j1

Beyond the paper. Of the blocks that run at a time, those of a row share its tile of A, those of a
column its tile of B, in the second-level cache. In rows of n blocks the first of m blocks read
m / n tiles of A and n of B; in groups of g, m / g and g. The lengths of groups are genes; one of
all columns is the order without groups.
"""

from __future__ import annotations

from collections.abc import Sequence

from ansorc.ir.substitute import free_vars
from ansorc.lang.compute_op import ComputeOp

MAX_GROUP = 32
"""The most neighbouring blocks of a row that run before those of the next row."""


def count_walked_axes(op: ComputeOp, column: int) -> int:
    """Return how many of the axes directly before axis number `column` a group is walked along.

    They move no tensor that `column` moves: a group of columns is used again for all of them.
    """
    name = op.axes[column].name
    moving = [{v for index in load.indices for v in free_vars(index)} for load in op.loads]
    beside = {other for names in moving if name in names for other in names}
    count = 0
    while count < column and op.axes[column - 1 - count].name not in beside:
        count += 1
    return count if any(axis.extent > 1 for axis in op.axes[column - count : column]) else 0


def in_groups(blocks: Sequence[str], column: int, group: str, walked: int) -> list[str]:
    """Return the loops over blocks, one for each axis, and `group`, in their order."""
    first = column - walked
    return [*blocks[:first], blocks[column], *blocks[first:column], group, *blocks[column + 1 :]]
