"""Random legal expressions, and what may stand in them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hypothesis import strategies as st

from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT64,
    DType,
)
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Compare,
    CompareOp,
    Const,
    Dot,
    Expr,
    Load,
    Not,
    Ramp,
    Reduce,
    Select,
    Var,
    const,
    dtype_of,
)
from ansorc.ir.interpret_math import integer_range
from ansorc.ir.operator import BIT_FUNCTIONS, BITWISE, MATH_FUNCTIONS, REDUCTIONS, SHIFTS

T = TypeVar("T")
FLOATS = (FLOAT32, FLOAT64, FLOAT16, BFLOAT16)
INTEGERS = (INT64, INT32, INT8, UINT8, UINT64)


@dataclass(frozen=True)
class Options:
    """What a random program may contain."""

    has_math: bool = True
    """Calls of math functions, whose last bits differ between implementations."""
    has_vectors: bool = True
    """Ramp, Broadcast and stores of vectors."""
    is_wild: bool = False
    """Anything legal: also inf, NaN, casts of floats to integers, sequences in sequences, dot
    products."""
    has_gaps: bool = False
    """Memory of which perhaps only a part is written before it is read."""


@dataclass(frozen=True)
class Place:
    """What a statement may use."""

    loops: tuple[tuple[Var, int], ...] = ()
    readable: tuple[Buffer, ...] = ()
    """Buffers that may be read at any index."""
    writable: tuple[Buffer, ...] = ()
    fixed: Mapping[str, Mapping[int, Var]] = field(default_factory=dict[str, Mapping[int, Var]])
    """The dimensions of a writable buffer that an unordered loop has for itself."""
    lanes: int = 1


class Draws:
    """Draws simple things of one program, and counts what is left of its size."""

    def __init__(self, draw: st.DrawFn, options: Options) -> None:
        self.draw, self.options = draw, options
        self.scope: set[str] = set()
        """The names of the loops and buffers around what is drawn; others may have them again."""
        self.room = 60
        """How many more nodes the expressions of the program may have."""

    def fresh(self, names: tuple[str, ...]) -> str:
        """Draw a name that nothing around has."""
        name = f"{self.one_of(names)}_{len(self.scope)}"
        self.scope.add(name)
        return name

    def number(self, low: int, high: int) -> int:
        """Draw an integer from low … high."""
        return self.draw(st.integers(low, high))

    def chance(self, one_in: int) -> bool:
        """Draw True about once in `one_in` times."""
        return self.draw(st.integers(0, one_in - 1)) == one_in - 1

    def one_of(self, options: tuple[T, ...] | list[T]) -> T:
        """Draw one of the options."""
        return self.draw(st.sampled_from(options))


class Exprs(Draws):
    """Draws expressions."""

    def index(self, extent: int, place: Place) -> Expr:
        """Draw an index of a dimension, in bounds."""
        fitting: list[Expr] = [var for var, most in place.loops if most <= extent]
        if fitting and self.chance(2):
            return self.one_of(fitting)
        if place.lanes > 1 and self.chance(2):
            base = self.one_of([const(0), const(1), *(var for var, _ in place.loops)])
            ramp = Ramp(base, const(self.one_of((1, 2, -1))), place.lanes)
            return Binary(BinaryOp.MOD, ramp, const(extent))
        if self.room < 0 or self.chance(2):
            return const(self.number(0, extent - 1))
        return Binary(BinaryOp.MOD, self.value(INT64, replace(place, lanes=1), 1), const(extent))

    def value(self, dtype: DType, place: Place, depth: int) -> Expr:
        """Draw an expression of `dtype`, of `place.lanes` lanes or one."""
        self.room -= 1
        if self.room < 0:
            return self.literal(dtype)
        if depth == 0 or self.chance(6):
            return self.leaf(dtype, place)
        if place.lanes > 1 and self.chance(4):
            return Broadcast(self.value(dtype, replace(place, lanes=1), depth - 1), place.lanes)
        if self.chance(6):
            condition = self.value(BOOL, place, depth - 1)
            arms = (self.value(dtype, place, depth - 1) for _ in range(2))
            return Select(condition, *arms)
        if dtype.is_bool:
            return self.truth(place, depth - 1)
        if self.chance(6):
            return self.cast(dtype, place, depth - 1)
        if self.options.has_vectors and self.chance(8):
            return self.reduced(dtype, place, depth - 1)
        if self.options.is_wild and dtype in (FLOAT32, INT32) and self.chance(6):
            return self.dot(dtype, place, depth - 1)
        number = self.float if dtype.is_float else self.integer
        return number(dtype, place, depth - 1)

    def reduced(self, dtype: DType, place: Place, depth: int) -> Expr:
        """Draw the combination of the lanes of a vector."""
        lanes = self.one_of((2, 4, 8))
        vector = self.value(dtype, replace(place, lanes=lanes), depth)
        if dtype_of(vector).lanes == 1:
            vector = Broadcast(vector, lanes)
        return Reduce(self.one_of(tuple(REDUCTIONS)), vector)

    def leaf(self, dtype: DType, place: Place) -> Expr:
        """Draw a literal, a loop variable or a load."""
        variables = [var for var, _ in place.loops] if dtype == INT64 else []
        buffers = [buffer for buffer in place.readable if buffer.dtype == dtype]
        found = self.one_of([None, *variables, *buffers, *buffers])
        match found:
            case None:
                return self.literal(dtype)
            case Var():
                return found
            case Buffer(_, shape):
                self.room -= 1
                return Load(found, tuple(self.index(extent, place) for extent in shape))

    def literal(self, dtype: DType) -> Const:
        """Draw a literal; wild ones are large, infinite or not a number."""
        if dtype.is_bool:
            return const(self.one_of((True, False)), BOOL)
        if dtype.is_float:
            wild = (math.inf, -math.inf, math.nan, 1e-300, 3.4e38) * self.options.is_wild
            return const(self.one_of((0.0, -0.0, 0.5, -1.25, 0.1, 3.0, *wild)), dtype)
        low, high = integer_range(dtype)
        return const(self.one_of((0, 1, 2, 7, max(low, -3), low, high)), dtype)

    def float(self, dtype: DType, place: Place, depth: int) -> Expr:
        """Draw an operation on floats."""
        if self.options.has_math and self.chance(4):
            name = self.one_of(tuple(MATH_FUNCTIONS))
            operands = range(MATH_FUNCTIONS[name])
            return Call(name, tuple(self.value(dtype, place, depth) for _ in operands))
        if not self.options.is_wild and self.chance(6):
            return Binary(BinaryOp.DIV, self.value(dtype, place, depth), const(4.0, dtype))
        ops = [BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.MIN, BinaryOp.MAX]
        ops += [BinaryOp.DIV] * self.options.is_wild
        return self.both(self.one_of(ops), dtype, place, depth)

    def integer(self, dtype: DType, place: Place, depth: int) -> Expr:
        """Draw an operation on integers."""
        if self.chance(3):
            divisor = self.one_of((2, 3, 7) if integer_range(dtype)[0] == 0 else (2, 3, 7, -3))
            op = self.one_of((BinaryOp.FLOORDIV, BinaryOp.MOD))
            return Binary(op, self.value(dtype, place, depth), const(divisor, dtype))
        if self.chance(4):
            return self.bits(dtype, place, depth)
        ops = (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.MIN, BinaryOp.MAX)
        return self.both(self.one_of(ops), dtype, place, depth)

    def bits(self, dtype: DType, place: Place, depth: int) -> Expr:
        """Draw an operation on bits; counts of shifts are any numbers."""
        if self.chance(3):
            name = self.one_of(tuple(BIT_FUNCTIONS))
            count = self.number(1, 4) if name == "popcount" else 1
            return Call(name, tuple(self.value(dtype, place, depth) for _ in range(count)))
        op = self.one_of(BITWISE)
        if op in SHIFTS and self.chance(2):
            count = const(self.number(0, dtype.bits), dtype)
            return Binary(op, self.value(dtype, place, depth), count)
        return self.both(op, dtype, place, depth)

    def dot(self, dtype: DType, place: Place, depth: int) -> Expr:
        """Draw a dot product, each operand of which is for every lane or for one."""
        narrow = [(2, BFLOAT16)] if dtype.is_float else [(4, INT8), (4, UINT8), (2, INT16)]
        terms, factor = self.one_of(narrow)
        total = self.value(dtype, place, depth)
        operands: list[Expr] = []
        for _ in range(2):
            lanes = self.one_of((terms, terms * dtype_of(total).lanes))
            found = self.value(factor, replace(place, lanes=lanes), depth)
            operands.append(found if dtype_of(found).lanes > 1 else Broadcast(found, lanes))
        left, right = operands
        return Dot(terms, total, left, right)

    def truth(self, place: Place, depth: int) -> Expr:
        """Draw a condition."""
        if self.chance(3):
            return Not(self.value(BOOL, place, depth))
        if self.chance(2):
            return self.both(self.one_of((BinaryOp.AND, BinaryOp.OR)), BOOL, place, depth)
        dtype = self.one_of((INT64, FLOAT32))
        operands = (self.value(dtype, place, depth) for _ in range(2))
        return Compare(self.one_of(tuple(CompareOp)), *operands)

    def cast(self, dtype: DType, place: Place, depth: int) -> Expr:
        """Draw a conversion to `dtype`."""
        sources = INTEGERS + (FLOATS if dtype.is_float or self.options.is_wild else ()) + (BOOL,)
        return Cast(dtype, self.value(self.one_of(sources), place, depth))

    def both(self, op: BinaryOp, dtype: DType, place: Place, depth: int) -> Expr:
        """Draw `left op right`."""
        left, right = (self.value(dtype, place, depth) for _ in range(2))
        return Binary(op, left, right)
