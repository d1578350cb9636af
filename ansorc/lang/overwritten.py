"""The numbers of an update: which elements of an input are overwritten, for the NumPy reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ansorc.ir.aligned import Array
from ansorc.ir.fault import FaultKind, FaultSite, fault_error
from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.grid import FloatType, Grid


def overwritten_place(
    op: ComputeOp, tensors: Mapping[str, Array], floats: FloatType
) -> tuple[Array, ...]:
    """Return the indices of the elements that `op` overwrites, along each dimension.

    They are broadcast to the part that is written. Raise OutOfRangeError where they leave the
    tensor.
    """
    rank = len(op.axes)
    axes: dict[str, Array] = {}
    for d, axis in enumerate(op.axes):
        along: Array = np.arange(axis.extent, dtype=np.int64)
        axes[axis.name] = along.reshape([-1 if e == d else 1 for e in range(rank)])
    grid = Grid(axes, tensors, floats, op.name, rank)
    places = tuple(grid.evaluate(index) for index in op.result_indices)
    for dimension, (place, extent) in enumerate(zip(places, op.buffer.shape, strict=True)):
        outside = (place < 0) | (place >= extent)
        if outside.any():
            name = op.overwrites[0].buffer.name
            told = int(place[outside].flat[0]), 0, extent - 1, dimension
            raise fault_error(f"'{op.name}'", FaultSite(FaultKind.INDEX, name), told)
    return places


def put_part(whole: Array, place: tuple[Array, ...], part: Array) -> Array:
    """Return `whole` with the elements at `place` replaced by those of `part`."""
    result = np.array(whole, part.dtype)
    result[place] = part
    return result


def bounds_of_update(
    op: ComputeOp,
    tensors: Mapping[str, Array],
    bounds_of: Callable[[Mapping[str, Array]], Mapping[str, Array]],
) -> dict[str, Array]:
    """Return bounds of the errors of the tensors of `op`: 0 for what is not overwritten.

    `bounds_of` returns those of the part that is, given all tensors, that part in their place.
    """
    place = overwritten_place(op, tensors, np.dtype(np.float64))
    parts = {buffer.name: tensors[buffer.name][place] for buffer in op.buffers}
    bounds = bounds_of({**tensors, **parts})
    return {
        name: put_part(np.zeros(tensors[name].shape), place, bound)
        for name, bound in bounds.items()
    }
