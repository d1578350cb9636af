"""Read the text of a loop program: `parse(to_text(function)) == function`.

The grammar is in docs/language.md. Names and counts are checked here, dtypes by `verify`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dim import MARK, Dim, Size, parse_size
from ansorc.ir.dtype import SCALARS
from ansorc.ir.expr import Expr, Var, const
from ansorc.ir.lexer import TokenKind, Tokens
from ansorc.ir.own_function import OwnFunction
from ansorc.ir.parse_expr import ExprParser
from ansorc.ir.stmt import (
    THREADS,
    Allocate,
    Await,
    Barrier,
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

T = TypeVar("T")

_LOOPS = {kind.value: kind for kind in LoopKind}
_WORDS = (
    "if", "alloc", "seq", "pass", "barrier", "prefetch", "async", "await", "stream", "check",
)  # fmt: skip
_SCOPES = {scope.value: scope for scope in Scope}
_ENDS = (":", "dynamic")
"""What may follow the extent of a parallel loop."""


def parse(text: str) -> Function:
    """Return the function of `text`; raise ParseError with the wrong line."""
    return _Parser(Tokens(text), {}, {}).function()


def parse_expr(
    text: str,
    buffers: Mapping[str, Buffer],
    variables: Mapping[str, Var],
    functions: Mapping[str, OwnFunction] | None = None,
) -> Expr:
    """Return the expression `text` over `buffers` and `variables`; raise ParseError.

    `functions` are those of the user's that it may call, by symbol.
    """
    tokens = Tokens(text)
    result = ExprParser(tokens, buffers, variables, functions).expr()
    tokens.expect(TokenKind.NEWLINE)
    tokens.expect(TokenKind.END)
    return result


class _Parser:
    """Reads statements where `buffers` and `variables` are in scope."""

    def __init__(
        self,
        tokens: Tokens,
        buffers: Mapping[str, Buffer],
        variables: Mapping[str, Var],
        dims: Mapping[str, Dim] | None = None,
    ) -> None:
        self._tokens, self._buffers, self._variables = tokens, buffers, variables
        self._exprs = ExprParser(tokens, buffers, variables)
        self._dims: Mapping[str, Dim] = dims or {}

    def function(self) -> Function:
        """Read a whole text."""
        self._tokens.require("kernel")
        name = self._name()
        self._dims = self._read_dims()
        self._tokens.require("(")
        params: list[Buffer] = []
        while not self._tokens.accept(")"):
            params.append(self._buffer())
            if self._tokens.next.text != ")":
                self._tokens.require(",")
        is_limited = self._tokens.accept("threads")
        threads = int(self._tokens.expect(TokenKind.INT).text) if is_limited else 0
        is_checked = not self._tokens.accept("unchecked")
        body = self._with_buffers(params)._block()
        self._tokens.expect(TokenKind.END)
        dims = tuple(self._dims.values())
        return Function(name, tuple(params), body, threads, is_checked, dims)

    def _with_buffers(self, buffers: Sequence[Buffer]) -> _Parser:
        """Return a reader of statements where `buffers` are in scope, too."""
        known = {**self._buffers, **{buffer.name: buffer for buffer in buffers}}
        return _Parser(self._tokens, known, self._variables, self._dims)

    def _with_variable(self, var: Var) -> _Parser:
        """Return a reader of statements where a loop variable is in scope, too."""
        known = {**self._variables, var.name: var}
        return _Parser(self._tokens, self._buffers, known, self._dims)

    def _read_dims(self) -> dict[str, Dim]:
        """Read the dimensions that the caller gives."""
        dims: dict[str, Dim] = {}
        while self._tokens.accept("," if dims else "["):
            name = self._name()
            self._tokens.require(":")
            low = int(self._tokens.expect(TokenKind.INT).text)
            self._tokens.require("..")
            high = int(self._tokens.expect(TokenKind.INT).text)
            by = self._tokens.expect(TokenKind.INT).text if self._tokens.accept("by") else "1"
            dims[name] = Dim(name, low, high, int(by))
        if dims:
            self._tokens.require("]")
        return dims

    def _block(self) -> Stmt:
        return _join(self._lines_of_block())

    def _lines_of_block(self) -> list[Stmt]:
        self._tokens.require(":")
        self._tokens.expect(TokenKind.NEWLINE)
        self._tokens.expect(TokenKind.INDENT)
        stmts = self._rest()
        self._tokens.expect(TokenKind.DEDENT)
        return stmts

    def _rest(self) -> list[Stmt]:
        """Read the statements up to the end of the block."""
        stmts: list[Stmt] = []
        while self._tokens.next.kind not in (TokenKind.DEDENT, TokenKind.END):
            stmts.append(self._stmt())
        if not stmts:
            raise self._tokens.error("expected a statement; write 'pass' for none")
        return stmts

    def _stmt(self) -> Stmt:
        if self._tokens.after_next.text == "[":
            return self._store()
        word = self._tokens.expect(TokenKind.NAME)
        match word.text:
            case text if text in _LOOPS:
                return self._loop(_LOOPS[text])
            case "if":
                return self._if()
            case "alloc":
                return self._allocate()
            case "seq":
                return Seq(tuple(self._lines_of_block()))
            case "pass":
                self._tokens.expect(TokenKind.NEWLINE)
                return Seq(())
            case "async":
                return replace(self._store(), is_async=True)
            case "stream":
                return replace(self._store(), is_streamed=True)
            case "atomic":
                return replace(self._store(), is_atomic=True)
            case "barrier" | "prefetch" | "await" | "check":
                return self._leaf(word.text)
            case text:
                known = ", ".join((*_LOOPS, *_WORDS))
                raise self._tokens.error(
                    f"'{text}' begins no statement; expected {known} or a store 'A[i] = …'", word
                )

    def _store(self) -> Store:
        buffer = self._exprs.find_buffer(self._tokens.expect(TokenKind.NAME))
        indices = self._exprs.indices()
        self._tokens.require("=")
        value = self._exprs.expr()
        self._tokens.expect(TokenKind.NEWLINE)
        return Store(buffer, indices, value)

    def _leaf(self, word: str) -> Stmt:
        """Read the rest of a line that begins with `word` and is not a store."""
        stmt: Stmt
        match word:
            case "barrier":
                stmt = Barrier(self._word(_SCOPES))
            case "prefetch":
                buffer = self._exprs.find_buffer(self._tokens.expect(TokenKind.NAME))
                stmt = Prefetch(buffer, self._exprs.indices())
            case "await":
                stmt = Await(int(self._tokens.expect(TokenKind.INT).text))
            case _:
                stmt = Check(*self._exprs.fault(""))
        self._tokens.expect(TokenKind.NEWLINE)
        return stmt

    def _loop(self, kind: LoopKind) -> Stmt:
        thread = self._word({name: name for name in THREADS}) if kind is LoopKind.BOUND else ""
        var = Var(self._name())
        self._tokens.require("in")
        if kind is LoopKind.RAGGED:
            return self._ragged(var)
        start = self._tokens.expect(TokenKind.INT)
        if start.text != "0":
            raise self._tokens.error("loops start at 0", start)
        self._tokens.require("..")
        is_known = self._tokens.next.kind is TokenKind.INT and self._tokens.after_next.text in _ENDS
        if kind in (LoopKind.PARALLEL, LoopKind.VECTORIZED) and not is_known:
            return self._sized_loop(kind, var)
        extent = int(self._tokens.expect(TokenKind.INT).text)
        chunk = self._chunk() if kind is LoopKind.PARALLEL else 0
        is_ahead = kind is LoopKind.SERIAL and self._tokens.accept("stages")
        stages = int(self._tokens.expect(TokenKind.INT).text) if is_ahead else 0
        body = self._with_variable(var)._block()
        if kind is LoopKind.SIZE:
            low = self._dims[var.name.removeprefix(MARK)].bounds[0]
            return For(var, extent, kind, body, begin=const(low), end=const(extent))
        return For(var, extent, kind, body, thread, chunk, stages)

    def _sized_loop(self, kind: LoopKind, var: Var) -> Stmt:
        """Read the end and the body of a loop of a size that the caller gives."""
        end = self._exprs.expr()
        self._tokens.require("of")
        extent = int(self._tokens.expect(TokenKind.INT).text)
        chunk = self._chunk()
        body = self._with_variable(var)._block()
        return For(var, extent, kind, body, chunk=chunk, begin=const(0), end=end)

    def _ragged(self, var: Var) -> Stmt:
        """Read the range and the body of a loop whose range is data."""
        begin = self._exprs.expr()
        self._tokens.require("..")
        end = self._exprs.expr()
        self._tokens.require("of")
        extent = int(self._tokens.expect(TokenKind.INT).text)
        body = self._with_variable(var)._block()
        return For(var, extent, LoopKind.RAGGED, body, begin=begin, end=end)

    def _chunk(self) -> int:
        if not self._tokens.accept("dynamic"):
            return 0
        count = self._tokens.expect(TokenKind.INT)
        if int(count.text) < 1:
            raise self._tokens.error("a chunk has 1 iteration or more", count)
        return int(count.text)

    def _if(self) -> Stmt:
        condition = self._exprs.expr()
        then = self._block()
        is_else = self._tokens.next.text == "else" and self._tokens.after_next.text == ":"
        if not is_else:
            return If(condition, then)
        self._tokens.take()
        return If(condition, then, self._block())

    def _allocate(self) -> Stmt:
        buffer = self._buffer()
        inner = self._with_buffers([buffer])
        if self._tokens.next.text == ":":
            return Allocate(buffer, inner._block())
        self._tokens.expect(TokenKind.NEWLINE)
        return Allocate(buffer, _join(inner._rest()))

    def _buffer(self) -> Buffer:
        name = self._name()
        self._tokens.require(":")
        dtype = self._word(SCALARS)
        self._tokens.require("[")
        shape: list[int] = []
        sizes: list[Size | None] = []
        while not self._tokens.accept("]"):
            sizes.append(self._size())
            shape.append(int(self._tokens.expect(TokenKind.INT).text))
            if self._tokens.next.text != "]":
                self._tokens.require(",")
        is_dynamic = any(size is not None for size in sizes)
        buffer = Buffer(name, tuple(shape), dtype, sizes=tuple(sizes) if is_dynamic else ())
        if self._tokens.next.text in _SCOPES:
            buffer = replace(buffer, scope=self._word(_SCOPES))
        if self._tokens.accept("in"):
            low = self._exprs.number(buffer.dtype)
            self._tokens.require("..")
            buffer = replace(buffer, promised=(low, self._exprs.number(buffer.dtype)))
        if self._tokens.accept("sorted"):
            buffer = replace(buffer, is_sorted=True)
        if self._tokens.accept("complex"):
            buffer = replace(buffer, is_complex=True)
        buffer = replace(buffer, constant=self._tokens.accept("constant"))
        return replace(buffer, is_updated=self._tokens.accept("updated"))

    def _size(self) -> Size | None:
        """Read the size in front of an extent that the caller gives; None if there is none."""
        token = self._tokens.next
        if token.kind is TokenKind.INT and self._tokens.after_next.text in ("]", ","):
            return None
        words: list[str] = []
        while not self._tokens.accept("of"):
            words.append(self._tokens.take().text)
            if self._tokens.next.kind is TokenKind.NEWLINE:
                raise self._tokens.error("expected an extent, or 'SIZE of EXTENT'", token)
        size = parse_size(" ".join(words), self._dims)
        if isinstance(size, int):
            raise self._tokens.error("expected a size that depends on a dimension", token)
        return size

    def _name(self) -> str:
        return self._tokens.expect(TokenKind.NAME).text

    def _word(self, words: Mapping[str, T]) -> T:
        token = self._tokens.expect(TokenKind.NAME)
        if token.text not in words:
            raise self._tokens.error(f"expected one of {', '.join(words)}", token)
        return words[token.text]


def _join(stmts: list[Stmt]) -> Stmt:
    return stmts[0] if len(stmts) == 1 else Seq(tuple(stmts))
