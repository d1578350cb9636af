"""Stages whose terms go to places: the loops that store what they begin with, and atomic updates.

    H[256] = scatter of 1 at I[n]    ->    vectorized s in 0..256:
                                               H[s] = 0
                                           for n in 0..1000:
                                               H[I[n]] = H[I[n]] + 1

All results are stored before the first term comes, as a term may go to any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import BinaryOp, CompareOp, Expr, Var, binary, compare, const
from ansorc.ir.stmt import For, If, LoopKind, Stmt, Store
from ansorc.schedule.extent import IntArray
from ansorc.schedule.initial import initial_position
from ansorc.schedule.stage import AxisKind, Loop, Mark, Stage

_THREADS = 256
"""Threads of a block that stores identities."""


def start_of_results(stage: Stage, reduce: int) -> IntArray | int:
    """Return the position of the iterator of `stage` before which the identities are stored.

    `reduce` is that of its first reduction; see `initial_position`. A step may have chosen it.
    """
    chosen = stage.position(stage.initial) if stage.initial else None
    if chosen is not None:
        return chosen
    is_outside = stage.op.places or stage.op.ragged_axis is not None
    return reduce if is_outside else initial_position(stage.iterators, reduce)


def initial_loops(stage: Stage, start: int) -> Sequence[Loop]:
    """Return the loops over the results inside the first `start` iterators, outermost first.

    Loops over axes along which terms are scattered are among them; the last axis is in lanes.
    """
    space = [it for it in stage.iterators[start:] if it.kind is AxisKind.SPACE]
    if not stage.op.places:
        return space
    scattered = {place.axis for place in stage.op.places}
    last = stage.op.axes[-1].name
    loops = [
        Loop(
            axis.name, axis.extent, AxisKind.SPACE, axis.name,
            mark=Mark.VECTORIZE if axis.name == last and axis.extent > 1 else Mark.NONE,
        )
        for axis in stage.op.axes
        if axis.name in scattered
    ]  # fmt: skip
    return [*space, *loops] if last in scattered else [*loops, *space]


def adds_atomically(stage: Stage) -> bool:
    """Return whether several threads of a GPU bring terms of `stage` to the same results."""
    return bool(stage.op.places) and any(
        it.kind is AxisKind.REDUCE and it.mark is Mark.BIND for it in stage.iterators
    )


def store_identities(stage: Stage, buffers: Sequence[Buffer]) -> Stmt:
    """Return the kernel of a GPU that stores what atomic updates of `stage` begin with."""
    (buffer,), (identity,) = buffers, stage.op.identities
    block, thread = Var(f"{stage.name}.block"), Var(f"{stage.name}.thread")
    threads = min(_THREADS, buffer.elements)
    blocks = -(-buffer.elements // threads)
    place: Expr = block * threads + thread
    indices: list[Expr] = []
    for dimension, extent in enumerate(buffer.shape):
        inner = const(prod(buffer.shape[dimension + 1 :]))
        along = binary(BinaryOp.FLOORDIV, place, inner)
        indices.append(binary(BinaryOp.MOD, along, const(extent)) if dimension else along)
    stmt: Stmt = Store(buffer, tuple(indices), identity)
    if buffer.elements % threads:
        stmt = If(compare(CompareOp.LT, place, const(buffer.elements)), stmt)
    stmt = For(thread, threads, LoopKind.BOUND, stmt, "threadIdx.x")
    return For(block, blocks, LoopKind.BOUND, stmt, "blockIdx.x")
