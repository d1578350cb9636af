"""Copy data of later iterations to shared memory while the current iteration computes.

for k in 0..8 stages 3:                 alloc S: float32[3, 64] shared
    alloc S: float32[64] shared         for p in 0..2:
    S[t] = A[k, t]                          await 2
    C[0] = C[0] + S[63 - t]      ->         async S[p % 3, t] = A[p, t]
                                        for k in 0..8:
                                            await 1
                                            barrier shared
                                            if k + 2 < 8:
                                                async S[(k + 2) % 3, t] = A[k + 2, t]
                                            C[0] = C[0] + S[k % 3, 63 - t]

One barrier in each iteration is enough: after it, all threads have finished with the part of S that
is stored next, and see the copies that were awaited before it. If the GPU has no asynchronous
copies, or a value is computed, registers of the thread hold the elements until it has computed.

Other copies are made asynchronous, too, and all are begun before the first is awaited: in a loop a
thread would wait for each load before its store. A few unconditional loads are left as they are:
the compiler begins them before the barrier, while threads still compute.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, takewhile
from math import prod

from ansorc.ir.arith.affine import integer
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import BinaryOp, CompareOp, Const, Expr, Load, Select, Var, binary, compare
from ansorc.ir.node import Node, rewrite, walk
from ansorc.ir.passes.gpu.thread_nests import map_kernels
from ansorc.ir.stmt import (
    Allocate,
    Await,
    Barrier,
    For,
    Function,
    If,
    LoopKind,
    Seq,
    Stmt,
    Store,
    map_substatements,
    statements,
)
from ansorc.ir.substitute import substitute
from ansorc.target.code_facts import ASYNC_COPY_BYTES

_FEW_COPIES = 16
"""Up to this many copies of a thread are 2 to 4 % slower if they are asynchronous; more copies are
1.0 to 3 times as fast (140 programs on an H200)."""
_MOST_REGISTERS = 64
"""The most registers of 4 bytes that may hold elements of one copy."""


def pipeline_shared_copies(function: Function, *, has_async: bool) -> Function:
    """Return `function`, with kernels in normal form, without stages of loops.

    `has_async` is whether the GPU has asynchronous copies, as from sm_80 on.
    """
    body = map_kernels(function.body, lambda nest: _in_kernel(nest, has_async=has_async))
    return function if body is function.body else replace(function, body=body)


def _in_kernel(nest: Stmt, *, has_async: bool) -> Stmt:
    stored = {store.buffer.name for store in _stores(nest)}
    if any(isinstance(part, For) and part.stages for part in statements(nest)):
        nest = _with_stages(nest, stored, has_async=has_async)
    return _begun_together(nest, stored) if has_async else nest


def _begun_together(stmt: Stmt, stored: set[str]) -> Stmt:
    """Return `stmt` with one wait after consecutive copies instead of one in each of them."""
    parts, changed = stmt.stmts if isinstance(stmt, Seq) else (stmt,), list[Stmt]()
    for is_copy, group in groupby(parts, lambda part: _is_begun_alone(part, stored)):
        copies = list(group)
        if is_copy and _is_long(copies):
            changed += [_SharedCopy(part, has_async=True).whole() for part in copies]
            changed.append(Await(0))
        elif is_copy:
            changed += copies
        elif len(parts) > 1:
            changed += [_begun_together(part, stored) for part in copies]
        else:
            return map_substatements(stmt, lambda part: _begun_together(part, stored))
    return Seq(tuple(changed))


def _is_long(copies: Sequence[Stmt]) -> bool:
    """Return whether a thread would wait for the loads of `copies`: for tests, or their number."""
    if any(isinstance(part, If | Select) for copy in copies for part in walk(copy)):
        return True
    loops = [loops for copy in copies for _, loops in _with_loops(copy, ())]
    serial = [
        [loop_.extent for loop_ in each if loop_.kind is not LoopKind.VECTORIZED] for each in loops
    ]
    return sum(map(prod, serial)) > _FEW_COPIES


def _is_begun_alone(stmt: Stmt, stored: set[str]) -> bool:
    """Return whether `stmt` fills shared memory by stores that can become asynchronous."""
    if any(store.is_async or store.buffer.scope is not Scope.SHARED for store in _stores(stmt)):
        return False
    filled = {store.buffer.name for store in _stores(stmt)}
    return _is_copy(stmt, filled, stored) and _SharedCopy(stmt, has_async=True).is_async


def _with_stages(nest: Stmt, stored: set[str], *, has_async: bool) -> Stmt:

    def visit(stmt: Stmt) -> Stmt:
        new = map_substatements(stmt, visit)
        if not isinstance(new, For) or not new.stages:
            return new
        return _Overlap(new, stored, has_async=has_async).result()

    return visit(nest)


class _Overlap:
    """One loop with stages: builds its prologue and its new body."""

    def __init__(self, loop: For, stored: set[str], *, has_async: bool) -> None:
        self._loop = loop
        self._stages = min(loop.stages, loop.extent)
        self._allocated, parts = _split_allocations(loop.body)
        shared = {b.name: b for b in self._allocated if b.scope is Scope.SHARED}
        copies = list(takewhile(lambda part: _is_copy(part, shared.keys(), stored), parts))
        self._rest = parts[len(copies) :]
        filled = {part.buffer.name for copy in copies for part in _stores(copy)}
        late = {part.buffer.name for rest in self._rest for part in _stores(rest)}
        is_fit = self._stages > 1 and bool(copies) and not filled & late
        self._buffers = {
            name: replace(shared[name], shape=(self._stages, *shared[name].shape))
            for name in (sorted(filled) if is_fit else ())
        }
        self._copies = [
            _SharedCopy(self._in_slots(copy), has_async=has_async) for copy in copies if is_fit
        ]

    def result(self) -> Stmt:
        """Return the new loop; the old one, without stages, if nothing can be copied ahead."""
        if not self._copies:
            return replace(self._loop, stages=0)
        var, extent, ahead = self._loop.var, self._loop.extent, self._stages - 1
        is_async = any(copy.is_async for copy in self._copies)
        later = binary(BinaryOp.ADD, var, integer(ahead))
        there_is = compare(CompareOp.LT, later, integer(extent))
        body: list[Stmt] = [Await(self._stages - 2)] if is_async else []
        body += [
            Barrier(Scope.SHARED),
            If(there_is, self._at(later, [copy.begin() for copy in self._copies])),
            *(self._in_slots(part) for part in self._rest),
        ]
        ends = [end for copy in self._copies for end in copy.end()]
        body += [If(there_is, self._at(later, ends))] if ends else []
        stmt: Stmt = Seq(tuple(body))
        for buffer in reversed(self._allocated):
            stmt = stmt if buffer.name in self._buffers else Allocate(buffer, stmt)
        main = replace(self._loop, body=stmt, stages=0)
        stmt = Seq((self._first(ahead, is_async=is_async), main))
        held = [buffer for copy in self._copies for buffer in copy.registers.values()]
        for buffer in (*held, *self._buffers.values()):
            stmt = Allocate(buffer, stmt)
        return stmt

    def _first(self, count: int, *, is_async: bool) -> Stmt:
        """Return the copies for the first `count` iterations, each but the last as a group."""
        var = Var(f"{self._loop.var.name}.first")
        copies = [copy.whole() for copy in self._copies]
        waiting: list[Stmt] = [Await(count)] if is_async and count > 1 else []
        return For(var, count, LoopKind.UNROLLED, Seq((*waiting, self._at(var, copies))))

    def _at(self, iteration: Expr, parts: Sequence[Stmt]) -> Stmt:
        """Return `parts` for the iteration `iteration`."""
        return substitute(Seq(tuple(parts)), {self._loop.var.name: iteration})

    def _in_slots(self, stmt: Stmt) -> Stmt:
        """Return `stmt` with buffers replaced by the slot of the iteration."""
        slot = binary(BinaryOp.MOD, self._loop.var, integer(self._stages))

        def rule(old: Node) -> Node | None:
            match old:
                case Load(buffer, indices) | Store(buffer, indices) if buffer.name in self._buffers:
                    return replace(old, buffer=self._buffers[buffer.name], indices=(slot, *indices))
                case _:
                    return None

        return rewrite(stmt, rule)


@dataclass
class _SharedCopy:
    """The statements that fill a shared buffer, at once or in two parts."""

    stmt: Stmt
    has_async: bool
    registers: dict[int, Buffer] = field(default_factory=dict[int, Buffer])
    """The registers that hold the value of each store between the two parts."""
    loops: dict[int, tuple[For, ...]] = field(default_factory=dict[int, "tuple[For, ...]"])

    def __post_init__(self) -> None:
        self.loops = {id(store): loops for store, loops in _with_loops(self.stmt, ())}
        stores = list(_stores(self.stmt))
        self.is_async = self.has_async and all(self._fits(store) for store in stores)
        if self.is_async:
            return
        for number, store in enumerate(stores):
            name = f"{store.buffer.name}.ahead" + (f".{number}" if number else "")
            shape = tuple(loop.extent for loop in self.loops[id(store)])
            self.registers[id(store)] = Buffer(name, shape, store.buffer.dtype, Scope.LOCAL)
        if sum(-(-buffer.bytes // 4) for buffer in self.registers.values()) > _MOST_REGISTERS:
            self.registers = {}

    def whole(self) -> Stmt:
        """Return the copies, asynchronous if possible."""
        return _with_stores(self.stmt, lambda old: replace(old, is_async=self.is_async))

    def begin(self) -> Stmt:
        """Return the statements to run as early as possible."""
        if not self.registers:
            return self.whole()
        return _with_stores(
            self.stmt, lambda old: replace(old, buffer=self._hold(old), indices=self._place(old))
        )

    def end(self) -> list[Stmt]:
        """Return the statements to run after the iteration has computed."""
        if not self.registers:
            return []
        return [
            _with_stores(
                self.stmt, lambda old: replace(old, value=Load(self._hold(old), self._place(old)))
            )
        ]

    def _hold(self, store: Store) -> Buffer:
        return self.registers[id(store)]

    def _place(self, store: Store) -> tuple[Expr, ...]:
        return tuple(loop.var for loop in self.loops[id(store)])

    def _fits(self, store: Store) -> bool:
        """Return whether one instruction can copy the elements that the store moves."""
        inner = self.loops[id(store)][-1:]
        lanes = [loop.extent for loop in inner if loop.kind is LoopKind.VECTORIZED]
        size = store.buffer.dtype.bytes * sum(lanes or [1])
        return is_copy(store.value) and size in ASYNC_COPY_BYTES


def is_copy(value: Expr) -> bool:
    """Return whether `value` is an element of a tensor, or 0 under a condition."""
    if isinstance(value, Select) and isinstance(value.otherwise, Const):
        value = value.then if value.otherwise.value == 0 else value
    return isinstance(value, Load)


def _split_allocations(stmt: Stmt) -> tuple[list[Buffer], list[Stmt]]:
    """Return the leading allocations of a body, and its statements."""
    match stmt:
        case Allocate(buffer, body):
            buffers, parts = _split_allocations(body)
            return [buffer, *buffers], parts
        case Seq(stmts):
            parts: list[Stmt] = []
            for part in stmts:
                parts += _split_allocations(part)[1] if isinstance(part, Seq) else [part]
            return [], parts
        case _:
            return [], [stmt]


def _is_copy(stmt: Stmt, filled: Collection[str], stored: set[str]) -> bool:
    """Return whether `stmt` only fills buffers `filled`, from buffers that are not `stored`."""
    if any(isinstance(part, Barrier | Await | Allocate) for part in statements(stmt)):
        return False
    loads = [part for part in walk(stmt) if isinstance(part, Load)]
    stores = list(_stores(stmt))
    return (
        bool(stores)
        and all(store.buffer.name in filled for store in stores)
        and all(load.buffer.scope is Scope.GLOBAL for load in loads)
        and not any(load.buffer.name in stored for load in loads)
    )


def _stores(stmt: Stmt) -> Iterator[Store]:
    return (part for part in statements(stmt) if isinstance(part, Store))


def _with_loops(stmt: Stmt, loops: tuple[For, ...]) -> Iterator[tuple[Store, tuple[For, ...]]]:
    match stmt:
        case Store():
            yield stmt, loops
        case For(_, _, _, body):
            yield from _with_loops(body, (*loops, stmt))
        case Seq(stmts):
            for part in stmts:
                yield from _with_loops(part, loops)
        case If(_, then, otherwise):
            for part in (then,) if otherwise is None else (then, otherwise):
                yield from _with_loops(part, loops)
        case _:
            return


def _with_stores(stmt: Stmt, change: Callable[[Store], Store]) -> Stmt:
    if isinstance(stmt, Store):
        return change(stmt)
    return map_substatements(stmt, lambda part: _with_stores(part, change))
