"""The rules of a legal loop program: names, scopes, loops and threads.

The rules of expressions are in `verify_expr`. A rule that needs values, such as an index that
stays inside its buffer, is checked by the interpreter when it runs.

With `ANSORC_VERIFY_EACH=1` the program is checked after every pass, else after the last one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import assert_never

from ansorc.errors import IRError
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dim import dims_of
from ansorc.ir.dtype import BOOL, INT64
from ansorc.ir.expr import Const, Exchange, Load, Ramp, Shuffle, Transpose, const
from ansorc.ir.lexer import NAME, RESERVED
from ansorc.ir.node import walk
from ansorc.ir.printer import buffer_text, expr_text, stmt_text
from ansorc.ir.stmt import (
    THREADS,
    Allocate,
    Await,
    Barrier,
    CallC,
    Check,
    For,
    Function,
    If,
    LoopKind,
    Prefetch,
    Seq,
    Stmt,
    Store,
    statements,
)
from ansorc.ir.substitute import free_vars
from ansorc.ir.verify_expr import ExprRules, is_count
from ansorc.target.gpu import WARP_THREADS


def verifies_each() -> bool:
    """Return whether the program is checked after every pass, as in ansorc's tests."""
    return os.environ.get("ANSORC_VERIFY_EACH", "") not in ("", "0")


def verify(function: Function) -> None:
    """Raise IRError, naming the kernel and the statement, if `function` breaks a rule."""
    Verifier().verify(function)


class Verifier:
    """Verifies functions of which each is made of parts of the one before.

    A statement that was legal is not checked again inside the same loops and allocations.
    """

    def __init__(self) -> None:
        self._outside = _VerifyContext()

    def verify(self, function: Function) -> None:
        """Raise IRError, naming the kernel and the statement, if `function` breaks a rule."""
        try:
            if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", function.name):
                raise IRError(f"'{function.name}' is no C name; use letters, digits and '_'")
            context = self._outside
            for buffer in function.params:
                if buffer.scope is not Scope.GLOBAL:
                    raise IRError(f"parameter {buffer_text(buffer)} is not in global memory")
                context = context.with_buffer(buffer)
            if function.dims:
                _check_dims(function)
            _check(function.body, context)
        except IRError as error:
            raise IRError(f"kernel '{function.name}' is not legal: {error}") from None


@dataclass(frozen=True, eq=False)
class _VerifyContext:
    """The context of a statement: buffers and loops in scope."""

    buffers: Mapping[str, Buffer] = field(default_factory=dict[str, Buffer])
    loops: Mapping[str, For] = field(default_factory=dict[str, For])
    """The loops around the statement, by the names of their variables."""
    hidden: frozenset[str] = frozenset()
    """The buffers that belong to other threads, or to other blocks."""
    legal: dict[int, Stmt] = field(default_factory=dict[int, Stmt])
    """The statements that are legal in this context, by their identities."""
    inner: dict[object, _VerifyContext] = field(default_factory=dict[object, "_VerifyContext"])
    """The contexts right inside this one, by their buffers or the heads of their loops."""

    @cached_property
    def rules(self) -> ExprRules:
        """The rules of expressions in this context."""
        variables = {name: loop.var for name, loop in self.loops.items()}
        return ExprRules(self.buffers, variables, lambda access: _check_access(access, self))

    def with_buffer(self, buffer: Buffer) -> _VerifyContext:
        """Check a declaration of `buffer`, and return the context inside it."""
        _check_name(buffer.name)
        if buffer.name in self.buffers:
            raise IRError(f"two buffers in one scope are called '{buffer.name}'; rename one")
        if buffer.dtype.lanes != 1:
            raise IRError(f"{buffer_text(buffer)} has vector elements; add a dimension instead")
        if not all(is_count(extent) for extent in buffer.shape):
            raise IRError(f"{buffer_text(buffer)} has an extent that is no Python int above 0")
        if buffer not in self.inner:
            buffers = {**self.buffers, buffer.name: buffer}
            self.inner[buffer] = _VerifyContext(buffers, self.loops, self.hidden)
        return self.inner[buffer]

    def with_loop(self, loop: For) -> _VerifyContext:
        """Return the context inside `loop`, whose head was checked."""
        head = (loop.var, loop.extent, loop.kind, loop.thread)
        if head not in self.inner:
            lost = self._scopes_hidden_by(loop)
            hidden = {name for name, buffer in self.buffers.items() if buffer.scope in lost}
            loops = {**self.loops, loop.var.name: loop}
            self.inner[head] = _VerifyContext(self.buffers, loops, self.hidden | hidden)
        return self.inner[head]

    def loop_bound_to(self, thread: str) -> For | None:
        """Return the outermost loop around that is bound to `thread`, a name or prefix, or None."""
        matching = (loop for loop in self.loops.values() if loop.thread.startswith(thread))
        return next((loop for loop in matching if loop.thread), None)

    def _scopes_hidden_by(self, loop: For) -> tuple[Scope, ...]:
        """Return the memory scopes that threads inside `loop` cannot share with others."""
        if loop.kind is LoopKind.PARALLEL:
            nested = any(outer.kind is LoopKind.PARALLEL for outer in self.loops.values())
            return () if nested else (Scope.LOCAL, Scope.REGISTER)
        if loop.kind is not LoopKind.BOUND or self.loop_bound_to(loop.thread):
            return ()
        if loop.thread.startswith("blockIdx"):
            return (Scope.LOCAL, Scope.REGISTER, Scope.SHARED)
        return (Scope.LOCAL, Scope.REGISTER) if loop.thread.startswith("threadIdx") else ()


