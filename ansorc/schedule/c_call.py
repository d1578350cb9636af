"""A stage that a C function computes, as one statement."""

from __future__ import annotations

from collections.abc import Mapping

from ansorc.ir.buffer import Buffer
from ansorc.ir.stmt import CallC
from ansorc.lang.compute_op import ComputeOp, c_inputs
from ansorc.schedule.placed import Placed


def call_of_c_function(op: ComputeOp, placed: Mapping[str, Placed]) -> CallC:
    """Return the call that fills the tensor of `op`; what it reads is at root, and so is `op`."""
    assert op.c_call is not None

    def array(buffer: Buffer) -> Buffer:
        known = placed.get(buffer.name)
        made = () if known is None else known.buffers
        return next((each for each in made if each.name == buffer.name), buffer)

    inputs = tuple(map(array, c_inputs(op)))
    return CallC(op.c_call.name, op.c_call.function, inputs, array(op.buffer))
