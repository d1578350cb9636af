"""What a warp asks of global memory, counted by brute force in a program that was made ready."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Binary, BinaryOp, Broadcast, Cast, Const, Expr, Load, Ramp, Var
from ansorc.ir.node import walk
from ansorc.ir.passes.gpu.elements import evaluate
from ansorc.ir.stmt import For, Function, If, LoopKind, Stmt, Store, substatements
from ansorc.ir.substitute import free_vars

SECTOR_BYTES = 32


@dataclass(frozen=True)
class CountedRequest:
    """One load or store in the text of a program."""

    buffer: str
    is_store: bool
    executed: float
    """How often a warp executes it, in the mean of those of the first block."""
    sectors: int
    """That the first warp touches the first time."""


def counted_requests(function: Function, threads: int) -> Iterator[CountedRequest]:
    """Yield the accesses to the parameters of `function`."""
    params = {buffer.name for buffer in function.params}
    lanes = min(32, threads)
    for store, loops, conditions in stores_of(function.body):
        zeros = {loop.var.name: np.zeros(lanes, dtype=np.int64) for loop in loops}
        where = zeros | {
            loop.var.name: np.arange(lanes) for loop in loops if loop.thread == "threadIdx.x"
        }
        is_active = np.ones(lanes, dtype=bool)
        for condition in conditions:
            value = evaluate(condition, where)
            assert value is not None
            is_active &= value.astype(bool)
        active = {name: values[is_active] for name, values in where.items()}
        loads = [node for node in walk(store.value) if isinstance(node, Load)]
        for access in (store, *loads):
            if access.buffer.name in params:
                sectors = _sectors(access.buffer, access.indices, active)
                yield CountedRequest(
                    access.buffer.name, isinstance(access, Store),
                    executed(loops, conditions), sectors,
                )  # fmt: skip


def stores_of(
    stmt: Stmt, loops: tuple[For, ...] = (), conditions: tuple[Expr, ...] = ()
) -> Iterator[tuple[Store, tuple[For, ...], tuple[Expr, ...]]]:
    """Yield the stores, with the loops around each and the conditions that it is under."""
    if isinstance(stmt, Store):
        yield stmt, loops, conditions
    inside = (*loops, stmt) if isinstance(stmt, For) else loops
    under = (*conditions, stmt.condition) if isinstance(stmt, If) else conditions
    for part in substatements(stmt):
        yield from stores_of(part, inside, under)


def executed(loops: Sequence[For], conditions: Sequence[Expr]) -> float:
    """Return how often a warp of the first block executes a statement, in the mean.

    Every thread is looked at, in all iterations of the loops that a condition depends on.
    """
    names = {name for condition in conditions for name in free_vars(condition)}
    serial = [loop for loop in loops if loop.kind is not LoopKind.BOUND]
    asked = [loop for loop in serial if loop.var.name in names]
    others = prod(loop.extent for loop in serial if loop.var.name not in names)
    (thread,) = (loop for loop in loops if loop.thread == "threadIdx.x")
    shape = [*(loop.extent for loop in asked), thread.extent]
    grid = dict(zip([x.var.name for x in (*asked, thread)], np.indices(shape), strict=True))
    grid |= {x.var.name: np.zeros(shape, np.int64) for x in loops if "blockIdx" in x.thread}
    happens = np.ones(shape, dtype=bool)
    for condition in conditions:
        value = evaluate(condition, grid)
        assert value is not None
        happens &= value.astype(bool)
    warps = [happens[..., n : n + 32].any(axis=-1) for n in range(0, thread.extent, 32)]
    return others * float(np.mean([warp.sum() for warp in warps]))


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
