"""Check at the start of a kernel that inputs have their promised values.

check I[ramp(0, 1, 8)] >= broadcast(0, 8) and I[…] <= broadcast(9, 8), value_out_of_range, "I", …

An index that is inside because of a promise is then not checked where it is used. Promises of
floats are not checked: only the data that tuning draws depends on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ansorc.ir.arith.affine import integer
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import INT64
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Broadcast,
    Cast,
    Compare,
    CompareOp,
    Expr,
    Load,
    Ramp,
    Var,
    const,
    dtype_of,
)
from ansorc.ir.fault import FaultKind
from ansorc.ir.interpret_math import integer_range
from ansorc.ir.size_expr import loop_over, size_expr
from ansorc.ir.stmt import (
    Check,
    For,
    Function,
    If,
    LoopKind,
    Stmt,
    written_buffers,
)

_LANE_BYTES = 64
_THREADS = 256


def promise_checks(function: Function, *, has_threads: bool) -> list[Stmt]:
    """Return the checks of promises of integer inputs; `has_threads`: for a GPU."""
    stored = {buffer.name for buffer in written_buffers(function.body)}
    checked = [
        buffer
        for buffer in function.params
        if buffer.name not in stored and _says_something(buffer)
    ]
    if has_threads:
        return [_in_threads(buffer) for buffer in checked]
    return [part for buffer in checked for part in _in_lanes(buffer)]


def _says_something(buffer: Buffer) -> bool:
    if buffer.promised is None or not buffer.dtype.is_integer:
        return False
    low, high = integer_range(buffer.dtype)
    return buffer.promised[0] > low or buffer.promised[1] < high


def _in_lanes(buffer: Buffer) -> Iterator[Stmt]:
    """Yield loops over all elements: the last dimension in vectors, then the rest."""
    names = [Var(f"{buffer.name}.{d}") for d in range(len(buffer.shape))]
    if not names:
        yield _check(buffer, ())
        return
    outer, last = list(names[:-1]), names[-1]
    extent, lanes = buffer.extents[-1], _LANE_BYTES // buffer.dtype.bytes
    count, rest = extent // lanes, extent % lanes
    if count != 0:
        first: Expr = Binary(BinaryOp.MUL, last, integer(lanes))
        body = _check(buffer, (*outer, Ramp(first, integer(1), lanes)))
        yield _nest(buffer, outer, loop_over(last, count, body))
    if rest != 0:
        begin = size_expr(count * lanes)
        position: Expr = Binary(BinaryOp.ADD, last, begin) if count != 0 else last
        loop = loop_over(last, rest, _check(buffer, (*outer, position)))
        yield _nest(buffer, outer, loop)


def _nest(buffer: Buffer, outer: Sequence[Var], stmt: Stmt) -> Stmt:
    for variable, extent in reversed(list(zip(outer, buffer.extents, strict=False))):
        stmt = loop_over(variable, extent, stmt)
    return stmt


def _in_threads(buffer: Buffer) -> Stmt:
    """Return a grid of threads, each of which checks one element."""
    block, thread = Var(f"{buffer.name}.block"), Var(f"{buffer.name}.thread")
    total = math.prod(buffer.shape)
    number: Expr = Binary(BinaryOp.ADD, Binary(BinaryOp.MUL, block, integer(_THREADS)), thread)
    places: list[Expr] = []
    for extent, stride in zip(buffer.shape, buffer.strides, strict=True):
        quotient = Binary(BinaryOp.FLOORDIV, number, integer(stride)) if stride > 1 else number
        places.append(Binary(BinaryOp.MOD, quotient, integer(extent)))
    body: Stmt = _check(buffer, tuple(places))
    if total % _THREADS:
        body = If(Compare(CompareOp.LT, number, integer(total)), body)
    inner = For(thread, _THREADS, LoopKind.BOUND, body, "threadIdx.x")
    return For(block, -(-total // _THREADS), LoopKind.BOUND, inner, "blockIdx.x")


def _check(buffer: Buffer, places: tuple[Expr, ...]) -> Check:
    low, high = buffer.promised or (0, 0)
    value = Load(buffer, places)
    lanes = dtype_of(value).lanes
    tests: list[Expr] = []
    for op, end in ((CompareOp.GE, low), (CompareOp.LE, high)):
        literal: Expr = const(int(end), buffer.dtype)
        tests.append(Compare(op, value, Broadcast(literal, lanes) if lanes > 1 else literal))
    told: Expr = value if buffer.dtype == INT64 else Cast(INT64, value)
    args = told, integer(int(low)), integer(int(high))
    return Check(Binary(BinaryOp.AND, *tests), FaultKind.VALUE, buffer.name, args)
