"""Loops of a stage as loops of the program."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from ansorc.errors import ArgumentError
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Binary, BinaryOp, Expr, Var, const
from ansorc.ir.size_expr import size_expr
from ansorc.ir.stmt import Allocate, For, If, LoopKind, Seq, Stmt
from ansorc.schedule.stage import Loop, Mark, Stage
from ansorc.schedule.values import as_int

_KINDS = {
    Mark.NONE: LoopKind.SERIAL,
    Mark.PARALLEL: LoopKind.PARALLEL,
    Mark.VECTORIZE: LoopKind.VECTORIZED,
    Mark.UNROLL: LoopKind.UNROLLED,
    Mark.BIND: LoopKind.BOUND,
    Mark.MATRIX: LoopKind.MATRIX,
}


def loop_of(iterator: Loop, var: Expr, body: Stmt, *, is_unrolled: bool, stages: int = 0) -> Stmt:
    """Return `body` in the loop of an iterator whose variable is `var`."""
    if not isinstance(var, Var) or iterator.mark is Mark.TENSORIZE:
        return body
    kind = LoopKind.UNROLLED if is_unrolled else _KINDS[iterator.mark]
    stages = stages if kind is LoopKind.SERIAL and stages > 1 else 0
    if iterator.size is not None:
        return _loop_of_size(iterator, var, body)
    return For(var, as_int(iterator.extent), kind, body, iterator.thread, iterator.chunk, stages)


def _loop_of_size(iterator: Loop, var: Var, body: Stmt) -> Stmt:
    """Return `body` in a loop whose extent the caller gives."""
    assert iterator.size is not None
    if iterator.mark not in (Mark.NONE, Mark.PARALLEL, Mark.UNROLL, Mark.VECTORIZE):
        raise ArgumentError(
            f"the loop '{iterator.name}' is marked {iterator.mark.value}, and its extent "
            f"{iterator.size} is known only when the kernel is called: split it, and mark the "
            "inner part"
        )
    kind = {
        Mark.PARALLEL: LoopKind.PARALLEL,
        Mark.VECTORIZE: LoopKind.VECTORIZED,
    }.get(iterator.mark, LoopKind.RAGGED)
    chunk = iterator.chunk if kind is LoopKind.PARALLEL else 0
    end = size_expr(iterator.size)
    return For(var, as_int(iterator.extent), kind, body, chunk=chunk, begin=const(0), end=end)


def starts_threads(iterator: Loop) -> bool:
    """Return whether threads run the iterations of a loop."""
    return iterator.mark is Mark.BIND or (iterator.mark is Mark.PARALLEL and iterator.extent != 1)


def stages_ahead(stage: Stage, inside: Sequence[Stage]) -> int:
    """Return how many iterations ahead the stages `inside` a loop of `stage` are copied."""
    is_shared = any(inner.scope == "shared" for inner in inside)
    return dict(stage.pragmas).get("async_stages", 0) if is_shared else 0


def under(conditions: Sequence[Expr], stmt: Stmt) -> Stmt:
    """Return `stmt` under all of `conditions`."""
    return If(reduce(partial(Binary, BinaryOp.AND), conditions), stmt) if conditions else stmt


def allocated(buffers: Sequence[Buffer], stmt: Stmt) -> Stmt:
    """Return `stmt` with the memory of `buffers` around it, the first one outermost."""
    return reduce(lambda inner, buffer: Allocate(buffer, inner), reversed(buffers), stmt)


def sequence(*stmts: Stmt) -> Stmt:
    """Return the statements one after the other; a single one as it is."""
    return stmts[0] if len(stmts) == 1 else Seq(stmts)
