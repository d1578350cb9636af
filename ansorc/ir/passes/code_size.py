"""Count the emitted statements and the executed stores of a statement."""

from __future__ import annotations

from typing import assert_never

from ansorc.ir.stmt import (
    Allocate,
    Await,
    Barrier,
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


def emitted_statements(stmt: Stmt) -> int:
    """Return the number of statements in the code: one for each copy and each vector."""
    match stmt:
        case Store() | Barrier() | Prefetch() | Await() | Check():
            return 1
        case For(_, extent, kind, body):
            copies = extent if kind is LoopKind.UNROLLED else 1
            vectors = -(-extent // _LANES) if kind is LoopKind.VECTORIZED else 1
            return copies * vectors * emitted_statements(body)
        case If(_, then, otherwise):
            other = 0 if otherwise is None else emitted_statements(otherwise)
            return emitted_statements(then) + other
        case Seq(stmts):
            return sum(map(emitted_statements, stmts))
        case Allocate(_, body):
            return emitted_statements(body)
        case _:
            assert_never(stmt)


def executed_stores(stmt: Stmt) -> int:
    """Return the number of elements that are stored; of each If the larger arm counts."""
    match stmt:
        case Store() | Barrier() | Prefetch() | Await() | Check():
            return 1
        case For(_, extent, _, body):
            return extent * executed_stores(body)
        case If(_, then, otherwise):
            other = 0 if otherwise is None else executed_stores(otherwise)
            return max(executed_stores(then), other)
        case Seq(stmts):
            return sum(map(executed_stores, stmts))
        case Allocate(_, body):
            return executed_stores(body)
        case _:
            assert_never(stmt)