def _check(stmt: Stmt, context: _VerifyContext) -> None:
    if id(stmt) not in context.legal:
        _check_anew(stmt, context)
        context.legal[id(stmt)] = stmt  # which lives on, so that no other has its identity


def _check_anew(stmt: Stmt, context: _VerifyContext) -> None:
    match stmt:
        case Seq(stmts):
            for inner in stmts:
                _check(inner, context)
        case For():
            _check_loop(stmt, context)
            _check(stmt.body, context.with_loop(stmt))
        case Store():
            _check_leaf(stmt, context)
        case If(_, then, otherwise):
            _check_leaf(stmt, context)
            _check(then, context)
            if otherwise is not None:
                _check(otherwise, context)
        case Allocate(buffer, body):
            if buffer.constant:
                raise IRError(f"{buffer_text(buffer)} is allocated; only parameters are constant")
            _check(body, context.with_buffer(buffer))
        case Prefetch() | Check():
            _check_leaf(stmt, context)
        case Barrier() | Await():
            _check_waiting(stmt, context)
        case CallC():
            _check_c_call(stmt, context)
        case _:
            assert_never(stmt)


def _check_c_call(stmt: CallC, context: _VerifyContext) -> None:
    for buffer in (*stmt.inputs, stmt.output):
        context.rules.access(buffer, tuple(const(0) for _ in buffer.shape))
    if stmt.output.constant or stmt.output in stmt.inputs:
        raise IRError(f"'{stmt.function.name}' fills {buffer_text(stmt.output)}, which is read")
    kinds = tuple(buffer.dtype for buffer in stmt.inputs)
    if (kinds, stmt.output.dtype) != (stmt.function.arguments, stmt.function.result):
        raise IRError(f"'{stmt.function.name}' is called with arrays of other dtypes than its own")


def _check_waiting(stmt: Barrier | Await, context: _VerifyContext) -> None:
    if isinstance(stmt, Await):
        if stmt.pending != 0 and not is_count(stmt.pending):
            raise IRError(f"'await {stmt.pending!r}' is for no Python int from 0 on")
        return
    if stmt.scope not in (Scope.SHARED, Scope.GLOBAL):
        raise IRError(f"'barrier {stmt.scope.value}' is of memory that no two threads share")
    if context.loop_bound_to("threadIdx") is None:
        raise IRError("a barrier outside threadIdx loops waits for nobody; remove it")


def _check_chunk(loop: For) -> None:
    if loop.chunk == 0:
        return
    if loop.kind is not LoopKind.PARALLEL:
        raise IRError(
            f"the {loop.kind.value} loop over '{loop.var.name}' has chunks; only parallel loops do"
        )
    if not is_count(loop.chunk):
        raise IRError(f"the chunk of '{loop.var.name}' is {loop.chunk!r}, no Python int above 0")


