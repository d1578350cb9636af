"""Random legal loop programs: `functions()` for CPUs, `gpu_functions()` with threads and barriers.

Each runs in the interpreter without an error: indices stay inside, memory is written before it is
read (but for `Options.has_gaps`), and what PARALLEL and VECTORIZED loops do does not depend on the
order of their iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dtype import BOOL, FLOAT32, FLOAT64, INT32, INT64, UINT8
from ansorc.ir.expr import Binary, BinaryOp, Load, Var, dtype_of
from ansorc.ir.interpret_math import integer_range
from ansorc.ir.node import Node, rewrite
from ansorc.ir.stmt import (
    Allocate,
    Barrier,
    For,
    Function,
    If,
    LoopKind,
    Prefetch,
    Seq,
    Stmt,
    Store,
)
from tests.support.ir_expr_strategies import Exprs, Options, Place

__all__ = ["Options", "arrays_for", "functions", "gpu_functions"]
DTYPES = (FLOAT32, FLOAT32, FLOAT64, INT64, INT32, UINT8, BOOL)
BUFFER_NAMES = ("A", "B", "C.local", "conv.pad", "max", "in", "not", "x_1", "A.1@b")
LOOP_NAMES = ("i", "j", "i.0@j.0", "k.1", "ramp", "_t")


@st.composite
def functions(draw: st.DrawFn, options: Options | None = None) -> Function:
    """Draw a program of serial, unrolled, vectorized and parallel loops."""
    return Programs(draw, options or Options()).function()


@st.composite
def gpu_functions(draw: st.DrawFn) -> Function:
    """Draw a program of a grid of blocks whose threads exchange values in shared memory."""
    return Programs(draw, Options(has_vectors=False)).gpu_function()


def arrays_for(function: Function, seed: int) -> list[np.ndarray[Any, Any]]:
    """Return one array of random contents for each parameter."""
    random = np.random.default_rng(seed)
    arrays: list[np.ndarray[Any, Any]] = []
    for buffer in function.params:
        if buffer.dtype.is_float:
            values: Any = random.normal(size=buffer.shape)
        elif buffer.dtype.is_bool:
            values = random.integers(0, 2, buffer.shape)
        else:
            low = -100 if integer_range(buffer.dtype)[0] < 0 else 0
            values = random.integers(low, 100, buffer.shape)
        arrays.append(np.asarray(values).astype(buffer.dtype.numpy))
    return arrays


def with_buffer(allocation: Allocate, new: Buffer) -> Stmt:
    """Return `allocation` of `new` in place of its buffer, which has the same elements."""

    def rule(old: Node) -> Node | None:
        is_access = isinstance(old, Load | Store | Prefetch | Allocate)
        return replace(old, buffer=new) if is_access and old.buffer == allocation.buffer else None

    return rewrite(allocation, rule)


class Programs(Exprs):
    """Draws the statements of one program."""

    def function(self) -> Function:
        """Draw a whole program."""
        inputs = tuple(self.buffer(is_input=True) for _ in range(self.number(1, 3)))
        outputs = tuple(self.buffer() for _ in range(self.number(1, 2)))
        place = Place(readable=inputs + outputs, writable=outputs)
        return Function("kernel", inputs + outputs, self.stmt(place, 4))

    def gpu_function(self) -> Function:
        """Draw a program in which threads take turns between barriers."""
        blocks, threads = self.number(1, 3), self.number(1, 4)
        block, thread = Var("blockIdx.x"), Var("t.x")
        source = self.buffer(is_input=True)
        out = Buffer("out", (blocks, threads), FLOAT32)
        shared = Buffer("out.shared", (threads,), FLOAT32, Scope.SHARED)
        place = Place(((block, blocks), (thread, threads)), (source,))
        phases: list[Stmt] = [Store(shared, (thread,), self.value(FLOAT32, place, 2))]
        for _ in range(self.number(1, 3)):
            reading = replace(place, readable=(source, shared))
            phases.append(Barrier(Scope.SHARED))
            phases.append(Store(out, (block, thread), self.value(FLOAT32, reading, 3)))
            phases.append(Barrier(Scope.SHARED))
            update = Load(shared, (thread,)) + Load(out, (block, thread))
            phases.append(Store(shared, (thread,), update))
        body: Stmt = For(Var("k"), self.number(1, 3), LoopKind.SERIAL, Seq(tuple(phases)))
        body = For(thread, threads, LoopKind.BOUND, body, "threadIdx.x")
        body = For(block, blocks, LoopKind.BOUND, Allocate(shared, body), "blockIdx.x")
        return Function("kernel", (source, out), body)

    def stmt(self, place: Place, depth: int) -> Stmt:
        """Draw a statement of nested statements at most `depth` deep."""
        if depth == 0:
            return self.prefetch(place) if self.chance(12) else self.store(place)
        kinds: list[Callable[[Place, int], Stmt]] = [
            self.loop, self.loop, self.unordered, self.seq, self.branch, self.allocate,
        ]  # fmt: skip
        return self.one_of(kinds)(place, depth - 1)

    def store(self, place: Place) -> Stmt:
        """Draw an assignment, in which the old value may take part."""
        buffer = self.one_of(place.writable)
        if self.options.has_vectors and self.chance(4):
            place = replace(place, lanes=self.one_of((2, 4)))
        fixed = place.fixed.get(buffer.name, {})
        indices = tuple(
            fixed[dimension] if dimension in fixed else self.index(extent, place)
            for dimension, extent in enumerate(buffer.shape)
        )
        lanes = max((dtype_of(index).lanes for index in indices), default=1)
        value = self.value(buffer.dtype, replace(place, lanes=lanes), 3)
        if not buffer.dtype.is_bool and self.chance(2):
            value = Binary(BinaryOp.ADD, Load(buffer, indices), value)
        store = Store(buffer, indices, value, is_streamed=self.chance(8))
        if lanes == 1 or not self.chance(2):
            return store
        mask = self.value(BOOL, replace(place, lanes=lanes), 2)
        return If(mask, store)

    def prefetch(self, place: Place) -> Stmt:
        """Draw a hint, which may lie beyond its buffer."""
        buffer = self.one_of(place.writable)
        inside = (self.index(extent, replace(place, lanes=1)) for extent in buffer.shape)
        return Prefetch(buffer, tuple(index + self.number(0, 9) for index in inside))

    def loop(self, place: Place, depth: int) -> Stmt:
        """Draw a loop whose iterations run in order."""
        var, extent = Var(self.fresh(LOOP_NAMES)), self.number(1, 5)
        kind = self.one_of((LoopKind.SERIAL, LoopKind.SERIAL, LoopKind.UNROLLED))
        inner = replace(place, loops=(*place.loops, (var, extent)))
        body = self.stmt(inner, depth)
        self.scope.remove(var.name)
        return For(var, extent, kind, body)

    def unordered(self, place: Place, depth: int) -> Stmt:
        """Draw a loop each iteration of which has a slice of one buffer for itself."""
        owner = self.one_of(place.writable)
        fixed = place.fixed.get(owner.name, {})
        free = [d for d in range(len(owner.shape)) if d not in fixed]
        if not free:
            return self.loop(place, depth)
        dimension = self.one_of(free)
        kind = self.one_of((LoopKind.VECTORIZED, LoopKind.PARALLEL))
        is_parallel = kind is LoopKind.PARALLEL
        if is_parallel and owner.scope is not Scope.GLOBAL:
            kind, is_parallel = LoopKind.VECTORIZED, False
        var, extent = Var(self.fresh(LOOP_NAMES)), owner.shape[dimension]
        seen = tuple(
            buffer
            for buffer in place.readable
            if buffer != owner and (buffer.scope is Scope.GLOBAL or not is_parallel)
        )
        loops = (*place.loops, (var, extent))
        inner = Place(loops, seen, (owner,), {owner.name: {**fixed, dimension: var}})
        chunk = self.number(0, 3) if is_parallel else 0
        body = self.stmt(inner, depth)
        self.scope.remove(var.name)
        return For(var, extent, kind, body, chunk=chunk)

    def seq(self, place: Place, depth: int) -> Stmt:
        """Draw several statements."""
        least = 0 if self.options.is_wild else 2
        stmts = [self.stmt(place, depth) for _ in range(self.number(least, 3))]
        if stmts and self.chance(4):
            stmts.insert(self.number(0, len(stmts)), self.twin(self.one_of(stmts)))
        if self.options.is_wild:
            return Seq(tuple(stmts))
        return Seq(
            tuple(s for stmt in stmts for s in (stmt.stmts if isinstance(stmt, Seq) else (stmt,)))
        )

    def twin(self, stmt: Stmt) -> Stmt:
        """Draw what is made of a part of `stmt`: all names, and much of it, are the same."""
        match stmt:
            case For(_, extent, kind, body) if kind is not LoopKind.PARALLEL and self.chance(2):
                return replace(stmt, extent=self.number(1, extent))
            case Allocate(buffer, body) if buffer.scope is Scope.LOCAL and self.chance(2):
                return with_buffer(stmt, replace(buffer, scope=Scope.GLOBAL))
            case For(body=body) | Allocate(body=body):
                return replace(stmt, body=self.twin(body))
            case _:
                return stmt

    def branch(self, place: Place, depth: int) -> Stmt:
        """Draw an If."""
        condition = self.value(BOOL, replace(place, lanes=1), 2)
        otherwise = self.stmt(place, depth) if self.chance(2) else None
        return If(condition, self.stmt(place, depth), otherwise)

    def allocate(self, place: Place, depth: int) -> Stmt:
        """Draw a buffer, its first contents, and what happens with it."""
        scope = self.one_of((Scope.LOCAL, Scope.GLOBAL))
        buffer = replace(self.buffer(), scope=scope)
        loops = tuple((Var(self.fresh(("a",))), extent) for extent in buffer.shape)
        first = replace(place, loops=place.loops + loops)
        init: Stmt = Store(buffer, tuple(v for v, _ in loops), self.value(buffer.dtype, first, 1))
        if self.options.has_gaps and self.chance(2):
            init = If(self.value(BOOL, replace(first, lanes=1), 1), init)
        for var, extent in reversed(loops):
            init = For(var, extent, LoopKind.SERIAL, init)
            self.scope.remove(var.name)
        readable, writable = (*place.readable, buffer), (*place.writable, buffer)
        inner = self.stmt(replace(place, readable=readable, writable=writable), depth)
        self.scope.remove(buffer.name)
        rest = inner.stmts if isinstance(inner, Seq) and not self.options.is_wild else (inner,)
        return Allocate(buffer, Seq((init, *rest)))

    def buffer(self, *, is_input: bool = False) -> Buffer:
        """Draw a buffer of a new name."""
        shape = tuple(self.number(1, 5) for _ in range(self.number(0, 3)))
        name = self.fresh(BUFFER_NAMES)
        return Buffer(name, shape, self.one_of(DTYPES), constant=is_input and self.chance(3))
