"""Write the code of statements: loops, branches, stores."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import assert_never

from ansorc.codegen.llvm.c_call import write_c_call
from ansorc.codegen.llvm.condition import constant_value
from ansorc.codegen.llvm.expr import ExprWriter
from ansorc.codegen.llvm.fault import block_check, write_block_check, write_check
from ansorc.codegen.llvm.loops import Counters, adds_to_tile, is_innermost, is_tile_step
from ansorc.codegen.llvm.tiles import TileWriter, has_tiles
from ansorc.codegen.llvm.transpose import match_transposition, write_block
from ansorc.codegen.llvm.types import memory_type
from ansorc.codegen.llvm.writer import FunctionWriter
from ansorc.codegen.package.signature import is_parallel
from ansorc.errors import BuildError
from ansorc.ir.arith.affine import Linear
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.passes.accesses import Stores
from ansorc.ir.passes.matrix_nest import is_for_gpu
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


class StmtWriter:
    """The statements of one function.

    `parallel` writes a loop that several threads run; without it such a loop is serial.
    """

    def __init__(
        self, writer: FunctionWriter, parallel: Callable[[StmtWriter, For], None] | None = None
    ) -> None:
        self.writer = writer
        self.exprs = ExprWriter(writer)
        self._parallel = parallel
        self._stores = Stores()
        self._places: dict[Buffer, str] = {}
        self.leaving = ""
        """The code to run before the function returns in the midst of it."""
        self._held = 0
        """Vectors of the register tiles in sight."""
        self._tiles: TileWriter | None = None
        """Writes the nests of matrix units, in a part of the code that has their tiles."""

    def place(self, buffer: Buffer, pointer: str) -> None:
        """Let `buffer`, when it is allocated, live at `pointer`."""
        self._places[buffer] = pointer

    def reserve(self, buffer: Buffer) -> None:
        """Let `buffer` live on the stack; LLVM turns it into registers where it can."""
        pointer = self.writer.name("stack")
        kind = f"[{max(1, buffer.elements)} x {memory_type(buffer.dtype)}]"
        self.writer.allocas.append(f"  {pointer} = alloca {kind}, align 64")
        self.place(buffer, pointer)

    def statement(self, stmt: Stmt) -> None:
        """Write the code of `stmt` here."""
        match stmt:
            case Store():
                self.exprs.memory.store(stmt, self.exprs.value(stmt.value))
            case For():
                self._for(stmt)
            case Seq(stmts):
                self._sequence(stmts)
            case If():
                self._if(stmt)
            case Allocate(buffer, body):
                self._allocate(buffer, body)
            case Prefetch(buffer, indices):
                self.exprs.memory.prefetch(buffer, indices)
            case Check():
                write_check(self.writer, self.exprs, stmt, self.leaving)
            case Await():
                pass  # every store is done when it is there
            case CallC(_, function, inputs, output):
                write_c_call(self.writer, function, self.exprs.memory.bases, (*inputs, output))
                if self._tiles is not None:
                    self._tiles.forget()
            case Barrier(scope):
                raise BuildError(f"a barrier for {scope.value} memory exists on GPUs only")
            case _:
                assert_never(stmt)

    def _sequence(self, stmts: Sequence[Stmt]) -> None:
        for number, item in enumerate(stmts):
            before = stmts[number - 1] if number else None
            if before is not None and adds_to_tile(before) and adds_to_tile(item):
                self.writer.next_step(self._held)
            if self._tiles is None or not self._tiles.is_left_out(stmts, number):
                self.statement(item)

    def _allocate(self, buffer: Buffer, body: Stmt) -> None:
        _require_cpu_scope(buffer)
        self.exprs.memory.bases[buffer.name] = self._places[buffer]
        self.writer.forget_loads((buffer.name,))
        held = (
            buffer.bytes // self.writer.module.target.vector_bytes
            if buffer.scope is Scope.REGISTER
            else 0
        )
        self._held += held
        self.statement(body)
        self._held -= held

    @contextmanager
    def tiles(self, stmt: Stmt) -> Generator[None]:
        """Let this thread have tiles while `stmt` is written, if a matrix unit computes a part."""
        if self._tiles is not None or not has_tiles(self.writer.module.target, stmt):
            yield
            return
        self._tiles = TileWriter(self.writer, self.exprs, self.loop)
        was_leaving = self.leaving
        self.leaving = "\n  ".join(filter(None, (was_leaving, self._tiles.release)))
        self._tiles.begin()
        yield
        self._tiles.end()
        self._tiles, self.leaving = None, was_leaving

    def loop(self, stmt: For, begin: str, end: str, body: Callable[[], None] | None = None) -> None:
        """Write a loop over [begin, end), which is not empty: tested after each round.

        `body` writes an iteration where `stmt.body` is not what is done in it.
        """
        writer = self.writer
        top, latch, done = writer.name("loop"), writer.name("next"), writer.name("done")
        writer.forget_loads(self._stores.of(stmt))
        writer.open_landing()
        before = writer.block
        writer.line(f"br label {top}")
        writer.start_block(top)
        with writer.inner_scope():
            counter, following = writer.name("i"), writer.name("i")
            writer.line(f"{counter} = phi i64 [{begin}, {before}], [{following}, {latch}]")
            self.exprs.index.bind_symbol(stmt.var.name, counter, stmt.extent)
            counters = Counters(counter, before, latch)
            if begin == "0" and is_innermost(stmt):
                writer.scopes[-1].counters = counters
            writer.insert(counters.top)
            if body is None:
                self.statement(stmt.body)
            else:
                body()
            writer.line(f"br label {latch}")
            writer.start_block(latch)
            writer.insert(counters.end)
            writer.line(f"{following} = add nuw nsw i64 {counter}, 1")
            finished = writer.emit(f"icmp eq i64 {following}, {end}")
            node = writer.module.loop_metadata()
            writer.line(f"br i1 {finished}, label {done}, label {top}, !llvm.loop {node}")
        writer.start_block(done)
        writer.close_landing()

    def _for(self, stmt: For) -> None:
        with self.tiles(stmt):
            self._loops(stmt)

    def _loops(self, stmt: For) -> None:
        match stmt.kind:
            case LoopKind.BOUND:
                raise BuildError(
                    f"loop '{stmt.var.name}' is bound to {stmt.thread}, which exists on GPUs only; "
                    "use parallel, vectorize or unroll for a CPU"
                )
            case LoopKind.MATRIX if self._tiles is not None and self._tiles.write(stmt):
                pass
            case LoopKind.MATRIX if is_for_gpu(stmt):
                raise BuildError(
                    f"loop '{stmt.var.name}' is for the matrix units of a GPU; use tensorize with "
                    "tile_bf16, tile_i8, dot2 or dot4 for a CPU"
                )
            case LoopKind.PARALLEL if self._parallel is not None and is_parallel(stmt):
                self._parallel(self, stmt)
            case _ if (block := match_transposition(stmt)) is not None:
                write_block(self.writer, self.exprs, stmt, block)
            case _ if (check := block_check(stmt)) is not None:
                in_turn = replace(stmt, kind=LoopKind.SERIAL)
                write_block_check(
                    self.writer, self.exprs, check,
                    lambda: self.loop(in_turn, "0", str(stmt.extent)),
                )  # fmt: skip
            case LoopKind.SIZE:
                self.statement(stmt.body)  # its variable is an argument
            case _ if stmt.bounds:
                self._ragged(stmt)
            case _ if stmt.kind is LoopKind.UNROLLED or stmt.extent <= 1:
                is_step = is_tile_step(stmt)
                for number in range(stmt.extent):
                    if is_step and number:
                        self.writer.next_step(self._held)
                    self.exprs.index.bind(stmt.var.name, Linear(constant=number))
                    self.statement(stmt.body)
            case _:
                self.loop(stmt, "0", str(stmt.extent))

    def _ragged(self, stmt: For) -> None:
        """Write a loop whose range is not known: nothing runs where it is empty."""
        begin, end = (self.exprs.value(bound).text for bound in stmt.bounds)
        writer = self.writer
        then, join = writer.name("then"), writer.name("join")
        some = writer.emit(f"icmp slt i64 {begin}, {end}")
        writer.open_landing()
        writer.line(f"br i1 {some}, label {then}, label {join}")
        writer.start_block(then)
        with writer.inner_scope():
            self.loop(stmt, begin, end)
        writer.line(f"br label {join}")
        writer.start_block(join)
        writer.close_landing()

    def _if(self, stmt: If) -> None:
        condition = self.exprs.value(stmt.condition)
        decided = constant_value(condition)
        if decided is None and condition.dtype.lanes > 1:
            assert isinstance(stmt.then, Store)
            with self.exprs.mask_lanes(condition) as mask:
                value = self.exprs.value(stmt.then.value)
                self.exprs.memory.store(stmt.then, value, mask)
        elif decided is None:
            self._branch(stmt, condition.text)
        elif decided:
            self.statement(stmt.then)
        elif stmt.otherwise is not None:
            self.statement(stmt.otherwise)

    def _branch(self, stmt: If, condition: str) -> None:
        writer = self.writer
        then, other, join = writer.name("then"), writer.name("else"), writer.name("join")
        arms = [(then, stmt.then)] + ([(other, stmt.otherwise)] if stmt.otherwise else [])
        writer.open_landing()
        writer.line(f"br i1 {condition}, label {then}, label {arms[1][0] if arms[1:] else join}")
        for name, arm in arms:
            writer.start_block(name)
            with writer.inner_scope():
                self.statement(arm)
            writer.line(f"br label {join}")
        writer.start_block(join)
        writer.close_landing()


def _require_cpu_scope(buffer: Buffer) -> None:
    if buffer.scope is Scope.SHARED:
        raise BuildError(
            f"'{buffer.name}' is in shared memory, which exists on GPUs only; use local for a CPU"
        )