def _check_bounds(loop: For, context: _VerifyContext) -> None:
    name = loop.var.name
    has_both = len(loop.bounds) == 2
    if loop.kind in (LoopKind.PARALLEL, LoopKind.VECTORIZED):
        if has_both and loop.begin != const(0):
            raise IRError(f"the loop over '{name}' begins at {expr_text(loop.bounds[0])}")
    elif (loop.kind in (LoopKind.RAGGED, LoopKind.SIZE)) != has_both:
        raise IRError(f"the loop over '{name}' has a begin and an end exactly if it is ragged")
    for bound in loop.bounds:
        dtype = context.rules.dtype(bound)
        if dtype != INT64:
            raise IRError(f"the loop over '{name}' goes to {expr_text(bound)}, {dtype}, not int64")


def _check_dims(function: Function) -> None:
    """Require that the body is inside of the loops over its dimensions, and no other such loop."""
    stmt: Stmt = function.body
    for dim in function.dims:
        if not isinstance(stmt, For) or (stmt.kind, stmt.var.name) != (LoopKind.SIZE, dim.variable):
            raise IRError(f"the body is not inside of the loop over the dimension '{dim.name}'")
        stmt = stmt.body
    for part in statements(stmt):
        if isinstance(part, For) and part.kind is LoopKind.SIZE:
            raise IRError(f"'{part.var.name}' is none of the dimensions of the kernel")
    known = set(function.dims)
    inside = [part.buffer for part in statements(stmt) if isinstance(part, Allocate)]
    for buffer in (*function.params, *inside):
        if not known.issuperset(dims_of(buffer.extents)):
            raise IRError(f"{buffer_text(buffer)} has a dimension that the kernel does not have")


def _check_loop(loop: For, context: _VerifyContext) -> None:
    name, thread = loop.var.name, loop.thread
    _check_name(name)
    if name in RESERVED:
        raise IRError(f"loop variable '{name}' is a word of expressions; rename it")
    if name in context.loops:
        raise IRError(f"two nested loops are over '{name}'; rename one")
    if loop.var.dtype != INT64:
        raise IRError(f"loop variable '{name}' is {loop.var.dtype}, not int64")
    if not is_count(loop.extent):
        raise IRError(f"the extent of '{name}' is {loop.extent!r}, no Python int above 0")
    _check_chunk(loop)
    _check_bounds(loop, context)
    if loop.stages and (loop.kind is not LoopKind.SERIAL or not is_count(loop.stages)):
        raise IRError(f"the loop over '{name}' cannot have {loop.stages!r} stages")
    if loop.kind is not LoopKind.BOUND:
        if thread:
            raise IRError(f"the {loop.kind.value} loop over '{name}' names the thread '{thread}'")
        return
    if thread not in THREADS:
        raise IRError(f"the loop over '{name}' is bound to '{thread}'; use {', '.join(THREADS)}")
    outer = context.loop_bound_to(thread) if thread != "vthread" else None
    if outer is not None and outer.extent != loop.extent:
        extents = f"'{outer.var.name}' of {outer.extent} and '{name}' of {loop.extent}"
        raise IRError(f"nested loops {extents} are both bound to {thread}; make them equal")


def _check_leaf(stmt: Store | If | Prefetch | Check, context: _VerifyContext) -> None:
    """Check the expressions of one statement; an error names the statement."""
    rules = context.rules
    try:
        if isinstance(stmt, Store):
            _check_store(stmt, rules, context)
        elif isinstance(stmt, Prefetch):
            _check_prefetch(stmt, rules)
        elif isinstance(stmt, Check):
            rules.fault(stmt.condition, stmt.condition, stmt.about, stmt.args)
        else:
            _check_condition(stmt, rules)
    except IRError as error:
        raise IRError(f"{error}\n    in: {stmt_text(stmt).splitlines()[0]}") from None


def _check_store(stmt: Store, rules: ExprRules, context: _VerifyContext) -> None:
    buffer = stmt.buffer
    lanes, dtype = rules.access(buffer, stmt.indices), rules.dtype(stmt.value)
    if rules.has_exchange:
        _check_exchange(stmt, context)
    if stmt.is_atomic:
        _check_atomic(stmt, lanes)
    if buffer.constant:
        raise IRError(f"{buffer_text(buffer)} is stored to; a constant is only read")
    if dtype.element != buffer.dtype:
        raise IRError(f"the value is {dtype}, but {buffer_text(buffer)}; cast the value")
    if dtype.lanes not in (1, lanes):
        raise IRError(f"the value has {dtype.lanes} lanes, but the indices {lanes}; use a ramp")


