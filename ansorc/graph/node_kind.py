"""The kind of computation of a node, read from its definition."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from ansorc.ir.expr import Binary, BinaryOp, Const, Expr, Load, Var
from ansorc.ir.node import Node, children, rewrite, walk
from ansorc.lang.compute_op import Axis, ComputeOp
from ansorc.lang.dag import ComputeDAG

VIEWS = ("reshape", "flatten", "squeeze", "expand_dims")
"""Operators that leave the order of the elements in memory as it is."""


class NodeKind(Enum):
    """How the elements of a result depend on those of the inputs."""

    ELEMENTWISE = "elementwise"
    """Each on the elements at its own place, as NumPy broadcasts."""
    MOVEMENT = "movement"
    """Each is one element of an input, wherever that lies: a transposition, a slice."""
    INJECTIVE = "injective"
    """Each on a few elements, at places that its own place says."""
    REDUCTION = "reduction"
    """On many."""


def dag_kind(dag: ComputeDAG) -> NodeKind:
    """Return the kind of a computation."""
    if any(op.reduce_axes or op.scan is not None for op in dag.ops):
        return NodeKind.REDUCTION
    if all(_is_elementwise(op) for op in dag.ops):
        return NodeKind.ELEMENTWISE
    if all(_is_movement(body) for op in dag.ops for body in op.bodies):
        return NodeKind.MOVEMENT
    return NodeKind.INJECTIVE


def is_affine(dag: ComputeDAG) -> bool:
    """Return whether the indices of all loads are linear in those of the result."""
    indices = (index for op in dag.ops for load in op.loads for index in load.indices)
    divisions = (BinaryOp.FLOORDIV, BinaryOp.MOD)
    return not any(
        isinstance(node, Binary) and node.op in divisions
        for index in indices
        for node in walk(index)
    )


def is_permutation(dag: ComputeDAG) -> bool:
    """Return whether the result is the only input with its dimensions in another order."""
    (op, *more) = dag.ops
    if more or op.reduce_axes or op.scan is not None or not isinstance(op.body, Load):
        return False
    return sorted(map(str, op.body.indices)) == sorted(str(Var(axis.name)) for axis in op.axes)


def elementwise_form(dag: ComputeDAG) -> tuple[str, ...]:
    """Return what an elementwise computation does to the elements at a place, its shape left out.

    Two computations of the same form do the same to each element, whatever their extents are: a
    definition may also compute with the extents, or look at an axis of extent 1 that another shape
    has elsewhere.
    """
    return tuple(str(rewrite(body, _without_place)) for op in dag.ops for body in op.bodies)


def _without_place(node: Node) -> Node | None:
    return Var(node.buffer.name) if isinstance(node, Load) else None


def _is_movement(body: Expr) -> bool:
    """Return whether `body` is one element as it is: no test, no arithmetic with it."""
    return isinstance(body, Load) and not any(isinstance(i, Load) for i in body.indices)


def _is_elementwise(op: ComputeOp) -> bool:
    return all(_reads_own_place(body, op.axes) for body in op.bodies)


def _reads_own_place(node: Node, axes: Sequence[Axis]) -> bool:
    """Return whether all loads are broadcast from the last axis, and no index is an operand."""
    if isinstance(node, Load):
        if len(node.indices) > len(axes):
            return False
        last_axes = axes[len(axes) - len(node.indices) :]
        pairs = zip(node.indices, last_axes, node.buffer.shape, strict=True)
        return all(_is_broadcast_read(index, axis, extent) for index, axis, extent in pairs)
    if isinstance(node, Var):
        return False
    return all(_reads_own_place(child, axes) for child in children(node))


def _is_broadcast_read(index: Expr, axis: Axis, extent: int) -> bool:
    """Return whether a dimension is read as a whole, or broadcast; a slice from 0 on is neither."""
    is_whole = index == Var(axis.name) and extent == axis.extent
    return is_whole or (extent == 1 and isinstance(index, Const))
