"""The scatters of known values: each update goes to its index, one after another.

The definitions (`ansorc/graph/operators/indexing.py`) ask for each place which updates are meant
for it, as many kernels can do at once; of known values that would take the product of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ansorc.ir.aligned import Array
from ansorc.ir.fault import FaultKind, FaultSite, fault_error
from ansorc.lang.compute_op import Combiner
from ansorc.lang.dag import ComputeDAG

_COMBINED: Mapping[str, tuple[Combiner, np.ufunc]] = {
    "add": (Combiner.SUM, np.add),
    "mul": (Combiner.PROD, np.multiply),
    "max": (Combiner.MAX, np.maximum),
    "min": (Combiner.MIN, np.minimum),
}


def scatter_known_elements(
    dag: ComputeDAG, inputs: Sequence[Array], given: Mapping[str, Any]
) -> Array:
    """Return what `scatter_elements`, whose definition is `dag`, makes of known inputs.

    Raise OutOfRangeError for a place that there is not.
    """
    data, indices, updates = inputs
    axis = given.get("axis", 0) % data.ndim
    read = tuple(  # what lies beside the data is not read
        slice(None if d == axis else extent) for d, extent in enumerate(data.shape)
    )
    wanted, read_updates = indices[read], updates[read]
    least = -data.shape[axis] if given.get("from_end", True) else 0
    places = list(np.indices(wanted.shape, sparse=True))
    places[axis] = _places(dag, wanted, (least, data.shape[axis]), axis)
    flat = np.ravel_multi_index(np.broadcast_arrays(*places), data.shape).reshape(-1)
    return _combine(dag, data, flat, read_updates.reshape(-1), given)


def scatter_known_slices(
    dag: ComputeDAG, inputs: Sequence[Array], given: Mapping[str, Any]
) -> Array:
    """Return what `scatter_nd`, whose definition is `dag`, makes of known inputs.

    Raise OutOfRangeError for a place that there is not.
    """
    data, indices, updates = inputs
    outer = data.shape[: indices.shape[1]]
    flat = np.zeros(len(indices), np.int64)
    for d, extent in enumerate(outer):
        flat = flat * extent + _places(dag, indices[:, d], (-extent, extent), d)
    inner = int(updates[0].size)
    within = np.arange(inner, dtype=np.int64)
    elements = np.add.outer(flat * inner, within)
    return _combine(dag, data, elements.reshape(-1), updates.reshape(-1), given)


def _places(dag: ComputeDAG, indices: Array, ends: tuple[int, int], dimension: int) -> Array:
    """Return indices counted from the front; raise OutOfRangeError unless all are in `ends`."""
    low, end = ends
    signed = indices.astype(np.int64)
    wrong = signed[(signed < low) | (signed >= end)]
    if wrong.size:
        site = FaultSite(FaultKind.INDEX, dag.inputs[0].name)
        values = (int(wrong.flat[0]), low, end - 1, dimension)
        raise fault_error(f"'{dag.ops[0].name}'", site, values)
    return signed % end


def _combine(
    dag: ComputeDAG, data: Array, places: Array, updates: Array, given: Mapping[str, Any]
) -> Array:
    """Return `data` with each of `updates` at its place among all elements, later ones last."""
    combine, old = given.get("combine", "none"), data.reshape(-1)
    if combine == "none":
        last = np.full(old.size, -1, np.int64)
        np.maximum.at(last, places, np.arange(places.size))
        return np.where(last >= 0, updates[np.maximum(last, 0)], old).reshape(data.shape)
    combiner, function = _COMBINED[combine]
    kind = dag.outputs[0].dtype
    # long sums of floats are rounded at their end, as in every reduction
    is_rounded_late = kind.is_float and combine in ("add", "mul")
    wide = np.dtype(np.float64) if is_rounded_late else kind.numpy
    total = np.full(old.size, combiner.identity(kind).value, wide)
    with np.errstate(all="ignore"):
        function.at(total, places, updates.astype(wide))
        return function(old, total.astype(kind.numpy)).reshape(data.shape)
