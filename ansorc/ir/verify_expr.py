"""The rules of a legal expression: dtypes, lanes, ranks, and names that are in scope."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

from ansorc.errors import IRError
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import BOOL, INT64, DType
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
from ansorc.ir.fault import MOST_ARGUMENTS
from ansorc.ir.interpret_math import integer_range
from ansorc.ir.matrix_units import check_matrix_load, check_matrix_multiply, check_transpose
from ansorc.ir.operator import BIT_FUNCTIONS, BITWISE, OF_INTEGERS, REDUCTIONS, has_operands
from ansorc.ir.printer import buffer_text, expr_text
from ansorc.ir.verify_dot import check_dot


class ExprRules:
    """Checks expressions where `buffers` and `variables` are in scope.

    `check_access` is called with each legal access, and may refuse it in its context.
    """

    def __init__(
        self,
        buffers: Mapping[str, Buffer],
        variables: Mapping[str, Var],
        check_access: Callable[[Load], None],
    ) -> None:
        self._buffers, self._variables, self._check_access = buffers, variables, check_access
        self.has_exchange = False
        """Whether threads exchange values in an expression that was checked."""

    def dtype(self, expr: Expr) -> DType:
        """Return the dtype of `expr`; raise IRError, naming the part that breaks a rule."""
        match expr:
            case Const():
                return _literal(expr)
            case Var():
                return self._var(expr)
            case Binary(op, left, right):
                return _result(expr, op, self._common(expr, (left, right)))
            case Compare(_, left, right):
                return BOOL.vector(self._common(expr, (left, right)).lanes)
            case Not(operand):
                return _bool(expr, self.dtype(operand))
            case Select(condition, then, otherwise):
                lanes = _bool(expr, self.dtype(condition)).lanes
                arms = self._common(expr, (then, otherwise))
                return arms.vector(_join(expr, lanes, arms.lanes))
            case Cast(dtype, operand):
                return _convert(expr, dtype, self.dtype(operand).lanes)
            case Checked() | Call() | Dot() | MatrixMultiply():
                return self._call(expr)
            case Load(buffer, indices):
                return buffer.dtype.vector(self.access(buffer, indices))
            case Ramp(base, stride, lanes):
                dtype = self._common(expr, (base, stride))
                if not dtype.is_integer:
                    raise _illegal(expr, f"a ramp needs integers, not {dtype}")
                return _widen(expr, dtype, lanes)
            case Broadcast(operand, lanes):
                return _widen(expr, self.dtype(operand), lanes)
            case (
                Reduce(operand=operand)
                | Shuffle(operand)
                | MatrixLoad(operand)
                | Transpose(operand)
            ):
                self.has_exchange |= not isinstance(expr, Reduce)
                return _combine_lanes(expr, self.dtype(operand))
            case _:
                assert_never(expr)

    def access(self, buffer: Buffer, indices: Sequence[Expr]) -> int:
        """Check `buffer[indices]` and return its lanes."""
        load = Load(buffer, tuple(indices))
        known = self._buffers.get(buffer.name)
        if known is None:
            raise _illegal(load, f"no parameter or allocation around it is '{buffer.name}'")
        if known is not buffer and known != buffer:
            reason = f"it goes to {buffer_text(buffer)}, but declared is {buffer_text(known)}"
            raise _illegal(load, reason)
        if len(indices) != len(buffer.shape):
            reason = f"{buffer_text(buffer)} takes {len(buffer.shape)} indices, not {len(indices)}"
            raise _illegal(load, reason)
        lanes = 1
        for index in indices:
            dtype = self.dtype(index)
            if dtype.element != INT64:
                raise _illegal(load, f"index {expr_text(index)} is {dtype}; cast it to int64")
            lanes = _join(load, lanes, dtype.lanes)
        self._check_access(load)
        return lanes

    def fault(self, expr: Expr, condition: Expr, about: str, args: Sequence[Expr]) -> DType:
        """Check the parts of a fault of `expr`; return the dtype of the condition."""
        dtype = _bool(expr, self.dtype(condition))
        if not about.isprintable() or '"' in about:
            raise IRError(f"{about!r} is about something in letters that cannot be written here")
        if len(args) > MOST_ARGUMENTS:
            raise _illegal(expr, f"it tells {len(args)} numbers; the most are {MOST_ARGUMENTS}")
        for arg in args:
            dtype_ = self.dtype(arg)
            if dtype_.element != INT64:
                raise _illegal(expr, f"it tells {expr_text(arg)}, a {dtype_}; cast it to int64")
            _join(expr, dtype.lanes, dtype_.lanes)
        return dtype

    def _var(self, expr: Var) -> DType:
        known = self._variables.get(expr.name)
        if known is None:
            raise _illegal(expr, f"no loop around it is over '{expr.name}'")
        if known.dtype != expr.dtype:
            raise _illegal(expr, f"it is {expr.dtype} here, but {known.dtype} in its loop")
        return expr.dtype

    def _call(self, expr: Call | Dot | MatrixMultiply | Checked) -> DType:
        if isinstance(expr, Checked):
            lanes = self.fault(expr, expr.condition, expr.about, expr.args).lanes
            dtype = self.dtype(expr.value)
            return dtype.vector(_join(expr, lanes, dtype.lanes))
        if not isinstance(expr, Call):
            parts = [self.dtype(part) for part in (expr.total, expr.left, expr.right)]
            if isinstance(expr, Dot):
                return check_dot(expr, *parts)
            self.has_exchange = True
            return check_matrix_multiply(expr, *parts)
        name, args = expr.name, expr.args
        if isinstance(expr, OwnCall):
            return self._own_call(expr)
        if not has_operands(name, len(args)):
            raise _illegal(expr, f"there is no math function '{name}' of {len(args)} operands")
        dtype = self._common(expr, args)
        if name in BIT_FUNCTIONS:
            if not dtype.is_integer:
                raise _illegal(expr, f"{name} needs an integer, not {dtype}; cast the operand")
            return dtype
        if not dtype.is_float and not (dtype.is_integer and name in OF_INTEGERS):
            raise _illegal(expr, f"{name} needs floats, not {dtype}; cast the operand")
        return dtype

    def _own_call(self, expr: OwnCall) -> DType:
        function, lanes = expr.function, 1
        kinds = [self.dtype(arg) for arg in expr.args]
        if tuple(kind.element for kind in kinds) != function.arguments:
            wanted = ", ".join(map(str, function.arguments))
            raise _illegal(expr, f"'{function.name}' takes ({wanted})")
        for kind in kinds:
            lanes = _join(expr, lanes, kind.lanes)
        return function.result.vector(lanes)

    def _common(self, expr: Expr, operands: Sequence[Expr]) -> DType:
        """Return the common dtype of the operands; a scalar fits vectors of its dtype."""
        common = self.dtype(operands[0])
        for operand in operands[1:]:
            dtype = self.dtype(operand)
            if dtype is common:
                continue
            if dtype.element != common.element:
                raise _illegal(expr, f"its operands are {common} and {dtype}; cast one of them")
            common = common.vector(_join(expr, common.lanes, dtype.lanes))
        return common


def is_count(value: object) -> bool:
    """Return whether `value` is a Python int (not a NumPy integer or bool) of at least 1."""
    return type(value) is int and value >= 1


def _illegal(expr: Expr, reason: str) -> IRError:
    return IRError(f"{expr_text(expr)}: {reason}")


def _literal(expr: Const) -> DType:
    value, dtype = expr.value, expr.dtype
    wanted = float if dtype.is_float else bool if dtype.is_bool else int
    if type(value) is not wanted:
        reason = f"a literal of {dtype} holds a Python {wanted.__name__}; build it with const()"
        raise IRError(f"{value!r}: {reason}")
    if dtype.lanes != 1:
        raise _illegal(expr, f"a literal of {dtype} is no scalar; broadcast a scalar")
    if dtype.is_integer:
        low, high = integer_range(dtype)
        if not low <= value <= high:
            raise _illegal(expr, f"{dtype} holds {low} to {high}; use a wider dtype")
    return dtype


def _result(expr: Expr, op: BinaryOp, dtype: DType) -> DType:
    match op:
        case BinaryOp.AND | BinaryOp.OR:
            needed, fits = "bools; compare first", dtype.is_bool
        case BinaryOp.DIV:
            needed, fits = "floats; use // on integers", dtype.is_float
        case _ if op in BITWISE:
            needed, fits = "integers; use 'and', 'or', '!=' on bools", dtype.is_integer
        case BinaryOp.FLOORDIV | BinaryOp.MOD:
            needed, fits = "integers; use / on floats", dtype.is_integer
        case _:
            needed, fits = "numbers; use 'and', 'or' or a Select on bools", not dtype.is_bool
    if not fits:
        raise _illegal(expr, f"'{op.value}' on {dtype} needs {needed}")
    return dtype


def _bool(expr: Expr, dtype: DType) -> DType:
    if not dtype.is_bool:
        raise _illegal(expr, f"its condition is {dtype}, not a bool; compare it with something")
    return dtype


def _join(expr: Expr, left: int, right: int) -> int:
    if left != right and 1 not in (left, right):
        raise _illegal(expr, f"its parts have {left} and {right} lanes; vectors must agree")
    return max(left, right)


def _convert(expr: Expr, dtype: DType, lanes: int) -> DType:
    if dtype.lanes != 1:
        raise _illegal(expr, "lanes follow the operand; cast to a scalar dtype")
    return dtype.vector(lanes)


def _combine_lanes(expr: Reduce | Shuffle | MatrixLoad | Transpose, dtype: DType) -> DType:
    """Return the dtype of an operation that combines lanes, or threads, of one operand."""
    if isinstance(expr, Reduce):
        return _reduce(expr, expr.op, dtype)
    if isinstance(expr, MatrixLoad):
        return check_matrix_load(expr, dtype)
    if isinstance(expr, Transpose):
        return check_transpose(expr, dtype)
    return _shuffle(expr, expr.distance, dtype)


def _reduce(expr: Reduce, op: BinaryOp, dtype: DType) -> DType:
    if op not in REDUCTIONS:
        raise IRError(f"'{op.value}' does not combine lanes; use {', '.join(REDUCTIONS.values())}")
    if dtype.is_bool:
        raise _illegal(expr, "its operand is bools; cast it to numbers")
    if dtype.lanes < 2 or dtype.lanes & (dtype.lanes - 1):
        raise _illegal(expr, f"its operand is {dtype}; halves need 2, 4, 8, … lanes")
    return dtype.element


def _shuffle(expr: Shuffle, distance: int, dtype: DType) -> DType:
    if distance not in (1, 2, 4, 8, 16) or dtype.lanes != 1:
        raise _illegal(expr, "it takes a scalar over a distance of 1, 2, 4, 8 or 16 threads")
    return dtype


def _widen(expr: Expr, dtype: DType, lanes: int) -> DType:
    if dtype.lanes != 1:
        raise _illegal(expr, f"its operand is {dtype}; a vector is made of scalars")
    if not is_count(lanes) or lanes == 1:
        raise _illegal(expr, f"a vector has at least 2 lanes, not {lanes!r}; use the scalar")
    return dtype.vector(lanes)
