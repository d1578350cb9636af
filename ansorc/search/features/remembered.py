"""Remember what was found out about a computation, which all populations of a sketch share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from ansorc.lang.compute_op import ComputeOp

Found = TypeVar("Found")

_MOST = 512
"""Computations that are remembered."""


def remembered(function: Callable[[ComputeOp], Found]) -> Callable[[ComputeOp], Found]:
    """Return `function` with its last results kept, by the identity of the computation.

    To compare computations by their content would take longer than many functions do.
    """
    known: OrderedDict[int, tuple[ComputeOp, Found]] = OrderedDict()

    @wraps(function)
    def remembering(op: ComputeOp) -> Found:
        entry = known.get(id(op))
        if entry is None:
            entry = known[id(op)] = op, function(op)
            if len(known) > _MOST:
                known.popitem(last=False)
        return entry[1]

    return remembering
