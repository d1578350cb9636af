"""What a warp asks of global memory, counted by brute force in a program that was made ready."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Binary, BinaryOp, Broadcast, Cast, Const, Expr, Load, Ramp, Var
from ansorc.ir.node import walk
from ansorc.ir.stmt import For, Function, LoopKind, Stmt, Store, substatements

SECTOR_BYTES = 32


@dataclass(frozen=True)
class CountedRequest:
    """One load or store in the text of a program."""

    buffer: str
    is_store: bool
    executed: int
    """How often one thread executes it."""
    sectors: int
    """That the first warp touches the first time."""


def counted_requests(function: Function, threads: int) -> Iterator[CountedRequest]:
    """Yield the accesses to the parameters of `function`, whose loops nothing guards."""
    params = {buffer.name for buffer in function.params}
    lanes = min(32, threads)
    for store, loops in _stores(function.body, ()):
        serial = [loop.extent for loop in loops if loop.kind is not LoopKind.BOUND]
        zeros = {loop.var.name: np.zeros(lanes, dtype=np.int64) for loop in loops}
        where = zeros | {
            loop.var.name: np.arange(lanes) for loop in loops if loop.thread == "threadIdx.x"
        }
        found = [node for node in walk(store.value) if isinstance(node, Load)]
        for access in (store, *found):
            if access.buffer.name in params:
                sectors = _sectors(access.buffer, access.indices, where)
                yield CountedRequest(
                    access.buffer.name, isinstance(access, Store), prod(serial), sectors
                )


def _stores(stmt: Stmt, loops: tuple[For, ...]) -> Iterator[tuple[Store, tuple[For, ...]]]:
    if isinstance(stmt, Store):
        yield stmt, loops
    inside = (*loops, stmt) if isinstance(stmt, For) else loops
    for part in substatements(stmt):
        yield from _stores(part, inside)


def _sectors(buffer: Buffer, indices: tuple[Expr, ...], where: Mapping[str, np.ndarray]) -> int:
    place = np.zeros((1, 1), dtype=np.int64)
    for index, extent in zip(indices, buffer.shape, strict=True):
        place = place * extent + _value(index, where)
    return len(np.unique(place * buffer.dtype.bytes // SECTOR_BYTES))


def _value(expr: Expr, where: Mapping[str, np.ndarray]) -> np.ndarray:
    """[threads, lanes]."""
    match expr:
        case Const(value):
            return np.full((1, 1), int(value))
        case Var(name):
            return where[name][:, None]
        case Ramp(base, stride, lanes):
            return _value(base, where) + _value(stride, where) * np.arange(lanes)[None, :]
        case Broadcast(operand) | Cast(_, operand):
            return _value(operand, where)
        case Binary(op, left, right):
            a, b = _value(left, where), _value(right, where)
            return {
                BinaryOp.ADD: a + b, BinaryOp.SUB: a - b, BinaryOp.MUL: a * b,
                BinaryOp.FLOORDIV: a // np.maximum(b, 1), BinaryOp.MOD: a % np.maximum(b, 1),
            }[op]  # fmt: skip
        case _:
            raise TypeError(type(expr).__name__)
