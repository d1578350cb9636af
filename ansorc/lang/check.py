"""What makes a ComputeOp legal: its names, dtypes and ranks, and that it reads inside tensors."""

from __future__ import annotations

from ansorc.errors import LanguageError
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import INT64
from ansorc.ir.expr import Broadcast, Load, Ramp, Var, dtype_of
from ansorc.ir.node import walk
from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.hints import AXIS_HINTS, hint_axes
from ansorc.lang.in_range import check_reads_in_range


def check_op(op: ComputeOp) -> None:
    """Raise LanguageError, saying what to do instead, where `op` has no meaning."""
    axes = [axis.name for axis in (*op.axes, *op.reduce_axes)]
    if len(set(axes)) != len(axes):
        raise LanguageError(f"'{op.name}' has two axes of one name: {', '.join(axes)}")
    if any(axis.extent <= 0 for axis in (*op.axes, *op.reduce_axes)):
        raise LanguageError(f"'{op.name}' has an empty axis; extents are 1 or more")
    if op.buffer.shape != tuple(axis.extent for axis in op.axes):
        raise LanguageError(f"the axes of '{op.name}' do not match its shape {op.buffer.shape}")
    if (op.combiner is None) != (not op.reduce_axes):
        raise LanguageError(f"'{op.name}' needs a combiner exactly if it has reduce axes")
    found = dtype_of(op.body)
    if found != op.buffer.dtype:
        raise LanguageError(f"'{op.name}' is {op.buffer.dtype}, but its body is {found}")
    _check_nodes(op, set(axes))
    _check_hints(op, axes)
    check_reads_in_range(op)


def _check_nodes(op: ComputeOp, axes: set[str]) -> None:
    for node in walk(op.body):
        if isinstance(node, Var) and (node.name not in axes or node.dtype != INT64):
            raise LanguageError(
                f"'{op.name}' uses the variable '{node.name}', which is none of its axes "
                f"({', '.join(sorted(axes)) or 'it has none'})"
            )
        if isinstance(node, (Ramp, Broadcast)):
            raise LanguageError(f"'{op.name}' holds a vector; a compute defines one element")
        if isinstance(node, Load):
            _check_load(op, node.buffer, node)


def _check_load(op: ComputeOp, buffer: Buffer, load: Load) -> None:
    if len(load.indices) != len(buffer.shape):
        raise LanguageError(
            f"'{op.name}' reads '{buffer.name}' of {len(buffer.shape)} dimensions "
            f"with {len(load.indices)} indices"
        )


def _check_hints(op: ComputeOp, axes: list[str]) -> None:
    for hint in AXIS_HINTS:
        for name in hint_axes(op.hints, hint):
            if name not in axes:
                raise LanguageError(
                    f"the hint {hint} of '{op.name}' names '{name}', which is none of its axes "
                    f"({', '.join(axes)})"
                )
