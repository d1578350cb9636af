"""Build the stores of one iteration of a stage: its value, or its results combined with a term."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dtype import DType
from ansorc.ir.expr import Const, Expr, Load, Var, const
from ansorc.ir.node import Node, rewrite
from ansorc.ir.stmt import Allocate, Seq, Stmt, Store
from ansorc.lang.compute_op import ComputeOp

_MOST_SCALARS = 8
"""Up to this many temporaries each have a scalar of their own."""


def stores(
    buffers: Sequence[Buffer], indices: tuple[Expr, ...], values: Sequence[Expr]
) -> list[Stmt]:
    """Return one store for each of `buffers`, all at `indices`."""
    return [Store(b, indices, value) for b, value in zip(buffers, values, strict=True)]


def update(
    op: ComputeOp, buffers: Sequence[Buffer], indices: tuple[Expr, ...], terms: Sequence[Expr]
) -> Stmt:
    """Return `buffers[indices] = combine(buffers[indices], terms)` for a reduction.

    If there are several results, all are computed into scalars before any is stored. Terms that
    are more than a load are held in scalars, too.

        for k:                           for k:
            best, at = combine(    ->        alloc best.new: float32[] local
                (best, at),                  best.new[] = …
                (A[k], k))                   at[] = …
                                             best[] = best.new[]
    """
    held = _Held()
    if len(buffers) > 1:
        terms = [held.term(b, t) for b, t in zip(buffers, terms, strict=True)]
    results = op.combine([Load(buffer, indices) for buffer in buffers], terms)
    *waiting, last = zip(buffers, results, strict=True)
    after = [Store(buffer, indices, held.scalar(buffer, "new", new)) for buffer, new in waiting]
    body = (*held.stmts, Store(last[0], indices, last[1]), *after)
    stmt: Stmt = body[0] if len(body) == 1 else Seq(body)
    for scalar in reversed(held.scalars):
        stmt = Allocate(scalar, stmt)
    return stmt


def with_temporaries(
    op: ComputeOp,
    values: Sequence[Expr],
    rest: Callable[[Callable[[Expr], Expr]], Sequence[Stmt]],
) -> Stmt:
    """Return statements that store the `values` of the temporaries of `op`, then those of `rest`.

    `rest` gets a function that makes an expression load the temporaries. Many temporaries of one
    dtype are elements of one array, so that there are not hundreds of nested allocations.
    """
    numbers: dict[DType, int] = {}
    slots: dict[str, tuple[DType, int]] = {}
    for temporary in op.temporaries:
        dtype = temporary.buffer.dtype
        slots[temporary.buffer.name] = dtype, numbers.get(dtype, 0)
        numbers[dtype] = numbers.get(dtype, 0) + 1
    arrays = {
        dtype: Buffer(f"{op.name}.held.{dtype}", (count,), dtype, Scope.LOCAL)
        for dtype, count in numbers.items()
    }
    is_many = len(op.temporaries) > _MOST_SCALARS

    def rule(node: Node) -> Node | None:
        if not is_many or not isinstance(node, Load) or node.buffer.name not in slots:
            return None
        dtype, number = slots[node.buffer.name]
        return Load(arrays[dtype], (const(number),))

    def load(expr: Expr) -> Expr:
        return rewrite(expr, rule) if is_many else expr

    stmts: list[Stmt] = []
    for temporary, value in zip(op.temporaries, values, strict=True):
        target = load(Load(temporary.buffer, ()))
        assert isinstance(target, Load)
        stmts.append(Store(target.buffer, target.indices, load(value)))
    stmts += rest(load)
    stmt: Stmt = stmts[0] if len(stmts) == 1 else Seq(tuple(stmts))
    scalars = [temporary.buffer for temporary in op.temporaries]
    for buffer in reversed([*arrays.values()] if is_many else scalars):
        stmt = Allocate(buffer, stmt)
    return stmt


class _Held:
    """Scalars, and the statements that store their values."""

    def __init__(self) -> None:
        self.scalars: list[Buffer] = []
        self.stmts: list[Stmt] = []

    def term(self, buffer: Buffer, term: Expr) -> Expr:
        """Return `term`, or a scalar that holds it if it takes more than a load."""
        is_plain = isinstance(term, Const | Var | Load)
        return term if is_plain else self.scalar(buffer, "term", term)

    def scalar(self, buffer: Buffer, suffix: str, value: Expr) -> Expr:
        """Return a load of a new scalar that holds `value`, with the type and name of `buffer`."""
        scalar = Buffer(f"{buffer.name}.{suffix}", (), buffer.dtype, Scope.LOCAL)
        self.scalars.append(scalar)
        self.stmts.append(Store(scalar, (), value))
        return Load(scalar, ())
