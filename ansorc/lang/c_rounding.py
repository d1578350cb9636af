"""Bound the difference between the result of a C function of whole arrays and its reference."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ansorc.ir.aligned import Array
from ansorc.lang.compute_op import ComputeOp, c_inputs

_ROUNDINGS = 64.0
"""Roundings of the largest result that are allowed for each of them."""


def bound_of_c_call(
    op: ComputeOp, tensors: Mapping[str, Array], bounds: Mapping[str, Array]
) -> dict[str, Array]:
    """Return a bound of the error, the same for all elements; no bound for integer results.

    Nothing is known of how the function computes. The bound has a number of roundings of the
    largest result, and for each input the largest change of an element when that input changes by
    its error.
    """
    assert op.c_call is not None
    function, result = op.c_call.function, tensors[op.buffer.name]
    if not op.buffer.dtype.is_float:
        return {}
    names = [buffer.name for buffer in c_inputs(op)]
    sizes = np.abs(result[np.isfinite(result)])
    total = float(sizes.max(initial=0.0)) * op.buffer.dtype.epsilon * _ROUNDINGS
    for moved in dict.fromkeys(name for name in names if name in bounds):
        for sign in (-1.0, 1.0):
            arrays = [
                tensors[name] + sign * bounds[name] if name == moved else tensors[name]
                for name in names
            ]
            change = np.abs(function.of_arrays(result.shape, *arrays) - result)
            total += float(change[np.isfinite(change)].max(initial=0.0))
    return {op.buffer.name: np.full(result.shape, total)}
