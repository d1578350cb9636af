"""Write expressions as CUDA C: the text of one lane, and of the places in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import isfinite
from typing import assert_never

from ansorc.codegen.cuda.integer import arithmetic, bit_function, bitwise, division, extreme
from ansorc.codegen.cuda.types import (
    ATOM,
    CHOICE,
    CONJUNCTION,
    DISJUNCTION,
    EQUALITY,
    ORDER,
    PRODUCT,
    SUM,
    UNARY,
    CExpr,
    c_type,
    is_narrow,
    literal,
)
from ansorc.errors import BuildError
from ansorc.ir.arith.affine import Atom, Linear, linear
from ansorc.ir.arith.integer import rejoin
from ansorc.ir.arith.interval import Interval
from ansorc.ir.arith.simplify import simplify
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dtype import BOOL, FLOAT32, FLOAT64, INT32, INT64, DType
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
    Exchange,
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
    dtype_of,
)
from ansorc.ir.interpret_math import integer_range
from ansorc.ir.node import Node, rewrite
from ansorc.ir.operator import BIT_FUNCTIONS, BITWISE
from ansorc.ir.own_function import OwnFunction
from ansorc.ir.printer import expr_text
from ansorc.ir.substitute import free_vars, substitute

LANE = Var("lane number")
"""The lane of a vector that is being written; no loop has such a name."""
PRIVATE = (Scope.LOCAL, Scope.REGISTER)
_C_NAMES = {"abs": "fabs", "round": "rint"}
_DEFINED = {"sigmoid": "sigmoid", "mod": "float_mod", "floor_divide": "float_floor_divide"}
"""The functions that the prelude defines for both floats, by their names there."""
_FLOAT_LEVELS = {BinaryOp.ADD: SUM, BinaryOp.SUB: SUM, BinaryOp.MUL: PRODUCT, BinaryOp.DIV: PRODUCT}


@dataclass(frozen=True)
class Vector:
    """Neighbours in memory: `&name[start]`, aligned to their size."""

    address: str
    dtype: DType


class CudaExpressions:
    """The expressions of one kernel."""

    def __init__(self) -> None:
        self.variables: dict[str, CExpr] = {}
        self.buffers: dict[Buffer, str] = {}
        self.parts: set[str] = set()
        """The parts that the prelude has to define."""
        self.threads = 1
        """Threads of a block."""
        self._loaded: dict[Load, str] = {}
        """Vectors that are held in a variable."""
        self._values: dict[Expr, CExpr] = {}
        self._vectors: dict[tuple[Buffer, tuple[Expr, ...]], Vector | None] = {}
        """The vectors that were loaded since a variable last changed."""

    def define(self, name: str, value: CExpr) -> None:
        """From now on the variable `name` is written as `value`."""
        if self.variables.get(name, value) != value:
            self._forget()
        self.variables[name] = value

    def undefine(self, name: str) -> None:
        """Take back what was defined."""
        del self.variables[name]
        self._forget()

    def hold(self, loads: Mapping[Load, str]) -> None:
        """From now on these vectors, and no others, are in variables of these names."""
        self._loaded = dict(loads)
        self._forget()

    def _forget(self) -> None:
        self._values.clear()
        self._vectors.clear()

    def value(self, expr: Expr) -> CExpr:
        """Return the text of `expr`, or of its lane LANE.

        A 16-bit float may be given as a float32 of the same value.
        """
        text = self._values.get(expr)
        if text is None:
            text = self._values[expr] = self._value(expr)
        return text

    def _value(self, expr: Expr) -> CExpr:
        match expr:
            case Const(value, dtype):
                return self._const(value, dtype)
            case Var(name):
                return self.variables[name]
            case Binary(BinaryOp.ADD, total, Binary(BinaryOp.MUL, left, right)) if is_narrow(
                dtype_of(total).element
            ):
                return self._multiply_add(left, right, total)
            case Binary(op, left, right):
                return self._binary(op, self.value(left), self.value(right))
            case Compare(op, left, right):
                return self._compare(op, left, right)
            case Not(operand):
                return CExpr(f"!{self.value(operand).at(UNARY)}", BOOL, UNARY)
            case Select():
                return self._select(expr)
            case Cast(dtype, operand):
                return self._cast(self.value(operand), dtype.element)
            case OwnCall(_, args, function):
                return self._own_call(function, [self.value(arg) for arg in args])
            case Call(name, args):
                return self._call(name, [self.value(arg) for arg in args])
            case Load(buffer, indices):
                return self._load(expr, buffer, indices)
            case _:
                return self._vector_value(expr)

    def _vector_value(self, expr: Ramp | Broadcast | Reduce | Dot | Exchange | Checked) -> CExpr:
        match expr:
            case Checked():
                raise BuildError(f"{expr_text(expr)} is no check yet; insert_checks has to run")
            case Ramp(base, stride, _):
                step = Binary(BinaryOp.MUL, stride, LANE)
                return self.value(Binary(BinaryOp.ADD, base, step))
            case Broadcast(operand, _):
                return self.value(operand)
            case Reduce(op, operand):
                return self._reduce(op, operand)
            case Dot():
                return self._dot(expr)
            case Shuffle(operand, distance):
                return self._shuffle(self.value(operand), distance)
            case MatrixLoad() | MatrixMultiply() | Transpose():
                raise BuildError(f"{expr_text(expr)} is not the whole value of a store")
            case _:
                assert_never(expr)

    def place(self, buffer: Buffer, indices: Sequence[Expr]) -> str:
        """Return the text of an element as it is loaded from or assigned to."""
        name = self.buffers[buffer]
        scalars = [_one_lane(index) for index in indices]
        if buffer.scope in PRIVATE:
            if buffer.elements == 1:
                return name
            return name + "".join(f"[{self._index([index], [1])}]" for index in scalars)
        return f"{name}[{self._index(scalars, buffer.strides)}]"

    def places(self, buffer: Buffer, indices: Sequence[Expr], lanes: int) -> list[str]:
        """Return the text of the element of each lane."""
        return [self.place(buffer, in_lane(indices, lane)) for lane in range(lanes)]

    def vector(self, buffer: Buffer, indices: Sequence[Expr]) -> Vector | None:
        """Return the vector that `indices` are, None where no instruction loads or stores it.

        The lanes may be neighbours in memory only: in `C[f // 30, f % 30]`, of fused axes.
        """
        key = buffer, tuple(indices)
        if key not in self._vectors:
            self._vectors[key] = self._vector(buffer, indices)
        return self._vectors[key]

    def _vector(self, buffer: Buffer, indices: Sequence[Expr]) -> Vector | None:
        lanes = max((dtype_of(index).lanes for index in indices), default=1)
        if buffer.scope in PRIVATE or lanes * buffer.dtype.bytes > 16 or lanes & (lanes - 1):
            return None
        total = _flat([_one_lane(index) for index in indices], buffer.strides)
        if total is None or lanes == 1:
            return None
        rejoin(total, {**self._ranges(), LANE.name: (0, lanes - 1)})
        if total.terms.pop(LANE.name, 0) != 1:
            return None
        if any(LANE.name in free_vars(x) for x in total.terms if not isinstance(x, str)):
            return None
        if any(x % lanes for x in (total.constant, *total.terms.values())):
            return None
        self.parts.add("lanes")
        first = self.value(total.to_expr()).text
        return Vector(f"&{self.buffers[buffer]}[{first}]", buffer.dtype.vector(lanes))

    def store_text(self, value: CExpr, dtype: DType) -> str:
        """Return the text of `value` as it is assigned to an element of `dtype`."""
        if is_narrow(dtype) and not is_narrow(value.dtype):
            return self._narrow(value, dtype).text
        return value.text

    def _const(self, value: float, dtype: DType) -> CExpr:
        if dtype.is_float and not isfinite(value):
            self.parts.add("specials")
        constant = literal(value, dtype)
        return constant._replace(dtype=FLOAT32) if is_narrow(dtype) else constant

    def _index(self, indices: Sequence[Expr], strides: Sequence[int]) -> str:
        total = _flat(indices, strides)
        if total is None:
            flat: Expr = Const(0, INT64)
            for index, stride in zip(indices, strides, strict=True):
                flat = flat + index * stride
            return self.value(flat).text
        rejoin(total, self._ranges())
        return self.value(total.to_expr()).text

    def _ranges(self) -> dict[str, Interval]:
        return {name: (v.low, v.high) for name, v in self.variables.items()}

    def _load(self, expr: Load, buffer: Buffer, indices: Sequence[Expr]) -> CExpr:
        low, high = integer_range(buffer.dtype) if buffer.dtype.is_integer else (0, 0)
        held = self._loaded.get(expr)
        if held is not None:
            text = f"{held}.at[{self.variables[LANE.name].text}]"
        else:
            text = self.place(buffer, indices)
        self._use(buffer.dtype)
        return CExpr(text, buffer.dtype, ATOM, low, high, buffer.dtype == INT64)

    def _binary(self, op: BinaryOp, a: CExpr, b: CExpr) -> CExpr:
        if op in (BinaryOp.AND, BinaryOp.OR):
            level = CONJUNCTION if op is BinaryOp.AND else DISJUNCTION
            symbol = "&&" if op is BinaryOp.AND else "||"
            return CExpr(f"{a.at(level)} {symbol} {b.at(level)}", BOOL, level)
        if a.dtype.is_float:
            return self._float(op, a, b)
        if op in (BinaryOp.MIN, BinaryOp.MAX):
            return extreme(op, a, b, self.parts)
        if op in (BinaryOp.FLOORDIV, BinaryOp.MOD):
            return division(op, a, b, self.parts)
        if op in BITWISE:
            return bitwise(op, a, b, self.parts)
        return arithmetic(op, a, b, self.parts)

    def _float(self, op: BinaryOp, a: CExpr, b: CExpr) -> CExpr:
        narrow = next((x.dtype for x in (a, b) if is_narrow(x.dtype)), None)
        if narrow is not None:
            return self._narrow(self._float(op, self._single(a), self._single(b)), narrow)
        if op in (BinaryOp.MIN, BinaryOp.MAX):
            self.parts.add("extremes")
            return CExpr(f"{op.value}_of({a.text}, {b.text})", a.dtype)
        if op is BinaryOp.SUB and a.text in ("-0.0f", "-0.0"):
            return CExpr(f"-{b.at(UNARY)}".replace("--", "- -"), a.dtype, UNARY)
        level = _FLOAT_LEVELS[op]
        return CExpr(f"{a.at(level)} {op.value} {b.at(level + 1)}", a.dtype, level)

    def _multiply_add(self, *parts: Expr) -> CExpr:
        """Return a product and a sum of 16-bit floats, rounded once."""
        dtype = dtype_of(parts[0]).element
        self._use(dtype)
        self.parts.add(f"{c_type(dtype)}_fma")
        operands = ", ".join(self.store_text(self.value(part), dtype) for part in parts)
        return CExpr(f"multiply_add({operands})", dtype)

    def _compare(self, op: CompareOp, left: Expr, right: Expr) -> CExpr:
        a, b = self._single(self.value(left)), self._single(self.value(right))
        level = EQUALITY if op in (CompareOp.EQ, CompareOp.NE) else ORDER
        return CExpr(f"{a.at(level + 1)} {op.value} {b.at(level + 1)}", BOOL, level)

    def _select(self, expr: Select) -> CExpr:
        test = self.value(expr.condition)
        a, b = self._single(self.value(expr.then)), self._single(self.value(expr.otherwise))
        text = f"{test.at(CHOICE + 1)} ? {a.at(CHOICE + 1)} : {b.at(CHOICE + 1)}"
        low, high = min(a.low, b.low), max(a.high, b.high)
        return CExpr(text, a.dtype, CHOICE, low, high, a.is_wide or b.is_wide)

    def _cast(self, value: CExpr, dtype: DType) -> CExpr:
        source = value.dtype
        if is_narrow(source):
            return self._cast(self._single(value), dtype)
        if is_narrow(dtype):
            return self._narrow(value, dtype)
        if dtype.is_bool:
            return CExpr(f"{value.at(EQUALITY + 1)} != 0", BOOL, EQUALITY)
        if source.is_float and not dtype.is_float:
            return self._saturate(value, dtype)
        if source == dtype:
            return value
        text, kind = f"({c_type(dtype)}){value.at(UNARY)}", dtype
        if dtype.is_float:
            return CExpr(text, kind, UNARY)
        low, high = (0, 1) if source.is_bool else (value.low, value.high)
        least, most = integer_range(dtype)
        if low < least or high > most:
            low, high = least, most
        return CExpr(text, kind, UNARY, low, high, dtype == INT64)

    def _saturate(self, value: CExpr, dtype: DType) -> CExpr:
        self.parts.add("saturate")
        least, most = integer_range(dtype)
        low, end = (literal(float(x), value.dtype).text for x in (least, most + 1))
        ends = f"{literal(least, dtype).text}, {literal(most, dtype).text}"
        text = f"saturate<{c_type(dtype)}>({value.text}, {low}, {end}, {ends})"
        return CExpr(text, dtype, ATOM, least, most, dtype == INT64)

    def _own_call(self, function: OwnFunction, args: Sequence[CExpr]) -> CExpr:
        if not function.cuda:
            raise BuildError(
                f"'{function.name}' has no text for GPUs; give ac.intrinsic(cuda=) an expression "
                "of CUDA C, such as '__expf({0})'"
            )
        operands = [f"({c_type(arg.dtype.element)})({arg.text})" for arg in args]
        text = function.cuda.format(*operands)
        dtype = function.result
        least, most = integer_range(dtype) if dtype.is_integer else (0, 0)
        return CExpr(f"(({c_type(dtype)})({text}))", dtype, ATOM, least, most)

    def _call(self, name: str, args: Sequence[CExpr]) -> CExpr:
        narrow = next((arg.dtype for arg in args if is_narrow(arg.dtype)), None)
        if narrow is not None:
            return self._narrow(self._call(name, [self._single(arg) for arg in args]), narrow)
        if name in BIT_FUNCTIONS:
            counts = [bit_function(name, arg, self.parts) for arg in args]
            return reduce(lambda a, b: arithmetic(BinaryOp.ADD, a, b, self.parts), counts)
        dtype = args[0].dtype
        operands = ", ".join(arg.text for arg in args)
        if dtype.is_integer:
            self.parts.add("integer_power")
            least, most = integer_range(dtype)
            text = f"integer_power<{c_type(dtype)}>({operands})"
            return CExpr(text, dtype, ATOM, least, most, dtype == INT64)
        if name in _DEFINED:
            self.parts.add("sigmoid" if name == "sigmoid" else "remainders")
            return CExpr(f"{_DEFINED[name]}({operands})", dtype)
        ending = "f" if dtype == FLOAT32 else ""
        return CExpr(f"{_C_NAMES.get(name, name)}{ending}({operands})", dtype)

    def _reduce(self, op: BinaryOp, operand: Expr) -> CExpr:
        values = self._lanes(operand, range(dtype_of(operand).lanes))
        while len(values) > 1:
            half = len(values) // 2
            pairs = zip(values[:half], values[half:], strict=True)
            values = [self._binary(op, a, b) for a, b in pairs]
        return values[0]

    def _dot(self, expr: Dot) -> CExpr:
        total = self.value(expr.total)
        for term in reversed(range(expr.terms)):
            factors: list[CExpr] = []
            for operand in (expr.left, expr.right):
                is_shared = dtype_of(operand).lanes == expr.terms
                first = self.variables.get(LANE.name, literal(0, INT64))
                step = literal(0 if is_shared else expr.terms, INT64)
                lane = arithmetic(BinaryOp.MUL, first, step, self.parts)
                lane = arithmetic(BinaryOp.ADD, lane, literal(term, INT64), self.parts)
                (value,) = self._lanes(operand, [lane])
                goal = FLOAT32 if total.dtype.is_float else INT32
                factors.append(self._cast(value, goal))
            product = self._binary(BinaryOp.MUL, *factors)
            total = self._binary(BinaryOp.ADD, total, product)
        return total

    def _shuffle(self, value: CExpr, distance: int) -> CExpr:
        """Return the text of what another thread has; a 16-bit float goes as a float32."""
        value = self._single(value)
        self.parts.add("shuffle")
        text = f"shuffle<{self.threads}>({value.text}, {distance})"
        return value._replace(text=text, level=ATOM)

    def _lanes(self, operand: Expr, lanes: Sequence[int | CExpr]) -> list[CExpr]:
        outer = self.variables.get(LANE.name)
        values: list[CExpr] = []
        for lane in lanes:
            self.define(LANE.name, literal(lane, INT64) if isinstance(lane, int) else lane)
            values.append(self.value(operand))
        self.undefine(LANE.name)
        if outer is not None:
            self.define(LANE.name, outer)
        return values

    def _single(self, value: CExpr) -> CExpr:
        """Return a 16-bit float as a float32, which is exact; another value as it is."""
        if not is_narrow(value.dtype):
            return value
        self._use(value.dtype)
        return CExpr(f"to_float({value.text})", FLOAT32)

    def _narrow(self, value: CExpr, dtype: DType) -> CExpr:
        self._use(dtype)
        if dtype.is_bfloat:
            single = value if value.dtype == FLOAT32 else self._cast(value, FLOAT32)
            return CExpr(f"to_bfloat16({single.text})", dtype)
        if value.dtype not in (FLOAT64, FLOAT32):
            value = self._cast(value, FLOAT32)
        return CExpr(f"to_half({value.text})", dtype)

    def _use(self, dtype: DType) -> None:
        if is_narrow(dtype):
            self.parts.add(c_type(dtype))


def _one_lane(index: Expr) -> Expr:
    """Return `index` in the lane LANE."""

    def rule(old: Node) -> Node | None:
        match old:
            case Ramp(base, stride, _):
                return Binary(BinaryOp.ADD, base, Binary(BinaryOp.MUL, stride, LANE))
            case Broadcast(operand, _):
                return operand
            case _:
                return None

    return index if dtype_of(index).lanes == 1 else rewrite(index, rule)


def in_lane(indices: Sequence[Expr], lane: int) -> list[Expr]:
    """Return the indices of one lane of vectors."""
    number = {LANE.name: Const(lane, INT64)}
    return [simplify(substitute(_one_lane(index), number), {}) for index in indices]


def _flat(indices: Sequence[Expr], strides: Sequence[int]) -> Linear[Atom] | None:
    total: Linear[Atom] = Linear()
    for index, stride in zip(indices, strides, strict=True):
        part = linear(index)
        if part is None:
            return None
        total.add_scaled(part, stride)
    return total
