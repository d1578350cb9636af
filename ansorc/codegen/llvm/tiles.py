"""Matrix units of x86 (AMX): products of tiles in registers of their own.

A register tile of sums is up to 2 x 2 tiles of the unit; in each step the tiles of both factors are
loaded and each of one is multiplied by each of the other. The shapes of the eight tile registers
are a configuration of the thread: it is loaded where the code comes to a nest that needs another
one than the last nest, for the first time in each part of a parallel loop, and released at the end
of that part. Any library may change it between two calls, and none may rely on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ansorc.codegen.llvm.expr import ExprWriter
from ansorc.codegen.llvm.writer import FunctionWriter, ModuleWriter
from ansorc.codegen.package.signature import is_parallel
from ansorc.ir.arith.affine import Linear
from ansorc.ir.expr import Load
from ansorc.ir.passes.matrix_nest import MatrixNest, holds_nests, is_zero_fill, matrix_nest
from ansorc.ir.stmt import For, LoopKind, Seq, Stmt, statements
from ansorc.target import Target
from ansorc.target.matrix_units import matrix_unit

LoopWriter = Callable[[For, str, str, Callable[[], None]], None]
_CONFIGURATION_BYTES = 64
_SUM_BYTES = 4


def has_tiles(target: Target, stmt: Stmt) -> bool:
    """Return whether `stmt`, run by one thread, has nests that a unit of `target` computes."""
    if not (target.is_x86 and "amx-tile" in target.features) or not holds_nests(stmt):
        return False
    return not any(isinstance(part, For) and is_parallel(part) for part in statements(stmt))


class TileWriter:
    """Writes the nests of matrix units in a part of a function that one thread runs."""

    def __init__(self, writer: FunctionWriter, exprs: ExprWriter, loop: LoopWriter) -> None:
        self._writer, self._exprs, self._loop = writer, exprs, loop
        self._current = writer.name("tiles")
        """The place of the number of the configuration that is loaded; 0: none."""
        self._zeroed: Stmt | None = None
        """The nest whose sums are 0 before it, though no statement has stored that."""
        self.release = "call void @llvm.x86.tilerelease()"
        """The code that gives the tiles back."""

    def begin(self) -> None:
        """Write the start of the part: no configuration is loaded."""
        self._writer.module.declare("declare void @llvm.x86.tilerelease()")
        self._writer.allocas.append(f"  {self._current} = alloca i32, align 4")
        self.forget()

    def forget(self) -> None:
        """Write that no configuration is known: foreign code ran, which may have its own."""
        self._writer.line(f"store i32 0, ptr {self._current}")

    def end(self) -> None:
        """Write the end of the part."""
        self._writer.line(self.release)

    def is_left_out(self, stmts: Sequence[Stmt], number: int) -> bool:
        """Return whether a statement only stores the zeros with which the nest after it begins."""
        if number + 1 == len(stmts):
            return False
        nest = self._nest(stmts[number + 1])
        if nest is None or not is_zero_fill(stmts[number], nest):
            return False
        self._zeroed = stmts[number + 1]
        return True

    def write(self, stmt: For) -> bool:
        """Write `stmt` if it is a nest for a unit of the machine; return whether it was."""
        nest = self._nest(stmt)
        if nest is None:
            return False
        tile = _Tile(nest)
        self._configure(tile)
        self._sums(tile, "zero" if self._zeroed is stmt else "load")
        self._steps(nest.steps, tile)
        self._sums(tile, "store")
        self._writer.forget_loads((nest.store.buffer.name,))
        return True

    def _nest(self, stmt: Stmt) -> MatrixNest | None:
        nest = matrix_nest(stmt)
        if nest is None:
            return None
        unit = matrix_unit(self._writer.module.target, nest.unit.left, nest.unit.right)
        return nest if unit is not None else None

    def _configure(self, tile: _Tile) -> None:
        """Load the configuration of `tile` if another one is loaded."""
        writer = self._writer
        name, number = _configuration(writer.module, tile)
        load, ready = writer.name("configure"), writer.name("configured")
        current = writer.emit(f"load i32, ptr {self._current}")
        is_other = writer.emit(f"icmp ne i32 {current}, {number}")
        writer.line(f"br i1 {is_other}, label {load}, label {ready}")
        writer.start_block(load)
        writer.module.declare("declare void @llvm.x86.ldtilecfg(ptr)")
        writer.line(f"call void @llvm.x86.ldtilecfg(ptr {name})")
        writer.line(f"store i32 {number}, ptr {self._current}")
        writer.line(f"br label {ready}")
        writer.start_block(ready)

    def _sums(self, tile: _Tile, what: str) -> None:
        """Set the sums to zero, load or store them."""
        module, nest = self._writer.module, tile.nest
        pitch = nest.pitch * _SUM_BYTES or _SUM_BYTES * nest.columns
        target = Load(nest.store.buffer, nest.store.indices)
        for i in range(tile.tall):
            for j in range(tile.wide):
                number = tile.sum(i, j)
                if what == "zero":
                    module.declare("declare void @llvm.x86.tilezero(i8)")
                    self._writer.line(f"call void @llvm.x86.tilezero(i8 {number})")
                else:
                    self._move(what, number, self._place(nest, target, (i, j)), pitch)

    def _steps(self, loops: Sequence[For], tile: _Tile) -> None:
        """Write the loops over the terms, with one step of the tile inside."""
        if not loops:
            self._step(tile)
            return
        first, *others = loops
        stand_in = For(first.var, first.extent, LoopKind.SERIAL, _body(others))
        self._loop(stand_in, "0", str(first.extent), lambda: self._steps(others, tile))

    def _step(self, tile: _Tile) -> None:
        """Load tiles and multiply them, loads between the products."""
        nest = tile.nest
        intrinsic = f"@llvm.{nest.unit.llvm}"
        self._writer.module.declare(f"declare void {intrinsic}(i8, i8, i8)")
        size = nest.left.load.buffer.dtype.bytes
        for j in range(tile.wide):
            pitch = nest.right.group * size or nest.unit.row_bytes
            self._move("load", tile.right(j), self._place(nest, nest.right.load, (0, j)), pitch)
            for i in range(tile.tall):
                if j == 0:
                    place = self._place(nest, nest.left.load, (i, 0))
                    pitch = nest.left.row * size or nest.unit.row_bytes
                    self._move("load", tile.left(i), place, pitch)
                operands = f"i8 {tile.sum(i, j)}, i8 {tile.left(i)}, i8 {tile.right(j)}"
                self._writer.line(f"call void {intrinsic}({operands})")

    def _move(self, what: str, number: int, place: str, pitch: int) -> None:
        name = f"@llvm.x86.tile{what}d64"
        self._writer.module.declare(f"declare void {name}(i8, ptr, i64)")
        self._writer.line(f"call void {name}(i8 {number}, ptr {place}, i64 {pitch})")

    def _place(self, nest: MatrixNest, load: Load, tile: tuple[int, int]) -> str:
        """Return the address of the first element of a tile."""
        index = self._exprs.index
        starts = (nest.row, tile[0] * nest.unit.rows), (nest.column, tile[1] * nest.unit.columns)
        for loop, start in (*starts, (nest.step, 0), (nest.group, 0)):
            if loop is not None:
                index.bind(loop.var.name, Linear(constant=start))
        flat = index.distance(load.buffer, load.indices)
        assert flat is not None  # the nest has linear indices
        return self._exprs.memory.pointer(load.buffer, flat.first)


@dataclass(frozen=True)
class _Tile:
    """The tile registers of a nest: first those of the sums, row by row, then of the factors."""

    nest: MatrixNest

    @property
    def tall(self) -> int:
        return -(-self.nest.rows // self.nest.unit.rows)

    @property
    def wide(self) -> int:
        return -(-self.nest.columns // self.nest.unit.columns)

    def sum(self, i: int, j: int) -> int:
        return i * self.wide + j

    def left(self, i: int) -> int:
        return self.tall * self.wide + i

    def right(self, j: int) -> int:
        return self.tall * self.wide + self.tall + j

    def shapes(self) -> list[tuple[int, int]]:
        """Return the rows of each register, and the bytes of a row."""
        nest, unit = self.nest, self.nest.unit
        rows = [min(unit.rows, nest.rows - unit.rows * i) for i in range(self.tall)]
        columns = [min(unit.columns, nest.columns - unit.columns * j) for j in range(self.wide)]
        sums = [(row, _SUM_BYTES * column) for row in rows for column in columns]
        left = [(row, _SUM_BYTES * nest.groups) for row in rows]
        return [*sums, *left, *((nest.groups, _SUM_BYTES * column) for column in columns)]


def _body(loops: Sequence[For]) -> Stmt:
    """Return what stands for the loops inside a loop: it tells which one is the innermost."""
    return loops[0] if loops else Seq(())


def _configuration(module: ModuleWriter, tile: _Tile) -> tuple[str, int]:
    """Return the constant that has the shapes of `tile`, and its number, from 1."""
    content = bytearray(_CONFIGURATION_BYTES)
    content[0] = 1  # the palette
    for number, (rows, row_bytes) in enumerate(tile.shapes()):
        content[16 + 2 * number] = row_bytes
        content[48 + number] = rows
    text = ", ".join(f"i8 {byte}" for byte in content)
    known = module.tile_shapes.setdefault(text, len(module.tile_shapes) + 1)
    name = f"@tiles.{known}"
    kind = f"[{_CONFIGURATION_BYTES} x i8]"
    module.declare(f"{name} = private unnamed_addr constant {kind} [{text}], align 64")
    return name, known
