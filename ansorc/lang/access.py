"""Describe the reads of a computation: the predicates of the sketch rules (paper, Table 1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ansorc.ir.arith.affine import affine
from ansorc.ir.expr import Call, Const, Expr, Indices, Load, OwnCall, Select
from ansorc.ir.node import walk
from ansorc.ir.substitute import free_vars
from ansorc.lang.compute_op import ComputeOp

EXPENSIVE = frozenset({"exp"})
"""Calls too expensive to be repeated for each use."""


@dataclass(frozen=True)
class SimpleAccess:
    """A load whose every index is a constant, or a space axis up to a constant shift."""

    axes: tuple[int, ...]
    """The numbers of the space axes that index it, from left to right."""

    @property
    def has_repeated_axis(self) -> bool:
        """Whether an axis appears in two indices (a diagonal)."""
        return len(set(self.axes)) < len(self.axes)

    @property
    def is_in_order(self) -> bool:
        """Whether the axes are in the order of the loops (no transposition)."""
        return list(self.axes) == sorted(self.axes)


def reads(op: ComputeOp) -> Mapping[str, tuple[Indices, ...]]:
    """Return the distinct indices of the loads of `op`, by name of the tensor."""
    return op.accesses


def reads_of(reader: ComputeOp, producer: ComputeOp) -> tuple[Indices, ...]:
    """Return the indices of each load by `reader` of the result of `producer`."""
    indices = reads(reader)
    return tuple(a for buffer in producer.buffers for a in indices.get(buffer.name, ()))


def simple_access(op: ComputeOp, access: Indices) -> SimpleAccess | None:
    """Return which axes of `op` index the load `access`, or None where it is not simple."""
    numbers = {axis.name: number for number, axis in enumerate(op.axes)}
    axes: list[int] = []
    for index in access:
        if isinstance(index, Const):
            continue
        name = find_shifted_axis(index)
        if name not in numbers:
            return None
        axes.append(numbers[name])
    return SimpleAccess(tuple(axes))


def find_shifted_axis(index: Expr) -> str | None:
    """Return v if `index` is v plus a constant, else None."""
    form = affine(index)
    if form is None or len(form.terms) != 1:
        return None
    ((name, factor),) = form.terms.items()
    return name if factor == 1 else None


def strictly_inlineable(op: ComputeOp) -> bool:
    """Return whether inlining `op` costs next to nothing (paper: IsStrictInlinable).

    This holds if all its loads are simple and in order, and it has no branch, no `exp`, no
    reduction and no scan. A computation that reads no tensor may have branches, too.
    """
    if op.reduce_axes or op.scan is not None or op.c_call is not None:
        return False
    accesses = [simple_access(op, access) for indices in reads(op).values() for access in indices]
    if not accesses:
        return True
    if any(isinstance(node, Select) or is_expensive(node) for node in op.nodes()):
        return False
    return all(a is not None and a.is_in_order and not a.has_repeated_axis for a in accesses)


def gathers(op: ComputeOp, reader: ComputeOp) -> bool:
    """Return whether `op` gathers rows by indices of a tensor, and `reader` reads each row once."""
    accesses = reads_of(reader, op)
    if not (isinstance(op.body, Load) and op.axes and reader.axes and len(accesses) == 1):
        return False
    row, (*places, along) = op.axes[-1].name, op.body.indices
    is_placed = any(isinstance(node, Load) for index in places for node in walk(index))
    is_row = find_shifted_axis(along) == row and all(
        row not in free_vars(index) for index in places
    )
    used, last = {v for index in accesses[0] for v in free_vars(index)}, accesses[0][-1]
    is_once = all(a.extent == 1 or a.name in used for a in (*reader.axes, *reader.reduce_axes))
    is_along = not op.reduce_axes and find_shifted_axis(last) == reader.axes[-1].name
    return is_placed and is_row and is_along and is_once


def has_data_reuse(op: ComputeOp) -> bool:
    """Return whether `op` reads elements many times, so that tiling pays (paper: HasDataReuse).

    A tensor is reused if some space axis longer than 1 is in none of its indices. With a reduction,
    one reused tensor suffices. Without one, two are needed, and no tensor may be read once for each
    result: such a read takes longer than tiles save (for example the scale and sums of a norm).
    The hint `simplify_const_tensor_indices` disables tiling. Results that terms are scattered to
    are not tiled either, nor are reductions over ranges that are data, and scans have loops of
    their own.
    """
    is_special = bool(op.places) or op.scan is not None or op.c_call is not None
    if "simplify_const_tensor_indices" in dict(op.hints) or is_special:
        return False
    if op.ragged_axis is not None:
        return False
    are_reused = [_is_reused(op, accesses) for accesses in reads(op).values()]
    return any(are_reused) if op.reduce_axes else all(are_reused) and len(are_reused) >= 2


def _is_reused(op: ComputeOp, accesses: Iterable[Indices]) -> bool:
    """Return whether some space axis longer than 1 is in no index of a tensor."""
    used = {name for access in accesses for index in access for name in free_vars(index)}
    return any(axis.extent > 1 and axis.name not in used for axis in op.axes)


def is_expensive(node: object) -> bool:
    """Return whether `node` is a call that is too expensive to be repeated for each use."""
    return isinstance(node, OwnCall) or (isinstance(node, Call) and node.name in EXPENSIVE)
