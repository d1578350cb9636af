"""The same computations under other names, awkward ones among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import ansorc.lang as ac
from ansorc.ir.expr import Load, Var
from ansorc.ir.node import Node, rewrite
from ansorc.lang.compute_op import Axis, ComputeOp
from ansorc.lang.hints import AXIS_HINTS, hint_axes

SUFFIXES = (
    ".local", ".rf", ".0", ".spread", ".product", ".weight", ".local.1", ".rf.local", ".1", ".k",
)  # fmt: skip
"""What is behind the names of stages and tensors that steps make."""


def hostile(dag: ac.ComputeDAG) -> ac.ComputeDAG:
    """Tensors get names that steps would make of others, axes those of others, in reverse order."""
    names = [b.name for b in (*dag.params, *(b for op in dag.ops for b in op.buffers))]
    distinct = list(dict.fromkeys(names))[::-1]
    stems = ["z"]
    while len(stems) < len(distinct):
        suffix = SUFFIXES[(len(stems) - 1) % len(SUFFIXES)]
        stems.append(f"{stems[(len(stems) - 1) // len(SUFFIXES)]}{suffix}")
    return called(dag, dict(zip(distinct, stems, strict=True)))


def called(dag: ac.ComputeDAG, tensors: Mapping[str, str]) -> ac.ComputeDAG:
    """The DAG with these names for its tensors, and axes whose order by name is the reverse."""
    params = tuple(replace(buffer, name=tensors[buffer.name]) for buffer in dag.params)
    return ac.ComputeDAG.of_ops(params, tuple(_called(op, tensors) for op in dag.ops))


def _called(op: ComputeOp, tensors: Mapping[str, str]) -> ComputeOp:
    every = (*op.axes, *op.reduce_axes)
    new = [("ax", "i", "r")[place % 3] + str(len(every) - place) for place in range(len(every))]
    axes = {axis.name: name for axis, name in zip(every, new, strict=True)}

    def rule(node: Node) -> Node | None:
        if isinstance(node, Var):
            return Var(axes[node.name], node.dtype)
        if isinstance(node, Load):
            buffer = replace(node.buffer, name=tensors[node.buffer.name])
            return Load(buffer, node.indices)
        return None

    changed = replace(
        op,
        axes=tuple(Axis(axes[axis.name], axis.extent) for axis in op.axes),
        reduce_axes=tuple(Axis(axes[axis.name], axis.extent) for axis in op.reduce_axes),
        hints=tuple(
            (hint, ",".join(axes[name] for name in hint_axes(op.hints, hint)))
            if hint in AXIS_HINTS
            else (hint, value)
            for hint, value in op.hints
        ),
        places=tuple(replace(place, axis=axes[place.axis]) for place in op.places),
        scan=op.scan and replace(op.scan, axis=axes[op.scan.axis]),
    )
    changed = changed.with_bodies(lambda body: rewrite(body, rule))
    return changed.with_buffers([replace(b, name=tensors[b.name]) for b in op.buffers])
