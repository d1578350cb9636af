"""The same mathematics under names that follow from the structure alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Load, Var
from ansorc.ir.node import Node, rewrite
from ansorc.lang.compute_op import Axis, ComputeOp
from ansorc.lang.hints import AXIS_HINTS, hint_axes


def canonical(
    params: Sequence[Buffer], ops: Sequence[ComputeOp]
) -> tuple[tuple[Buffer, ...], tuple[ComputeOp, ...]]:
    """Return the DAG with tensors called t0, t1, … (params first) and axes a0, a1, …"""
    named = {b.name: b for b in (*params, *(b for op in ops for b in op.buffers))}
    buffers = {
        name: replace(buffer, name=f"t{place}")
        for place, (name, buffer) in enumerate(named.items())
    }
    renamed = tuple(_renamed(op, buffers) for op in ops)
    return tuple(buffers[b.name] for b in params), renamed


def _renamed(op: ComputeOp, buffers: Mapping[str, Buffer]) -> ComputeOp:
    axes = {axis.name: f"a{i}" for i, axis in enumerate((*op.axes, *op.reduce_axes))}

    def rule(node: Node) -> Node | None:
        match node:
            case Var(name, dtype):
                return Var(axes[name], dtype)
            case Load(buffer, indices):
                return Load(buffers[buffer.name], indices)
            case _:
                return None

    renamed = replace(
        op,
        axes=tuple(Axis(axes[axis.name], axis.extent) for axis in op.axes),
        reduce_axes=tuple(Axis(axes[axis.name], axis.extent) for axis in op.reduce_axes),
        hints=_renamed_hints(op, axes),
    )
    return renamed.with_buffers([buffers[buffer.name] for buffer in op.buffers]).with_bodies(
        lambda body: rewrite(body, rule)
    )


def _renamed_hints(op: ComputeOp, axes: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, ",".join(axes[axis] for axis in hint_axes(op.hints, name)))
        if name in AXIS_HINTS
        else (name, value)
        for name, value in op.hints
    )
