"""Cut the text of a loop program into tokens, indentation included, and point at mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from ansorc.errors import ParseError

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[.@][A-Za-z0-9_]+)*")
"""A name of a buffer or variable: `C`, `C.local`, `i.0@j.0`."""
RESERVED = frozenset({"and", "or", "not", "if", "else", "True", "False", "inf", "nan"})
"""Words of expressions, which cannot be names of variables."""


class TokenKind(Enum):
    """The kind of a token; a NEWLINE ends every statement, INDENT and DEDENT enclose a block."""

    NAME = "a name"
    INT = "an integer"
    FLOAT = "a float"
    STRING = "words in quotes"
    SYMBOL = "a symbol"
    NEWLINE = "the end of the line"
    INDENT = "an indented block"
    DEDENT = "the end of the block"
    END = "the end of the text"


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text with its line and column, counted from 0."""

    kind: TokenKind
    text: str
    line: int
    column: int


_PATTERN = re.compile(
    rf"""(?P<space>[ ]+|\#.*)
    |(?P<NAME>{NAME.pattern})
    |(?P<FLOAT>[0-9]+\.[0-9]+(?:e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+)
    |(?P<INT>[0-9]+)
    |(?P<STRING>"[^"]*")
    |(?P<SYMBOL>\.\.|==|!=|<<|>>|<=|>=|//|[-+*/%<>&|^=(),:\[\]])""",
    re.VERBOSE,
)


class Tokens:
    """The tokens of a text, read from left to right."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines() or [""]
        self._tokens = list(self._cut())
        self._at = 0

    @property
    def next(self) -> Token:
        """The first token that was not read."""
        return self._tokens[self._at]

    @property
    def after_next(self) -> Token:
        """The token after `next`."""
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    def take(self) -> Token:
        """Read the next token."""
        token = self.next
        self._at += 1
        return token

    def expect(self, kind: TokenKind) -> Token:
        """Read the next token, which must be of `kind`."""
        if self.next.kind is not kind:
            raise self.error(f"expected {kind.value}, found {self._describe_next()}")
        return self.take()

    def accept(self, text: str) -> bool:
        """Read the next token if it is the symbol or word `text`; return whether it was."""
        is_next = self.next.text == text and self.next.kind in (TokenKind.SYMBOL, TokenKind.NAME)
        self._at += is_next
        return is_next

    def require(self, text: str) -> None:
        """Read the next token, which must be the symbol or word `text`."""
        if not self.accept(text):
            raise self.error(f"expected '{text}', found {self._describe_next()}")

    def error(self, reason: str, at: Token | None = None) -> ParseError:
        """Return the error with the line of `at` (default: of the next token) and a caret."""
        token = at or self.next
        return self._error(reason, token.line, token.column)

    def _describe_next(self) -> str:
        return f"'{self.next.text}'" if self.next.text else self.next.kind.value

    def _error(self, reason: str, line: int, column: int) -> ParseError:
        shown = self._lines[line]
        return ParseError(f"line {line + 1}: {reason}\n    {shown}\n    {' ' * column}^")

    def _cut(self) -> Iterator[Token]:
        indents = [0]
        depth = 0
        for number, line in enumerate(self._lines):
            content = line.split("#")[0].strip()
            if not content:
                continue
            if depth == 0:
                yield from self._indentation(number, indents)
            for token in self._line_tokens(number):
                depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
                yield token
            if depth <= 0:
                yield Token(TokenKind.NEWLINE, "", number, len(line.rstrip()))
        last = len(self._lines) - 1
        end = len(self._lines[last])
        yield from (Token(TokenKind.DEDENT, "", last, end) for _ in indents[1:])
        yield Token(TokenKind.END, "", last, end)

    def _indentation(self, number: int, indents: list[int]) -> Iterator[Token]:
        line = self._lines[number]
        width = len(line) - len(line.lstrip())
        if width > indents[-1]:
            indents.append(width)
            yield Token(TokenKind.INDENT, "", number, width)
        while width < indents[-1]:
            indents.pop()
            yield Token(TokenKind.DEDENT, "", number, width)
        if width != indents[-1]:
            raise self._error("this indentation matches no block above", number, width)

    def _line_tokens(self, number: int) -> Iterator[Token]:
        line, column = self._lines[number].rstrip(), 0
        while column < len(line):
            match_ = _PATTERN.match(line, column)
            if match_ is None:
                raise self._error(f"'{line[column]}' has no meaning here", number, column)
            kind = match_.lastgroup
            if kind != "space" and kind is not None:
                yield Token(TokenKind[kind], match_[0], number, column)
            column = match_.end()
