"""Read expressions: the part of the parser for the inside of a line."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import BOOL, FLOAT32, INT64, SCALARS, DType
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Checked,
    Compare,
    CompareOp,
    Const,
    Dot,
    Expr,
    Load,
    MatrixLoad,
    MatrixMultiply,
    Not,
    OwnCall,
    Ramp,
    Reduce,
    Select,
    Shuffle,
    Transpose,
    Var,
)
from ansorc.ir.fault import FaultKind
from ansorc.ir.lexer import Token, TokenKind, Tokens
from ansorc.ir.operator import (
    BIT_FUNCTIONS,
    DOT_FUNCTIONS,
    MATH_FUNCTIONS,
    REDUCTIONS,
    has_operands,
)
from ansorc.ir.own_function import OwnFunction
from ansorc.ir.printer import ATOM_LEVEL, COMPARE_LEVEL, LEVELS, NOT_LEVEL

_INFIX = {op.value: op for op in LEVELS}
_COMPARISONS = {op.value: op for op in CompareOp}
_EXTREMES = {"min": BinaryOp.MIN, "max": BinaryOp.MAX}
_FAULTS = {kind.value: kind for kind in FaultKind}
_REDUCERS = {name: op for op, name in REDUCTIONS.items()}
_OPERANDS = {
    **dict.fromkeys(_EXTREMES, 2), **MATH_FUNCTIONS, **BIT_FUNCTIONS,
    **dict.fromkeys(DOT_FUNCTIONS, 3),
    "matrix_load": 1, "matrix_load_transposed": 1, "matrix_multiply": 3,
}  # fmt: skip
"""Functions whose operands are all expressions, and the number of operands."""
_FUNCTIONS = (
    *_EXTREMES, "cast", "checked", "ramp", "broadcast", "shuffle", "transpose", *_REDUCERS,
    *list(_OPERANDS)[2:], *SCALARS,
)  # fmt: skip


class ExprParser:
    """Reads expressions where `buffers` and `variables` are in scope."""

    def __init__(
        self,
        tokens: Tokens,
        buffers: Mapping[str, Buffer],
        variables: Mapping[str, Var],
        functions: Mapping[str, OwnFunction] | None = None,
    ) -> None:
        self._tokens, self._buffers, self._variables = tokens, buffers, variables
        self._functions = functions or {}

    def expr(self, level: int = 0) -> Expr:
        """Read an expression whose operators bind at least as tightly as `level`."""
        is_load = self._tokens.after_next.text == "["
        if level <= NOT_LEVEL and not is_load and self._tokens.accept("not"):
            left: Expr = Not(self.expr(NOT_LEVEL))
            bound = NOT_LEVEL
        else:
            left, bound = self._primary(), ATOM_LEVEL
        while (new := self._continue(left, level, bound)) is not None:
            left, bound = new
        return left

    def _continue(self, left: Expr, level: int, bound: int) -> tuple[Expr, int] | None:
        """Read one operator after `left` and its right operand; return None if there is none.

        `bound` is the precedence of `left` itself: only a looser operator may follow.
        """
        text = self._tokens.next.text
        if text in _COMPARISONS:
            if level > COMPARE_LEVEL or bound <= COMPARE_LEVEL:
                return None
            self._tokens.take()
            right = self.expr(COMPARE_LEVEL + 1)
            return Compare(_COMPARISONS[text], left, right), COMPARE_LEVEL
        op = _INFIX.get(text)
        if op is None or LEVELS[op] < level or bound < LEVELS[op]:
            return None
        self._tokens.take()
        return Binary(op, left, self.expr(LEVELS[op] + 1)), LEVELS[op]

    def indices(self) -> tuple[Expr, ...]:
        """Read `[i, j]`."""
        self._tokens.require("[")
        return self._list("]")

    def number(self, dtype: DType) -> float:
        """Read a literal of `dtype`, which may have a sign."""
        return self._number(dtype).value

    def find_buffer(self, name: Token) -> Buffer:
        """Return the buffer in scope with the name of the token `name`."""
        buffer = self._buffers.get(name.text)
        if buffer is None:
            known = ", ".join(self._buffers) or "none"
            raise self._tokens.error(
                f"there is no buffer '{name.text}' here; there is {known}", name
            )
        return buffer

    def _primary(self) -> Expr:
        tokens = self._tokens
        if tokens.after_next.text == "[":
            return Load(self.find_buffer(tokens.expect(TokenKind.NAME)), self.indices())
        token = tokens.next
        if token.kind in (TokenKind.INT, TokenKind.FLOAT) or token.text in ("-", "inf", "nan"):
            return self._number(None)
        if tokens.accept("("):
            return self._parentheses()
        name = tokens.expect(TokenKind.NAME)
        if tokens.accept("("):
            return self._call(name)
        if name.text in ("True", "False"):
            return Const(name.text == "True", BOOL)
        var = self._variables.get(name.text)
        if var is None:
            known = ", ".join(self._variables) or "none"
            raise tokens.error(f"there is no variable '{name.text}' here; there is {known}", name)
        return var

    def _parentheses(self) -> Expr:
        then = self.expr()
        if not self._tokens.accept("if"):
            self._tokens.require(")")
            return then
        condition = self.expr()
        self._tokens.require("else")
        otherwise = self.expr()
        self._tokens.require(")")
        return Select(condition, then, otherwise)

    def _number(self, dtype: DType | None) -> Const:
        """Read a literal; without `dtype` it is int64 or float32, by its form."""
        sign = -1 if self._tokens.accept("-") else 1
        token = self._tokens.take()
        is_float = token.kind is TokenKind.FLOAT or token.text in ("inf", "nan")
        if not is_float and token.kind is not TokenKind.INT:
            raise self._tokens.error("expected a number", token)
        dtype_ = dtype or (FLOAT32 if is_float else INT64)
        if dtype_.is_float != is_float or dtype_.is_bool:
            raise self._tokens.error(f"{token.text} is no literal of {dtype_}", token)
        if token.text == "nan":
            return Const(math.nan, dtype_)
        return Const(sign * (float(token.text) if is_float else int(token.text)), dtype_)

    def _call(self, name: Token) -> Expr:
        match name.text:
            case "cast":
                return self._cast()
            case "checked":
                value = self.expr()
                self._tokens.require(",")
                return Checked(value, *self.fault(")"))
            case "ramp":
                base, stride = self.expr(), self._next_argument()
                return Ramp(base, stride, self._lanes())
            case "broadcast":
                return Broadcast(self.expr(), self._lanes())
            case "shuffle":
                return Shuffle(self.expr(), self._lanes())
            case "transpose":
                return Transpose(self.expr(), self._lanes())
            case text if text in _REDUCERS:
                operand = self.expr()
                self._tokens.require(")")
                return Reduce(_REDUCERS[text], operand)
            case text if text in SCALARS:
                literal = self._number(SCALARS[text])
                self._tokens.require(")")
                return literal
            case _:
                return self._function(name, self._list(")"))

    def fault(self, closing: str) -> tuple[Expr, FaultKind, str, tuple[Expr, ...]]:
        """Read a condition, a kind of fault, its subject, and its arguments.

        They end at `closing`, or at the end of the line if `closing` is empty.
        """
        condition = self._first_of_fault()
        word = self._tokens.expect(TokenKind.NAME)
        if word.text not in _FAULTS:
            known = ", ".join(_FAULTS)
            raise self._tokens.error(f"'{word.text}' is no kind of fault; use {known}", word)
        self._tokens.require(",")
        about, args = self._tokens.expect(TokenKind.STRING).text[1:-1], list[Expr]()
        while self._tokens.accept(","):
            args.append(self.expr())
        if closing:
            self._tokens.require(closing)
        return condition, _FAULTS[word.text], about, tuple(args)

    def _first_of_fault(self) -> Expr:
        condition = self.expr()
        self._tokens.require(",")
        return condition

    def _cast(self) -> Expr:
        dtype = self._tokens.expect(TokenKind.NAME)
        if dtype.text not in SCALARS:
            raise self._tokens.error(f"'{dtype.text}' is no dtype; use {', '.join(SCALARS)}", dtype)
        operand = self._next_argument()
        self._tokens.require(")")
        return Cast(SCALARS[dtype.text], operand)

    def _function(self, name: Token, args: tuple[Expr, ...]) -> Expr:
        own = self._functions.get(name.text)
        if own is not None and len(args) == len(own.arguments):
            return OwnCall(name.text, args, own)
        count = _OPERANDS.get(name.text)
        if count is None:
            raise self._tokens.error(
                f"there is no function '{name.text}'; there is {', '.join(_FUNCTIONS)}", name
            )
        is_right = has_operands(name.text, len(args)) or len(args) == count
        if not is_right:
            raise self._tokens.error(f"{name.text} takes {count} operands, not {len(args)}", name)
        match name.text:
            case "matrix_load" | "matrix_load_transposed" as text:
                return MatrixLoad(args[0], text.endswith("transposed"))
            case "matrix_multiply":
                return MatrixMultiply(*args)
            case text if text in DOT_FUNCTIONS:
                return Dot(DOT_FUNCTIONS[text], *args, in_pairs=text.endswith("_pairs"))
            case text if text in _EXTREMES:
                return Binary(_EXTREMES[text], *args)
            case text:
                return Call(text, args)

    def _next_argument(self) -> Expr:
        self._tokens.require(",")
        return self.expr()

    def _lanes(self) -> int:
        self._tokens.require(",")
        lanes = int(self._tokens.expect(TokenKind.INT).text)
        self._tokens.require(")")
        return lanes

    def _list(self, closing: str) -> tuple[Expr, ...]:
        exprs: list[Expr] = []
        while not self._tokens.accept(closing):
            exprs.append(self.expr())
            if self._tokens.next.text != closing:
                self._tokens.require(",")
        return tuple(exprs)