def _check_atomic(stmt: Store, lanes: int) -> None:
    loads = [part for part in walk(stmt.value) if isinstance(part, Load)]
    own = [load.indices for load in loads if load.buffer == stmt.buffer]
    if lanes > 1 or not own or any(indices != stmt.indices for indices in own):
        raise IRError("an atomic store changes the one element that its value loads, like A[i] + 1")
    if stmt.is_async or stmt.is_streamed or stmt.buffer.scope not in (Scope.GLOBAL, Scope.SHARED):
        raise IRError("an atomic store goes to memory that threads share, at once")


def _check_exchange(stmt: Store, context: _VerifyContext) -> None:
    exchanges = [part for part in walk(stmt) if isinstance(part, Exchange)]
    if exchanges and context.loop_bound_to("threadIdx") is None:
        raise IRError(
            f"{expr_text(exchanges[0])}: outside threadIdx loops there are no other threads"
        )
    if exchanges and (exchanges[0] is not stmt.value or len(exchanges) > 1):
        raise IRError(
            f"{expr_text(exchanges[-1])}: store it on its own; all threads take part in it"
        )
    extents = {
        loop.thread: loop.extent for loop in context.loops.values() if "thread" in loop.thread
    }
    extents.pop("vthread", None)
    if isinstance(stmt.value, Transpose) and extents["threadIdx.x"] % stmt.value.threads:
        raise IRError(f"{expr_text(stmt.value)}: neighbours are so along threadIdx.x alone")
    count = prod(extents.values())
    if exchanges and not isinstance(exchanges[0], Shuffle) and count % WARP_THREADS:
        raise IRError(
            f"{expr_text(exchanges[0])}: whole warps of {WARP_THREADS} threads work on matrices, "
            f"and here are {count} threads"
        )


def _check_condition(stmt: If, rules: ExprRules) -> None:
    dtype = rules.dtype(stmt.condition)
    if dtype.element != BOOL:
        raise IRError(f"the condition is {dtype}, not a bool; compare it with something")
    if dtype.lanes == 1:
        return
    if not isinstance(stmt.then, Store) or stmt.otherwise is not None:
        raise IRError(f"the condition has {dtype.lanes} lanes; such an 'if' guards one store alone")
    lanes = rules.access(stmt.then.buffer, stmt.then.indices)
    if lanes != dtype.lanes:
        raise IRError(f"the condition has {dtype.lanes} lanes, but the store {lanes}")


def _check_prefetch(stmt: Prefetch, rules: ExprRules) -> None:
    lanes = rules.access(stmt.buffer, stmt.indices)
    if stmt.buffer.scope is Scope.REGISTER or lanes > 1:
        what = "a register" if lanes == 1 else f"{lanes} elements"
        raise IRError(f"it asks for {what}; a cache line is found by one element in memory")


def _check_access(access: Load, context: _VerifyContext) -> None:
    buffer = access.buffer
    if buffer.name in context.hidden:
        raise IRError(
            f"{buffer_text(buffer)} is not shared by the threads that run here; allocate it "
            "inside their loop, or in memory that they share"
        )
    if buffer.scope is Scope.REGISTER:
        _check_register(access, context)


def _check_register(access: Load, context: _VerifyContext) -> None:
    """Check the indices of a register: it has no address, so they must become constants."""
    for dimension, index in enumerate(access.indices):
        if isinstance(index, Const):
            continue
        for name in sorted(free_vars(index)):
            if context.loops[name].kind not in (LoopKind.UNROLLED, LoopKind.VECTORIZED):
                raise IRError(
                    f"{expr_text(access)}: a register is numbered by '{name}', whose loop is "
                    "neither unrolled nor vectorized; put the buffer in local memory"
                )
        vector = any(isinstance(part, Ramp) for part in walk(index))
        if any(isinstance(part, Load) for part in walk(index)):
            raise IRError(f"{expr_text(access)}: a register is numbered by loaded data")
        if vector and dimension < len(access.indices) - 1:
            raise IRError(f"{expr_text(access)}: lanes run along the last dimension alone")


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise IRError(
            f"'{name}' is no name; use letters, digits and '_', in parts joined by '.' or '@'"
        )
