"""Write the code of an expression; its value is an operand."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from math import copysign

from ansorc.codegen.llvm.condition import compare_linear, connect, constant_value, make_ramp, negate
from ansorc.codegen.llvm.dot import dot_product, widen_mask
from ansorc.codegen.llvm.index import IndexWriter
from ansorc.codegen.llvm.lane_index import LaneIndex, Symbol
from ansorc.codegen.llvm.math import across_lanes, arithmetic, cast, comparison, math_call, power_of
from ansorc.codegen.llvm.memory import MemoryWriter
from ansorc.codegen.llvm.own_function import own_call
from ansorc.codegen.llvm.popcount import count_bits, joins_words
from ansorc.codegen.llvm.types import Value, literal, register_type
from ansorc.codegen.llvm.vector import any_lane, splat
from ansorc.codegen.llvm.writer import FunctionWriter
from ansorc.errors import BuildError
from ansorc.ir.dtype import INT64, DType
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
    Not,
    OwnCall,
    Ramp,
    Reduce,
    Select,
    Var,
    dtype_of,
)  # fmt: skip
from ansorc.ir.node import walk
from ansorc.ir.passes.queries import reads_memory
from ansorc.ir.printer import expr_text

_CHEAP = {"sqrt", "abs", "floor", "ceil", "round", "trunc", "copysign", "fma"}


class ExprWriter:
    """The expressions of one function."""

    def __init__(self, writer: FunctionWriter) -> None:
        self._writer = writer
        self.index = IndexWriter(writer, self.value)
        self.memory = MemoryWriter(writer, self.index)
        self._mask: Value | None = None

    def value(self, expr: Expr) -> Value:
        """Write the code of `expr` here."""
        match expr:
            case Load(buffer, indices):
                return self.memory.load(buffer, indices, self._mask)
            case Binary(op, left, right):
                return self._binary(expr, op, left, right)
            case Const(value, dtype):
                return literal(value, dtype)
            case Broadcast(operand, lanes):
                return splat(self._writer, self.value(operand), lanes)
            case Compare():
                return self._compare(expr)
            case Select(condition, _, _):
                return self._select(expr, self.value(condition))
            case Cast(dtype, operand):
                return cast(self._writer, self.value(operand), dtype)
            case OwnCall(_, args, function):
                return own_call(self._writer, function, [self.value(arg) for arg in args])
            case Call(name, args):
                return self._call(name, args)
            case Dot():
                return self._dot(expr)
            case Not(operand):
                return negate(self._writer, self.value(operand))
            case Var(name, dtype):
                return cast(self._writer, self.index.materialize(self.index.variables[name]), dtype)
            case Ramp(base, stride, lanes):
                return self._ramp(self.value(base), self.value(stride), lanes)
            case _:
                return self._across(expr)

    def _call(self, name: str, args: tuple[Expr, ...]) -> Value:
        exponent = args[-1].operand if isinstance(args[-1], Broadcast) else args[-1]
        dtype = dtype_of(args[0])
        are_alike = name == "popcount" and {dtype} == set(map(dtype_of, args))
        if are_alike and joins_words(self._writer, dtype, len(args)):
            return count_bits(self._writer, map(self.value, args), dtype)
        values = [self.value(arg) for arg in args]
        if name == "pow" and isinstance(exponent, Const):
            lanes = max(value.dtype.lanes for value in values)
            base = splat(self._writer, values[0], lanes)
            power = power_of(self._writer, base, float(exponent.value))
            if power is not None:
                return power
        return math_call(self._writer, name, values)

    def _across(self, expr: Reduce | Exchange | Checked) -> Value:
        if isinstance(expr, Checked):
            raise BuildError(f"{expr_text(expr)} is no check yet; insert_checks has to run before")
        if not isinstance(expr, Reduce):
            raise BuildError(
                f"{expr_text(expr)} is between threads of a warp, which only GPUs have"
            )
        return self._reduce(expr.op, expr.operand)

    def _binary(self, expr: Binary, op: BinaryOp, left: Expr, right: Expr) -> Value:
        if _element(expr) == INT64 and (linear := self.index.linear(expr)) is not None:
            return self._write_ramp(linear)
        a, b = self.value(left), self.value(right)
        if op in (BinaryOp.AND, BinaryOp.OR):
            return connect(self._writer, op, a, b)
        return arithmetic(self._writer, op, a, b)

    def _compare(self, expr: Compare) -> Value:
        if _element(expr.left) == INT64:
            left, right = self.index.linear(expr.left), self.index.linear(expr.right)
            if left is not None and right is not None:
                compared = compare_linear(self._writer, self.index, expr.op, left, right)
                if compared is not None:
                    return compared
        return comparison(self._writer, expr.op, self.value(expr.left), self.value(expr.right))

    def _write_ramp(self, linear: LaneIndex[Symbol]) -> Value:
        base = self.index.materialize(linear.first)
        return (
            base if linear.lanes == 1 else make_ramp(self._writer, base, linear.step, linear.lanes)
        )

    def _ramp(self, base: Value, stride: Value, lanes: int) -> Value:
        numbers = make_ramp(self._writer, literal(0, base.dtype), 1, lanes)
        scaled = arithmetic(self._writer, BinaryOp.MUL, numbers, stride)
        return arithmetic(self._writer, BinaryOp.ADD, scaled, base)

    def _reduce(self, op: BinaryOp, operand: Expr) -> Value:
        outer = self._mask
        if outer is not None:  # its lanes are not those of the operand
            self._mask = splat(self._writer, any_lane(self._writer, outer), dtype_of(operand).lanes)
        value = self.value(operand)
        self._mask = outer
        return across_lanes(self._writer, op, value)

    def _select(self, expr: Select, condition: Value) -> Value:
        lanes = condition.dtype.lanes
        decided = constant_value(condition)
        if decided is not None:
            return self._widen(self.value(expr.then if decided else expr.otherwise), expr)
        if lanes > 1:
            with self.mask_lanes(condition):
                then = self.value(expr.then)
            with self.mask_lanes(negate(self._writer, condition)):
                otherwise = self.value(expr.otherwise)
        elif self._is_free(expr.then) and self._is_free(expr.otherwise):
            then, otherwise = self.value(expr.then), self.value(expr.otherwise)
        elif (loaded := self._load_or_zero(expr, condition)) is not None:
            return self._widen(loaded, expr)
        else:
            return self._branch(expr, condition)
        wide = max(lanes, then.dtype.lanes, otherwise.dtype.lanes)
        a, b = splat(self._writer, then, wide), splat(self._writer, otherwise, wide)
        text = f"select {condition.typed}, {a.typed}, {b.typed}"
        return Value(self._writer.emit(text), a.dtype)

    def _dot(self, expr: Dot) -> Value:
        """Lanes of the sums that are not wanted do not want their operands either."""
        mask, total = self._mask, self.value(expr.total)
        operands: list[Value] = []
        for operand in (expr.left, expr.right):
            if mask is not None:
                self._mask = widen_mask(self._writer, mask, dtype_of(operand).lanes)
            operands.append(self.value(operand))
        self._mask = mask
        return dot_product(self._writer, expr, total, operands[0], operands[1])

    @contextmanager
    def mask_lanes(self, condition: Value) -> Generator[Value]:
        """Lanes where `condition` is false are not wanted, besides those unwanted already.

        Yields the lanes that are.
        """
        outer = self._mask
        if outer is not None:
            condition = connect(self._writer, BinaryOp.AND, outer, condition)
        self._mask = condition
        yield condition
        self._mask = outer

    def _load_or_zero(self, expr: Select, condition: Value) -> Value | None:
        """Load what `expr` chooses over zero from there or from where zeros are; None if it cannot.

        A branch for each element that may be padding would divide the code of a register tile.
        """
        match expr:
            case Select(_, Load(buffer, indices), Const(value)) if self._mask is None:
                is_zero = value == 0 and copysign(1, value) > 0
                if is_zero and not any(map(reads_memory, indices)):
                    return self.memory.load_or_zero(buffer, indices, condition)
            case _:
                pass
        return None

    def _branch(self, expr: Select, condition: Value) -> Value:
        """Run only the chosen arm."""
        writer = self._writer
        names = [writer.name("then"), writer.name("else"), writer.name("join")]
        writer.open_landing()
        writer.line(f"br {condition.typed}, label {names[0]}, label {names[1]}")
        arms: list[tuple[Value, str]] = []
        for name, arm in zip(names, (expr.then, expr.otherwise), strict=False):
            writer.start_block(name)
            with writer.inner_scope():
                value = self._widen(self.value(arm), expr)
            arms.append((value, writer.block))
            writer.line(f"br label {names[2]}")
        writer.start_block(names[2])
        writer.close_landing()
        dtype = arms[0][0].dtype
        sources = ", ".join(f"[{value.text}, {block}]" for value, block in arms)
        return Value(writer.emit(f"phi {register_type(dtype)} {sources}"), dtype)

    def _widen(self, value: Value, expr: Select) -> Value:
        return splat(self._writer, value, dtype_of(expr).lanes)

    def _is_free(self, expr: Expr) -> bool:
        """Whether `expr` may and should be computed though it may not be wanted."""
        for part in walk(expr):
            match part:
                case Load(buffer, indices):
                    nested = any(map(reads_memory, indices))
                    if nested or not self.memory.is_inside(buffer, indices):
                        return False
                case Call(name, _) if name not in _CHEAP:
                    return False
                case _:
                    pass
        return True


def _element(expr: Expr) -> DType:
    """The element type of `expr`, from its leftmost leaf."""
    while True:
        match expr:
            case Binary(_, inner, _) | Broadcast(inner, _) | Ramp(inner, _, _) | Reduce(_, inner):
                expr = inner
            case Load(buffer, _):
                return buffer.dtype
            case _:
                return dtype_of(expr).element
