"""Lower reductions whose loop is bound to GPU threads: combine partial results across a block.

bound threadIdx.x k in 0..64:            bound threadIdx.x k in 0..64:
    C[] = C[] + A[k]                         C.part[] = A[k]
                                             C.other[] = shuffle(C.part[], 16)
                                  ->         C.part[] = C.part[] + C.other[]
                                             …
                                             if k % 32 == 0:
                                                 C.warps[k // 32] = C.part[]
                                             C.part[] = (C.warps[k % 32] if k % 32 < 2 else 0.0)
                                             …
                                             if k == 0:
                                                 C[] = C[] + C.part[]

Within a warp, threads exchange values by shuffles; warps exchange them through shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import CompareOp, Expr, Load, Select, Shuffle, Var, compare, const
from ansorc.ir.stmt import Allocate, If, Seq, Stmt, Store
from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.update import stores, update
from ansorc.schedule.extent import Extent
from ansorc.schedule.placed import Placed
from ansorc.schedule.stage import AxisKind, Mark
from ansorc.schedule.values import as_int
from ansorc.target.gpu import WARP_THREADS

_MOST_THREADS = 1024


def unfit_threads(extent: Extent) -> str:
    """Return why a reduction cannot be bound to `extent` threads; "" if it can or is unknown."""
    if not isinstance(extent, int):
        return ""
    is_part = extent <= WARP_THREADS and not extent & (extent - 1)
    if is_part or (extent % WARP_THREADS == 0 and extent <= _MOST_THREADS):
        return ""
    return (
        f"threads that reduce together are a power of two up to {WARP_THREADS}, or a multiple of "
        f"it up to {_MOST_THREADS}, not {extent}"
    )


@dataclass(frozen=True)
class ThreadRow:
    """The threads that reduce together, and the other threads of the block."""

    var: Var
    extent: int
    others: Mapping[str, int]
    """The loops over threads around the row: each of their iterations has its own row."""


def find_thread_row(placed: Placed, threads: Mapping[str, tuple[str, int]]) -> ThreadRow | None:
    """Return the threads that a reduction of the stage is bound to, if one is.

    `threads` gives the variable and the extent of each loop over threads around it.
    """
    for iterator in placed.stage.iterators:
        var = placed.leaves[iterator.name]
        is_bound = (
            not placed.stage.op.places
            and iterator.mark is Mark.BIND
            and iterator.kind is AxisKind.REDUCE
        )
        if is_bound and isinstance(var, Var):
            others = {n: e for thread, (n, e) in threads.items() if thread != "threadIdx.x"}
            return ThreadRow(var, as_int(iterator.extent), others)
    return None


def reduce_across(
    op: ComputeOp,
    row: ThreadRow,
    terms: Sequence[Expr],
    finish: Callable[[Sequence[Expr]], Stmt],
) -> Stmt:
    """Return statements that combine the `terms` of all threads of `row`.

    The first thread then runs `finish`. A thread without a term has the identity instead.
    """
    local = [_scalar(buffer, "part") for buffer in op.buffers]
    other = [_scalar(buffer, "other") for buffer in op.buffers]
    stmts = stores(local, (), terms) + _exchange(op, local, other, min(row.extent, WARP_THREADS))
    warps: list[Buffer] = []
    if row.extent > WARP_THREADS:
        count = row.extent // WARP_THREADS
        shape = (*row.others.values(), count)
        rows = tuple(Var(name) for name in row.others)
        warps = [
            replace(b, name=f"{b.name}.warps", shape=shape, scope=Scope.SHARED) for b in op.buffers
        ]
        lane, warp = row.var % const(WARP_THREADS), row.var // const(WARP_THREADS)
        held = [Load(buffer, ()) for buffer in local]
        first_lane = compare(CompareOp.EQ, lane, const(0))
        stmts.append(If(first_lane, Seq(tuple(stores(warps, (*rows, warp), held)))))
        partial = [
            Select(compare(CompareOp.LT, lane, const(count)), Load(b, (*rows, lane)), identity)
            for b, identity in zip(warps, op.identities, strict=True)
        ]
        stmts += stores(local, (), partial)
        stmts += _exchange(op, local, other, 1 << (count - 1).bit_length())
    first = compare(CompareOp.EQ, row.var, const(0))
    stmts.append(If(first, finish([Load(buffer, ()) for buffer in local])))
    body: Stmt = Seq(tuple(stmts))
    for buffer in (*local, *other, *warps):
        body = Allocate(buffer, body)
    return body


def _exchange(
    op: ComputeOp, local: Sequence[Buffer], other: Sequence[Buffer], threads: int
) -> list[Stmt]:
    """Return statements after which each of `threads` neighbours holds their combination."""
    stmts: list[Stmt] = []
    distance = threads // 2
    while distance:
        stmts += [
            Store(theirs, (), Shuffle(Load(mine, ()), distance))
            for mine, theirs in zip(local, other, strict=True)
        ]
        stmts.append(update(op, local, (), [Load(buffer, ()) for buffer in other]))
        distance //= 2
    return stmts


def _scalar(buffer: Buffer, suffix: str) -> Buffer:
    return Buffer(f"{buffer.name}.{suffix}", (), buffer.dtype, Scope.LOCAL)
