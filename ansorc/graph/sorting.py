"""Elements of a tensor in order, added to a graph in the making: one node, or one for each pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ansorc.graph.builder import GraphBuilder
from ansorc.lang.operators.sorting import first_in_order, is_merged

_OUTPUTS = {"first_of_runs": 2, "merge_runs": 2, "rank_places": 2, "sort_blocks": 2}


def add_top_k(
    builder: GraphBuilder, data: str, k: int, axis: int, *, largest: bool
) -> tuple[str, str]:
    """Add the first `k` elements of `data` in order along `axis`, and their places (int64).

    Descending if `largest`. Runs of long rows are merged in passes, each a node: they are one task,
    and share a kernel.
    """
    extent = builder.type(data).shape[axis]
    if not (1 <= k <= extent and is_merged(extent, k)):
        values, places = builder.add_many(
            "top_k", [data], ("", ""), k=k, axis=axis, largest=largest
        )
        return values, places
    nodes, is_bool = _Nodes(builder), builder.type(data).dtype.is_bool
    if is_bool:
        (data,) = nodes("numbers_of_bools", [data])
    values, places = first_in_order(nodes, data, extent, k, axis=axis, largest=largest)
    return (nodes("bools_of_numbers", [values])[0] if is_bool else values), places


class _Nodes:
    """Applies definitions to tensors of a graph."""

    def __init__(self, builder: GraphBuilder) -> None:
        self._builder = builder

    def __call__(self, name: str, inputs: Sequence[str], **attributes: object) -> Sequence[str]:
        """Return the outputs of a new node."""
        names = [""] * _OUTPUTS.get(name, 1)
        return self._builder.add_many(name, inputs, names, **attributes)

    def lengths(self, value: int) -> str:
        """Return `value` and its double as a constant."""
        return self._builder.constant(np.array([value, 2 * value], np.int32))
