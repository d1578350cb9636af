"""A stage whose loops are being built, and the values of its axes in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Binary, Expr, Var, binary, const
from ansorc.ir.expr import BinaryOp as Op
from ansorc.schedule.memory import memory_indices
from ansorc.schedule.stage import AxisKind, Mark, Stage
from ansorc.schedule.values import SplitPredicate, iterator_values, plus


@dataclass
class Placed:
    """A stage whose loops are being built: its loop variables, and the start of its region."""

    stage: Stage
    buffers: tuple[Buffer, ...]
    lows: tuple[Expr, ...]
    """The first index computed along each space axis; literal 0 for a whole tensor."""
    leaves: dict[str, Expr]


def axis_values_of(
    placed: Placed, leaves: Mapping[str, Expr]
) -> tuple[dict[str, Expr], list[SplitPredicate]]:
    """Return the values of the axes for the `leaves` of the loops, and the guards of splits."""
    values, guards = iterator_values(placed.stage, leaves)
    scan = placed.stage.op.scan
    for axis, low in zip(placed.stage.op.axes, placed.lows, strict=True):
        values[axis.name] = plus(low, values[axis.name])
        if scan is not None and scan.is_reversed and axis.name == scan.axis:
            values[axis.name] = binary(Op.SUB, const(axis.extent - 1), values[axis.name])
    return values, guards


def indices_in_memory(placed: Placed, indices: Sequence[Expr]) -> tuple[Expr, ...]:
    """Return the indices in memory of the element at `indices` of the tensor."""
    stage, box = placed.stage, list[Expr]()
    for axis, index, low in zip(stage.op.axes, indices, placed.lows, strict=True):
        is_turned = stage.ring is not None and stage.ring.axis == axis.name
        box.append(index if is_turned else minus(index, low))
    return memory_indices(stage, tuple(box))


def minus(value: Expr, low: Expr) -> Expr:
    """Return `value - low`, without what was just added."""
    if low == const(0):
        return value
    if isinstance(value, Binary) and value.op is Op.ADD and value.left is low:
        return value.right
    return binary(Op.SUB, value, low)


def is_at_once(placed: Placed) -> bool:
    """Return whether threads reduce all terms together, one term each."""
    reduce = [it for it in placed.stage.iterators if it.kind is AxisKind.REDUCE]
    moving = [it for it in reduce if isinstance(placed.leaves[it.name], Var)]
    return len(moving) == 1 and moving[0].mark is Mark.BIND
