"""Write square blocks of a transposed copy: vectors along both sides, turned in registers."""

from __future__ import annotations

from ansorc.codegen.llvm.expr import ExprWriter
from ansorc.codegen.llvm.types import Value
from ansorc.codegen.llvm.writer import FunctionWriter
from ansorc.ir.arith.affine import Linear
from ansorc.ir.passes.transpose_copies import Transposition, transposition
from ansorc.ir.stmt import For, LoopKind


def match_transposition(loop: For) -> Transposition | None:
    """Return what the loop, unrolled, transposes if it is a block as wide as it is long."""
    if loop.kind is not LoopKind.UNROLLED:
        return None
    match = transposition(loop.body, loop.var.name)
    return match if match is not None and match.lanes == loop.extent else None


def write_block(writer: FunctionWriter, exprs: ExprWriter, loop: For, block: Transposition) -> None:
    """Write all iterations of `loop`: its loads, then its stores in their order."""
    exprs.index.bind(loop.var.name, Linear())
    rows = [exprs.value(block.row(lane)) for lane in range(block.lanes)]
    for number, column in enumerate(_transpose(writer, rows)):
        exprs.index.bind(loop.var.name, Linear(constant=number))
        exprs.memory.store(block.store, column)


def _transpose(writer: FunctionWriter, rows: list[Value]) -> list[Value]:
    """Return the columns of the square matrix with these rows.

    Interleaving row n with row n + half, for all n, moves the first bit of a row's number to the
    end of the column's; after as many rounds as there are bits they have changed places.
    """
    count = len(rows)
    for _ in range(count.bit_length() - 1):
        pairs = zip(rows[: count // 2], rows[count // 2 :], strict=True)
        rows = [_interleave(writer, a, b, half) for a, b in pairs for half in (0, count // 2)]
    return rows


def _interleave(writer: FunctionWriter, a: Value, b: Value, first: int) -> Value:
    """Return half of the lanes of `a` and `b`, from `first` on, in turns."""
    lanes = a.dtype.lanes
    places = [
        lane_number
        for lane in range(first, first + lanes // 2)
        for lane_number in (lane, lane + lanes)
    ]
    mask = f"<{lanes} x i32> <{', '.join(f'i32 {lane_number}' for lane_number in places)}>"
    return Value(writer.emit(f"shufflevector {a.typed}, {b.typed}, {mask}"), a.dtype)
