"""Memory requests of each load and store of a kernel, from its indices: `requests_of`.

Indices are evaluated for the threads of warps, at sampled iterations of the loops around; what
depends on data is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ansorc.ir.arith.scalar import NUMPY_BINARY
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Broadcast,
    Compare,
    CompareOp,
    Const,
    Expr,
    Load,
    Not,
    Ramp,
    Select,
    Var,
    dtype_of,
)
from ansorc.ir.node import walk
from ansorc.ir.operator import BITWISE
from ansorc.ir.stmt import Allocate, For, Function, If, LoopKind, Seq, Stmt, Store
from ansorc.target.gpu import VECTOR_BYTES, WARP_THREADS
from ansorc.target.gpu_requests import BANK_BYTES, SECTOR_BYTES, count_shared_wavefronts, sectors

LaneValues = NDArray[np.int64]
_SAMPLES = 6
_MOST_STRAIGHT = 4096
"""Copies of a load in straight code that are looked at for neighbours."""
_INDICES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
_ARITHMETIC = {
    BinaryOp.ADD: np.add, BinaryOp.SUB: np.subtract, BinaryOp.MUL: np.multiply,
    BinaryOp.FLOORDIV: np.floor_divide, BinaryOp.MOD: np.mod, BinaryOp.MIN: np.minimum,
    BinaryOp.MAX: np.maximum, BinaryOp.AND: np.logical_and, BinaryOp.OR: np.logical_or,
    **{op: NUMPY_BINARY[op] for op in BITWISE},
}  # fmt: skip
_COMPARE = {
    CompareOp.LT: np.less, CompareOp.LE: np.less_equal, CompareOp.GT: np.greater,
    CompareOp.GE: np.greater_equal, CompareOp.EQ: np.equal, CompareOp.NE: np.not_equal,
}  # fmt: skip


@dataclass(frozen=True)
class MemoryRequest:
    """One load or store of a kernel, for warps at sampled iterations."""

    buffer: Buffer
    is_store: bool
    width: int
    """Bytes of a thread."""
    pieces: float
    """Sectors of global memory that a request touches, or cycles of the banks that it takes."""
    least: float
    """Sectors that would do for the bytes that it touches, or cycles where no two threads need
    different words of one bank at a time: more of them are bank conflicts."""


@dataclass(frozen=True)
class _Surroundings:
    loops: tuple[For, ...]
    conditions: tuple[Expr, ...]


def requests_of(function: Function) -> list[tuple[int, MemoryRequest]]:
    """Return the accesses of a prepared function to global and shared memory, in their order.

    The number says of which nest of the function, the first being 0.
    """
    requests: list[tuple[int, MemoryRequest]] = []
    for number, nest in enumerate(_nests(function.body)):
        seen: set[tuple[Buffer, tuple[Expr, ...], bool]] = set()
        for surroundings, part in _accesses(nest, _Surroundings((), ())):
            is_store = isinstance(part, Store)
            key = part.buffer, part.indices, is_store
            if key not in seen and part.buffer.scope in (Scope.GLOBAL, Scope.SHARED):
                seen.add(key)
                if request := _request(surroundings, part):
                    requests.append((number, request))
    return requests


def _nests(stmt: Stmt) -> Iterator[Stmt]:
    match stmt:
        case Seq(stmts):
            for part in stmts:
                yield from _nests(part)
        case Allocate(buffer, body) if buffer.scope is Scope.GLOBAL:
            yield from _nests(body)
        case _:
            yield stmt


def _accesses(
    stmt: Stmt, surroundings: _Surroundings
) -> Iterator[tuple[_Surroundings, Load | Store]]:
    match stmt:
        case For(body=body):
            yield from _accesses(
                body, _Surroundings((*surroundings.loops, stmt), surroundings.conditions)
            )
        case Seq(stmts):
            for part in stmts:
                yield from _accesses(part, surroundings)
        case Allocate(_, body):
            yield from _accesses(body, surroundings)
        case If(condition, then, otherwise):
            yield from ((surroundings, part) for part in walk(condition) if isinstance(part, Load))
            inside = surroundings
            if dtype_of(condition).lanes == 1:
                inside = _Surroundings(surroundings.loops, (*surroundings.conditions, condition))
            yield from _accesses(then, inside)
            if otherwise is not None:
                yield from _accesses(otherwise, surroundings)
        case Store(value=value):
            for part in walk(value):
                if isinstance(part, Load):
                    yield surroundings, part
            yield surroundings, stmt
        case _:
            pass


def _request(surroundings: _Surroundings, part: Load | Store) -> MemoryRequest | None:
    """Return what is asked at the sampled iterations, the mean; None if it depends on data."""
    lanes = max((dtype_of(index).lanes for index in part.indices), default=1)
    values = _iterations(surroundings.loops)
    try:
        if part.buffer.scope is Scope.SHARED and lanes == 1 and isinstance(part, Load):
            lanes, values = _join_loads(part, surroundings.loops, values)
        elements = _elements(part, values)
        active = np.ones(values[""].shape, bool)
        for condition in surroundings.conditions:
            active = active & _value(condition, values).astype(bool)
    except LookupError:
        return None
    size = part.buffer.dtype.bytes
    addresses = np.broadcast_to(elements, active.shape) * size
    width = lanes * size
    is_vector = width <= VECTOR_BYTES and not (addresses % width).any()
    width = width if is_vector else size
    some = active.any(axis=-1)
    if not some.any():
        return None
    addresses, active = addresses[some], active[some]
    first = np.take_along_axis(addresses, active.argmax(axis=-1)[:, None], axis=-1)
    addresses = np.where(active, addresses, first)
    distinct = np.array([len(np.unique(row)) for row in addresses]) * width
    is_shared = part.buffer.scope is Scope.SHARED
    count = count_shared_wavefronts(addresses, width) if is_shared else sectors(addresses, width)
    least = (
        np.minimum(count, max(1, width // BANK_BYTES))
        if is_shared
        else np.ceil(distinct / SECTOR_BYTES)
    )
    is_store = isinstance(part, Store)
    return MemoryRequest(part.buffer, is_store, width, float(count.mean()), float(least.mean()))


def _elements(part: Load | Store, values: Mapping[str, LaneValues]) -> LaneValues:
    terms = zip(part.indices, part.buffer.strides, strict=True)
    return np.asarray(sum((_value(i, values) * stride for i, stride in terms), np.int64(0)))


def _join_loads(
    load: Load, loops: tuple[For, ...], values: Mapping[str, LaneValues]
) -> tuple[int, Mapping[str, LaneValues]]:
    """How many neighbours NVIDIA's compiler loads at once, and where the first of them is loaded.

    Those that a thread loads in straight code, and that are a whole aligned vector, it does.
    """
    straight = [loop for loop in loops if loop.kind is LoopKind.UNROLLED]
    copies = prod(loop.extent for loop in straight)
    if not straight or copies > _MOST_STRAIGHT:
        return 1, values
    grid = np.indices([loop.extent for loop in straight]).reshape(len(straight), -1)
    size, shape = load.buffer.dtype.bytes, (*values[""].shape, 1)
    each = {name: np.broadcast_to(x, values[""].shape)[..., None] for name, x in values.items()}
    each |= {loop.var.name: at for loop, at in zip(straight, grid, strict=True)}
    places = np.broadcast_to(_elements(load, each), (*shape[:2], copies)) * size
    for width in (VECTOR_BYTES, VECTOR_BYTES // 2):
        count = width // size
        slots, first = np.unique(places[0, 0] // width, return_index=True)
        moves = places - places[..., :1]
        is_same = (moves == moves[:1, :1]).all() and (
            places[..., 0] % width == places[0, 0, 0] % width
        ).all()
        if count > 1 and is_same and len(np.unique(places[0, 0])) == count * len(slots):
            start = places[0, 0, first] - places[0, 0, first] % width
            lead = [int(np.flatnonzero(places[0, 0] == x)[0]) for x in start]
            chosen = np.random.default_rng(1).choice(lead, len(values[""]))[:, None]
            first_iterations = {
                loop.var.name: at[chosen] for loop, at in zip(straight, grid, strict=True)
            }
            return count, {**values, **first_iterations}
    return 1, values


def _iterations(loops: tuple[For, ...]) -> Mapping[str, LaneValues]:
    """The variables of the loops for each lane of warps: [samples, 32]; "" has that shape."""
    rng = np.random.default_rng(0)
    bound = {loop.thread: loop.extent for loop in loops if loop.kind is LoopKind.BOUND}
    extents = [bound.get(index, 1) for index in _INDICES]
    threads = np.arange(int(np.prod(extents)))
    warps = [
        threads[start : start + WARP_THREADS] for start in range(0, len(threads), WARP_THREADS)
    ]
    rows = [np.resize(warp, WARP_THREADS) for warp in warps for _ in range(_SAMPLES)]
    lanes = np.array(rows, np.int64)
    variables: dict[str, LaneValues] = {"": lanes}
    x, y, _ = extents
    places = dict(zip(_INDICES, (lanes % x, lanes // x % y, lanes // (x * y)), strict=True))
    for loop in loops:
        if loop.kind is LoopKind.BOUND and loop.thread in places:
            variables[loop.var.name] = places[loop.thread]
        else:
            variables[loop.var.name] = rng.integers(0, loop.extent, (len(lanes), 1))
    return variables


def _value(expr: Expr, values: Mapping[str, LaneValues]) -> LaneValues:
    """The value for each lane, of a vector its first; raise LookupError if it depends on data."""
    match expr:
        case Const(value):
            return np.asarray(int(value))
        case Var(name):
            return values[name]
        case Ramp(base) | Broadcast(base):
            return _value(base, values)
        case Binary(op, left, right) if op in _ARITHMETIC:
            return _ARITHMETIC[op](_value(left, values), _value(right, values))
        case Compare(op, left, right):
            return _COMPARE[op](_value(left, values), _value(right, values))
        case Not(operand):
            return np.logical_not(_value(operand, values))
        case Select(condition, then, otherwise):
            chosen = _value(condition, values)
            return np.where(chosen, _value(then, values), _value(otherwise, values))
        case _:
            raise LookupError(type(expr).__name__)
