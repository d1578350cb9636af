"""Count the emitted statements and the executed stores of a statement."""

from __future__ import annotations

from typing import assert_never

from ansorc.ir.stmt import (
    Allocate,
    Await,
    Barrier,
    CallC,
    Check,
    For,
    If,
    LoopKind,
    Prefetch,
    Seq,
    Stmt,
    Store,
)

_LANES = 16
"""The elements of a vectorised loop that count as one statement."""


def count_statements(stmt: Stmt) -> int:
    """Return the number of statements in the code: one for each copy and each vector."""
    match stmt:
        case Store() | Barrier() | Prefetch() | Await() | Check() | CallC():
            return 1
        case For(_, extent, kind, body):
            copies = extent if kind is LoopKind.UNROLLED else 1
            vectors = -(-extent // _LANES) if kind is LoopKind.VECTORIZED else 1
            return copies * vectors * count_statements(body)
        case If(_, then, otherwise):
            other = 0 if otherwise is None else count_statements(otherwise)
            return count_statements(then) + other
        case Seq(stmts):
            return sum(map(count_statements, stmts))
        case Allocate(_, body):
            return count_statements(body)
        case _:
            assert_never(stmt)


def count_stores(stmt: Stmt) -> int:
    """Return the number of elements that are stored; of each If the larger arm counts."""
    match stmt:
        case Store() | Barrier() | Prefetch() | Await() | Check() | CallC():
            return 1
        case For(_, extent, _, body):
            return extent * count_stores(body)
        case If(_, then, otherwise):
            other = 0 if otherwise is None else count_stores(otherwise)
            return max(count_stores(then), other)
        case Seq(stmts):
            return sum(map(count_stores, stmts))
        case Allocate(_, body):
            return count_stores(body)
        case _:
            assert_never(stmt)
