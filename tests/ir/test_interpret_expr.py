"""The interpreter gives, bit for bit, what a slow walk over the tree with NumPy scalars gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import example, given

from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import DType
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
    Ramp,
    Reduce,
    Select,
    Shuffle,
    Transpose,
    Var,
    dtype_of,
)
from ansorc.ir.interpret import interpret
from ansorc.ir.interpret_math import math_function
from ansorc.ir.operator import BIT_FUNCTIONS
from ansorc.ir.parser import parse
from ansorc.ir.stmt import (
    Allocate,
    Await,
    Barrier,
    CallC,
    Check,
    For,
    Function,
    If,
    Prefetch,
    Seq,
    Stmt,
    Store,
)
from tests.support.ir_strategies import Options, arrays_for, functions
from tests.support.nightly import examples


def smaller(a: Any, b: Any) -> Any:
    return b if a == b else np.minimum(a, b)


def larger(a: Any, b: Any) -> Any:
    return b if a == b else np.maximum(a, b)


BINARY: dict[BinaryOp, Callable[..., Any]] = {
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.BIT_AND: np.bitwise_and,
    BinaryOp.BIT_OR: np.bitwise_or,
    BinaryOp.BIT_XOR: np.bitwise_xor,
    BinaryOp.SHL: np.left_shift,
    BinaryOp.SHR: np.right_shift,
    BinaryOp.MUL: np.multiply,
    BinaryOp.DIV: np.true_divide,
    BinaryOp.FLOORDIV: np.floor_divide,
    BinaryOp.MOD: np.remainder,
    BinaryOp.MIN: smaller,
    BinaryOp.MAX: larger,
    BinaryOp.AND: np.logical_and,
    BinaryOp.OR: np.logical_or,
}
COMPARE: dict[CompareOp, Callable[..., Any]] = {
    CompareOp.EQ: np.equal,
    CompareOp.NE: np.not_equal,
    CompareOp.LT: np.less,
    CompareOp.LE: np.less_equal,
    CompareOp.GT: np.greater,
    CompareOp.GE: np.greater_equal,
}


class Walker:
    """Runs statements; every value is a NumPy scalar of its dtype."""

    def __init__(self, memory: dict[str, np.ndarray[Any, Any]]) -> None:
        self.memory, self.env = memory, dict[str, int]()

    def run(self, stmt: Stmt) -> None:
        match stmt:
            case For(var, extent, _, body):
                for number in range(extent):
                    self.env[var.name] = number
                    self.run(body)
            case Store(_, indices, _):
                self.store(stmt, range(max((dtype_of(x).lanes for x in indices), default=1)))
            case If(condition, Store() as store) if (lanes := dtype_of(condition).lanes) > 1:
                self.store(store, [lane for lane in range(lanes) if self.value(condition, lane)])
            case If(condition, then, otherwise):
                if self.value(condition, 0):
                    self.run(then)
                elif otherwise is not None:
                    self.run(otherwise)
            case Seq(stmts):
                for inner in stmts:
                    self.run(inner)
            case Allocate(buffer, body):
                self.memory[buffer.name] = np.zeros(buffer.shape, buffer.dtype.numpy)
                self.run(body)
            case Prefetch() | Await():
                pass
            case Barrier() | Check() | CallC():
                raise AssertionError("these programs have no threads, checks or functions in C")

    def store(self, store: Store, lanes: Sequence[int]) -> None:
        places = [self.place(store.buffer, store.indices, lane) for lane in lanes]
        values = [self.value(store.value, lane) for lane in lanes]
        for place, element in zip(places, values, strict=True):
            self.memory[store.buffer.name][place] = element

    def place(self, buffer: Buffer, indices: tuple[Expr, ...], lane: int) -> tuple[int, ...]:
        found = tuple(int(self.value(index, lane)) for index in indices)
        assert all(0 <= at < extent for at, extent in zip(found, buffer.shape, strict=True))
        return found

    def value(self, expr: Expr, lane: int) -> Any:
        match expr:
            case Shuffle() | MatrixLoad() | MatrixMultiply() | Transpose() | Checked():
                raise AssertionError("these programs have no threads and no checks")
            case Const(value, dtype):
                return np.array(value).astype(dtype.numpy)[()]
            case Var(name):
                return np.int64(self.env[name])
            case Binary(op, left, right):
                return BINARY[op](self.value(left, lane), self.value(right, lane))
            case Compare(op, left, right):
                return COMPARE[op](self.value(left, lane), self.value(right, lane))
            case Not(operand):
                return np.logical_not(self.value(operand, lane))
            case Select(condition, then, otherwise):
                return self.value(then if self.value(condition, lane) else otherwise, lane)
            case Cast(dtype, operand):
                return converted(self.value(operand, lane), dtype)
            case Call() | Dot():
                return self.call(expr, lane)
            case Load(buffer, indices):
                return self.memory[buffer.name][self.place(buffer, indices, lane)]
            case Ramp(base, stride, _):
                step = self.value(stride, lane)
                return self.value(base, lane) + step * np.array(lane).astype(step.dtype)[()]
            case Broadcast(operand, _):
                return self.value(operand, lane)
            case Reduce():
                return self.reduce(expr)

    def reduce(self, expr: Reduce) -> Any:
        lanes = range(dtype_of(expr.operand).lanes)
        found = [self.value(expr.operand, place) for place in lanes]
        while len(found) > 1:
            half = len(found) // 2
            found = list(map(BINARY[expr.op], found[:half], found[half:]))
        return found[0]

    def call(self, expr: Call | Dot, lane: int) -> Any:
        if isinstance(expr, Call) and expr.name in BIT_FUNCTIONS:
            counts = [count_bits(expr.name, self.value(arg, lane)) for arg in expr.args]
            return np.add.reduce(counts, dtype=counts[0].dtype)
        if isinstance(expr, Call):
            function = math_function(expr.name, dtype_of(expr).element)
            return function(*(self.value(arg, lane) for arg in expr.args))
        terms, total, sides = expr.terms, self.value(expr.total, lane), (expr.left, expr.right)
        for term in reversed(range(terms)):
            places = [term if dtype_of(x).lanes == terms else lane * terms + term for x in sides]
            a, b = (self.value(x, at) for x, at in zip(sides, places, strict=True))
            total = total + a.astype(total.dtype) * b.astype(total.dtype)
        return total


def count_bits(name: str, value: Any) -> Any:
    """Return a function of bits by the text of an integer."""
    text = np.binary_repr(value, value.dtype.itemsize * 8)
    zeros = {"clz": text.lstrip("0"), "ctz": text.rstrip("0")}
    number = text.count("1") if name == "popcount" else len(text) - len(zeros[name])
    return value.dtype.type(number)


def converted(value: Any, dtype: DType) -> Any:
    if not np.issubdtype(value.dtype, np.floating) and value.dtype.kind != "V":
        return value.astype(dtype.numpy)
    if not dtype.is_integer:
        return value.astype(dtype.numpy)
    info, wide = np.iinfo(dtype.name), float(value)
    if np.isnan(wide):
        return info.dtype.type(0)
    return info.dtype.type(info.max if wide > info.max else info.min if wide < info.min else wide)


MASKED = """
kernel f(X: float32[2], Y: float32[2]):
    if ramp(0, 1, 2) >= broadcast(1, 2):
        Y[ramp(0, 1, 2)] = X[ramp(0, 1, 2)]
"""


@examples(30, nightly=150)
@given(functions(Options(is_wild=True)))
@example(parse(MASKED))
def test_interpreter_is_the_walk(function: Function) -> None:
    walked, interpreted = (arrays_for(function, seed=7) for _ in range(2))
    names = [buffer.name for buffer in function.params]
    with np.errstate(all="ignore"):
        Walker(dict(zip(names, walked, strict=True))).run(function.body)
    interpret(function, interpreted)
    for wanted, found in zip(walked, interpreted, strict=True):
        np.testing.assert_array_equal(found, wanted)
        if wanted.dtype.kind == "f":  # also the signs of zeros
            kept = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.signbit(found[kept]), np.signbit(wanted[kept]))
