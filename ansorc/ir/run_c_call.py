"""Run a call of a C function on whole arrays by its reference in Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from ansorc.ir.stmt import CallC


def run_c_call(stmt: CallC, *memory: list[Any]) -> None:
    """Fill the last of `memory`, the elements of the output, from the inputs in the others."""
    arrays = [
        np.array(elements, buffer.dtype.numpy).reshape(buffer.shape)
        for buffer, elements in zip(stmt.inputs, memory[:-1], strict=True)
    ]
    shape, kind = stmt.output.shape, stmt.output.dtype
    result = stmt.function.of_arrays(shape, *arrays).astype(kind.numpy).ravel()
    memory[-1][:] = list(result) if kind.is_float else result.tolist()
