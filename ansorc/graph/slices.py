"""Parts of a tensor, added to a graph in the making."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ansorc.graph.builder import GraphBuilder
from ansorc.ir.aligned import Array


def add_slice(builder: GraphBuilder, data: str, ranges: Sequence[range]) -> str | Array:
    """Add the part of `data` at the indices `ranges` of each dimension and return its name.

    Return an empty array itself.
    """
    kind = builder.type(data)
    if all(part == range(extent) for part, extent in zip(ranges, kind.shape, strict=True)):
        return data
    if not all(len(part) for part in ranges):
        return np.zeros([len(part) for part in ranges], kind.dtype.numpy)
    ends = [part[-1] + (1 if part.step > 0 else -1) for part in ranges]
    return builder.add(
        "slice",
        [data],
        begin=[part.start for part in ranges],
        end=[None if end < 0 else end for end in ends],
        stride=[part.step for part in ranges],
    )
