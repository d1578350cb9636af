"""Parts of a tensor, added to a graph in the making."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ansorc.graph.builder import GraphBuilder
from ansorc.ir.aligned import Array


def sliced(builder: GraphBuilder, data: str, ranges: Sequence[range]) -> str | Array:
    """Add the part of `data` at the places `ranges` of each dimension; an empty one is known."""
    kind = builder.type(data)
    if all(one == range(extent) for one, extent in zip(ranges, kind.shape, strict=True)):
        return data
    if not all(len(one) for one in ranges):
        return np.zeros([len(one) for one in ranges], kind.dtype.numpy)
    ends = [one[-1] + (1 if one.step > 0 else -1) for one in ranges]
    return builder.add(
        "slice",
        [data],
        begin=[one.start for one in ranges],
        end=[None if end < 0 else end for end in ends],
        stride=[one.step for one in ranges],
    )
