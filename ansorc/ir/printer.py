"""Write a loop program as text that reads like Python loops and that `parse` reads back.

The grammar is in docs/language.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never, cast

from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dim import Size
from ansorc.ir.dtype import FLOAT32, INT64, DType
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Checked,
    Compare,
    Const,
    Dot,
    Exchange,
    Expr,
    Load,
    MatrixLoad,
    MatrixMultiply,
    Not,
    Operand,
    Ramp,
    Reduce,
    Select,
    Shuffle,
    Transpose,
    Var,
)
from ansorc.ir.node import Node
from ansorc.ir.operator import REDUCTIONS
from ansorc.ir.stmt import (
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
)

INDENT = " " * 4
NOT_LEVEL, COMPARE_LEVEL, ATOM_LEVEL = 3, 4, 11
LEVELS = {
    BinaryOp.OR: 1,
    BinaryOp.AND: 2,
    BinaryOp.BIT_OR: 5,
    BinaryOp.BIT_XOR: 6,
    BinaryOp.BIT_AND: 7,
    BinaryOp.SHL: 8,
    BinaryOp.SHR: 8,
    BinaryOp.ADD: 9,
    BinaryOp.SUB: 9,
    BinaryOp.MUL: 10,
    BinaryOp.DIV: 10,
    BinaryOp.FLOORDIV: 10,
    BinaryOp.MOD: 10,
}
"""The precedence of each infix operator, as in Python; `not` and comparisons are between them."""

_WIDTH = 100


def to_text(function: Function) -> str:
    """Return `function` as text with a final newline."""
    lines = [*_header(function), *_indent(_block(function.body))]
    return "\n".join(lines) + "\n"


def node_text(node: Node) -> str:
    """Return the text of a function, a statement or an expression, without a final newline."""
    if isinstance(node, Function):
        return to_text(node).rstrip("\n")
    return expr_text(cast(Expr, node)) if isinstance(node, Operand) else stmt_text(cast(Stmt, node))


def stmt_text(stmt: Stmt) -> str:
    """Return the lines of `stmt`, without a final newline."""
    return "\n".join(_block(stmt))


def expr_text(expr: Expr) -> str:
    """Return `expr` on one line."""
    return _expr(expr)[0]


def buffer_text(buffer: Buffer) -> str:
    """Return the declaration of `buffer`: `A: float32[4, 8] shared constant`."""
    shape = ", ".join(map(extent_text, buffer.shape, buffer.sizes or (None,) * len(buffer.shape)))
    scope = "" if buffer.scope is Scope.GLOBAL else f" {buffer.scope.value}"
    values = "" if buffer.promised is None else " in {}..{}".format(*buffer.promised)
    values += " sorted" * buffer.is_sorted + " complex" * buffer.is_complex
    values += " constant" * buffer.constant + " updated" * buffer.is_updated
    return f"{buffer.name}: {buffer.dtype}[{shape}]{scope}{values}"


def extent_text(extent: int, size: Size | None) -> str:
    """Return an extent; with one that the caller gives, the most that it may be."""
    return str(extent) if size is None else f"{size} of {extent}"


def _header(function: Function) -> list[str]:
    params = [buffer_text(buffer) for buffer in function.params]
    limit = f" threads {function.threads}" if function.threads else ""
    limit += "" if function.checks_indices else " unchecked"
    dims = f"[{', '.join(map(str, function.dims))}]" if function.dims else ""
    line = f"kernel {function.name}{dims}({', '.join(params)}){limit}:"
    if len(line) <= _WIDTH:
        return [line]
    return [
        f"kernel {function.name}{dims}(",
        *(f"{INDENT}{param}," for param in params),
        f"){limit}:",
    ]


def _block(stmt: Stmt) -> list[str]:
    """Return the lines that parse as the body `stmt`: two or more make a Seq."""
    if isinstance(stmt, Seq) and len(stmt.stmts) >= 2:
        return list(_lines_of(stmt.stmts))
    return list(_lines_of((stmt,)))


def _lines_of(stmts: Sequence[Stmt]) -> Iterator[str]:
    for stmt in stmts[:-1]:
        yield from _stmt(stmt, is_last=False)
    for stmt in stmts[-1:]:
        yield from _stmt(stmt, is_last=True)


def _stmt(stmt: Stmt, *, is_last: bool) -> Iterator[str]:
    """Yield the lines of one statement of a block; an allocation may own the lines after it."""
    match stmt:
        case For():
            yield _loop_head(stmt)
            yield from _indent(_block(stmt.body))
        case Store(buffer, indices, value):
            begun = "async " if stmt.is_async else "stream " if stmt.is_streamed else ""
            begun = "atomic " if stmt.is_atomic else begun
            yield f"{begun}{_access(buffer, indices)} = {expr_text(value)}"
        case If(condition, then, otherwise):
            yield f"if {expr_text(condition)}:"
            yield from _indent(_block(then))
            if otherwise is not None:
                yield "else:"
                yield from _indent(_block(otherwise))
        case Seq(()):
            yield "pass"
        case Seq(stmts):
            yield "seq:"
            yield from _indent(_lines_of(stmts))
        case Allocate(buffer, body):
            head = f"alloc {buffer_text(buffer)}"
            yield head if is_last else f"{head}:"
            yield from _block(body) if is_last else _indent(_block(body))
        case Barrier() | Prefetch() | Await() | Check() | CallC():
            yield _short(stmt)
        case _:
            assert_never(stmt)


def _short(stmt: Barrier | Prefetch | Await | Check | CallC) -> str:
    match stmt:
        case Check():
            return f"check {_fault(stmt)}"
        case CallC(symbol, _, inputs, output):
            return f"call {output.name} = {symbol}({', '.join(b.name for b in inputs)})"
        case Barrier(scope):
            return f"barrier {scope.value}"
        case Prefetch(buffer, indices):
            return f"prefetch {_access(buffer, indices)}"
        case Await(pending):
            return f"await {pending}"


def _fault(node: Check | Checked) -> str:
    rest = f", {_list(node.args)}" if node.args else ""
    return f'{expr_text(node.condition)}, {node.kind.value}, "{node.about}"{rest}'


def _loop_head(loop: For) -> str:
    if loop.kind is LoopKind.RAGGED:
        begin, end = map(expr_text, loop.bounds)
        return f"ragged {loop.var.name} in {begin} .. {end} of {loop.extent}:"
    bound = f" {loop.thread}" if loop.kind is LoopKind.BOUND else ""
    sharing = f" dynamic {loop.chunk}" if loop.chunk else ""
    if loop.kind in (LoopKind.PARALLEL, LoopKind.VECTORIZED) and loop.bounds:
        end = f"{expr_text(loop.bounds[1])} of {loop.extent}"
        return f"{loop.kind.value} {loop.var.name} in 0 .. {end}{sharing}:"
    ahead = f" stages {loop.stages}" if loop.stages else ""
    return f"{loop.kind.value}{bound} {loop.var.name} in 0..{loop.extent}{sharing}{ahead}:"


def _indent(lines: Iterator[str] | list[str]) -> Iterator[str]:
    return (INDENT + line for line in lines)


def _expr(expr: Expr) -> tuple[str, int]:
    """Return the text of `expr` and the precedence of its outermost operator."""
    match expr:
        case Const(value, dtype):
            return _literal(value, dtype), ATOM_LEVEL
        case Var(name):
            return name, ATOM_LEVEL
        case Binary(BinaryOp.MIN | BinaryOp.MAX as op, left, right):
            return f"{op.value}({expr_text(left)}, {expr_text(right)})", ATOM_LEVEL
        case Binary(op, left, right):
            level = LEVELS[op]
            return f"{_operand(left, level)} {op.value} {_operand(right, level + 1)}", level
        case Compare(op, left, right):
            above = COMPARE_LEVEL + 1
            return f"{_operand(left, above)} {op.value} {_operand(right, above)}", COMPARE_LEVEL
        case Not(operand):
            return f"not {_operand(operand, NOT_LEVEL)}", NOT_LEVEL
        case Select(condition, then, otherwise):
            arms = f"{expr_text(then)} if {expr_text(condition)} else {expr_text(otherwise)}"
            return f"({arms})", ATOM_LEVEL
        case Cast(dtype, operand):
            return f"cast({dtype}, {expr_text(operand)})", ATOM_LEVEL
        case Call() | Dot() | Reduce() | Shuffle() | MatrixLoad() | MatrixMultiply() | Transpose():
            return _function(expr), ATOM_LEVEL
        case Checked(value):
            return f"checked({expr_text(value)}, {_fault(expr)})", ATOM_LEVEL
        case Load(buffer, indices):
            return _access(buffer, indices), ATOM_LEVEL
        case Ramp(base, stride, lanes):
            return f"ramp({expr_text(base)}, {expr_text(stride)}, {lanes})", ATOM_LEVEL
        case Broadcast(operand, lanes):
            return f"broadcast({expr_text(operand)}, {lanes})", ATOM_LEVEL
        case _:
            assert_never(expr)


def _function(expr: Call | Dot | Reduce | Exchange) -> str:
    match expr:
        case Call(name, args):
            return f"{name}({_list(args)})"
        case Dot(terms, total, left, right, in_pairs):
            return f"dot{terms}{'_pairs' * in_pairs}({_list((total, left, right))})"
        case Reduce(op, operand):
            return f"{REDUCTIONS.get(op, op.value)}({expr_text(operand)})"
        case Shuffle(operand, distance):
            return f"shuffle({expr_text(operand)}, {distance})"
        case Transpose(operand, threads):
            return f"transpose({expr_text(operand)}, {threads})"
        case MatrixLoad(operand, is_transposed):
            return f"matrix_load{'_transposed' * is_transposed}({expr_text(operand)})"
        case MatrixMultiply(total, left, right):
            return f"matrix_multiply({_list((total, left, right))})"


def _operand(expr: Expr, level: int) -> str:
    text, binding = _expr(expr)
    return text if binding >= level else f"({text})"


def _access(buffer: Buffer, indices: Sequence[Expr]) -> str:
    return f"{buffer.name}[{_list(indices)}]"


def _list(exprs: Sequence[Expr]) -> str:
    return ", ".join(expr_text(expr) for expr in exprs)


def _literal(value: float, dtype: DType) -> str:
    """Return a literal as text; all but bools, int64 and float32 have their dtype in front."""
    bare = repr(float(value)) if dtype.is_float else repr(value)
    return bare if dtype.is_bool or dtype in (INT64, FLOAT32) else f"{dtype}({bare})"
