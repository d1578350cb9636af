"""Turn expressions into Python source: the half of the interpreter that computes values.

Each integer expression has bounds, from the extents of the loops. Arithmetic that may overflow its
dtype wraps around, and an index that may leave its dimension is checked.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, assert_never

import numpy as np

from ansorc.errors import IRError
from ansorc.ir.arith.bits import bit_bounds
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import DType, Kind
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
    dtype_of,
)
from ansorc.ir.fault import FaultSite, fault_error
from ansorc.ir.interpret_math import (
    converter,
    integer_range,
    lane_reducer,
    math_function,
    maximum,
    minimum,
    of_defined,
    shift_function,
)
from ansorc.ir.operator import BIT_FUNCTIONS, BITWISE, SHIFTS
from ansorc.ir.passes.queries import reads_memory
from ansorc.ir.printer import buffer_text, expr_text
from ansorc.ir.stmt import Check
from ansorc.ir.undefined import first_undefined

LANE = "lane"
"""The variable of the generated source that runs over the lanes of a vector."""


@dataclass(frozen=True)
class PyExpr:
    """The source of a value; an integer is always between `low` and `high`."""

    text: str
    low: int = 0
    high: int = 0


class ExprCompiler:
    """Writes the source of expressions, and keeps the objects to which it refers.

    A vector expression becomes the source of its lane number `lane`, so all source is scalar.
    """

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.variables: dict[str, PyExpr] = {}
        self.buffers: dict[str, str] = {}
        self.globals: dict[str, object] = {
            "minimum": minimum,
            "maximum": maximum,
            "least": of_defined(min),
            "greatest": of_defined(max),
            "negated": of_defined(operator.not_),
            "number": of_defined(int),
            "single": of_defined(np.float32),
            "outside": self._outside,
            "divisor": self._divisor,
            "failed": self._fail,
        }
        self._faults: list[FaultSite] = []
        self._sites: list[tuple[Buffer, int, Sequence[Expr]]] = []
        self._divisions: list[Expr] = []
        self._literals: dict[tuple[str, DType], int] = {}
        self._count = 0

    def fresh(self, name: str) -> str:
        """Return an unused Python name similar to `name`."""
        self._count += 1
        return f"{re.sub('[^a-zA-Z0-9]', '_', name)}_{self._count}"

    def constant(self, name: str, value: object) -> str:
        """Make `value` available to the source as `name`, and return the name."""
        self.globals.setdefault(name, value)
        return name

    def place(self, buffer: Buffer, indices: Sequence[Expr]) -> str:
        """Return the source of the offset of an element, with checks of its indices."""
        terms: list[str] = []
        for dimension, (index, stride) in enumerate(zip(indices, buffer.strides, strict=True)):
            text = self._index(buffer, dimension, indices, self.expr(index))
            terms.append(text if stride == 1 else f"{text} * {stride}")
        return " + ".join(terms) or "0"

    def expr(self, expr: Expr) -> PyExpr:
        """Return the source of `expr`, or of one lane of it."""
        match expr:
            case Const(value, dtype):
                return self._const(value, dtype)
            case Var(name):
                return self.variables[name]
            case Binary():
                return self._binary(expr)
            case Compare(op, left, right):
                return PyExpr(f"({self.expr(left).text} {op.value} {self.expr(right).text})")
            case Not(operand):
                negated = "negated" if reads_memory(operand) else "not "
                return PyExpr(f"({negated}({self.expr(operand).text}))")
            case Select(condition, then, otherwise):
                a, b = self.expr(then), self.expr(otherwise)
                text = f"({a.text} if {self.expr(condition).text} else {b.text})"
                return PyExpr(text, min(a.low, b.low), max(a.high, b.high))
            case Cast() | Checked():
                return self._convert(expr)
            case Call():
                return self._call(expr)
            case Dot():
                return self._dot(expr)
            case Load(buffer, indices):
                low, high = integer_range(buffer.dtype) if buffer.dtype.is_integer else (0, 0)
                return PyExpr(
                    f"{self.buffers[buffer.name]}[{self.place(buffer, indices)}]", low, high
                )
            case Ramp(base, stride, lanes):
                dtype = dtype_of(base)
                step = _arithmetic(
                    BinaryOp.MUL, self.expr(stride), PyExpr(LANE, 0, lanes - 1), dtype
                )
                return _arithmetic(BinaryOp.ADD, self.expr(base), step, dtype)
            case Broadcast(operand, _):
                return self.expr(operand)
            case Reduce() | Shuffle() | MatrixLoad() | MatrixMultiply() | Transpose():
                assert isinstance(expr, Reduce), (
                    "verified: an exchange is the whole value of a store"
                )
                return self._reduce(expr.op, expr.operand)
            case _:
                assert_never(expr)

    def fault(self, node: Check | Checked) -> str:
        """Return the source of a check; its value is None if the check holds."""
        self._faults.append(FaultSite(node.kind, node.about))
        details = "".join(f", {self.expr(arg).text}" for arg in node.args)
        site = len(self._faults) - 1
        return f"(None if {self.expr(node.condition).text} else failed({site}{details}))"

    def _fail(self, site: int, *values: int) -> NoReturn:
        raise fault_error(f"kernel '{self.kernel}'", self._faults[site], values)

    def _const(self, value: float, dtype: DType) -> PyExpr:
        if dtype.is_float:
            number = self._literals.setdefault((repr(value), dtype), len(self._literals))
            return PyExpr(self.constant(f"K{number}", dtype.numpy.type(value)))
        return PyExpr(f"({value})", int(value), int(value))

    def _binary(self, expr: Binary) -> PyExpr:
        a, b = self.expr(expr.left), self.expr(expr.right)
        dtype = dtype_of(expr).element
        match expr.op:
            case BinaryOp.AND:
                return PyExpr(f"({a.text} & {b.text})")
            case BinaryOp.OR:
                return PyExpr(f"({a.text} | {b.text})")
            case BinaryOp.MIN if dtype.is_float:
                return PyExpr(f"minimum({a.text}, {b.text})")
            case BinaryOp.MAX if dtype.is_float:
                return PyExpr(f"maximum({a.text}, {b.text})")
            case BinaryOp.MIN:
                least = "least" if reads_memory(expr) else "min"
                text = f"{least}({a.text}, {b.text})"
                return PyExpr(text, min(a.low, b.low), min(a.high, b.high))
            case BinaryOp.MAX:
                greatest = "greatest" if reads_memory(expr) else "max"
                text = f"{greatest}({a.text}, {b.text})"
                return PyExpr(text, max(a.low, b.low), max(a.high, b.high))
            case BinaryOp.FLOORDIV | BinaryOp.MOD:
                return self._division(expr, a, b, dtype)
            case _ if expr.op in BITWISE:
                return self._bits(expr.op, a, b, dtype)
            case _ if dtype.is_float:
                return PyExpr(f"({a.text} {expr.op.value} {b.text})")
            case _:
                return _arithmetic(expr.op, a, b, dtype)

    def _bits(self, op: BinaryOp, a: PyExpr, b: PyExpr, dtype: DType) -> PyExpr:
        low, high = bit_bounds(op, (a.low, a.high), (b.low, b.high), dtype.bits)
        if op in SHIFTS and not 0 <= b.low <= b.high < dtype.bits:
            name = self.constant(f"{op.name}_{dtype}", shift_function(op, dtype))
            return _wrap(PyExpr(f"{name}({a.text}, {b.text})", low, high), dtype)
        return _wrap(PyExpr(f"({a.text} {op.value} {b.text})", low, high), dtype)

    def _division(self, expr: Binary, a: PyExpr, b: PyExpr, dtype: DType) -> PyExpr:
        divisor = b.text
        if b.low <= 0 <= b.high:
            self._divisions.append(expr)
            divisor = f"divisor({b.text}, {len(self._divisions) - 1})"
        text = f"({a.text} {expr.op.value} {divisor})"
        if expr.op is BinaryOp.MOD:
            return PyExpr(text, min(0, b.low + 1), max(0, b.high - 1))
        if b.low > 0:
            corners = [x // y for x in (a.low, a.high) for y in (b.low, b.high)]
            return PyExpr(text, min(corners), max(corners))
        widest = max(abs(a.low), abs(a.high))
        return _wrap(PyExpr(text, -widest, widest), dtype)

    def _convert(self, expr: Cast | Checked) -> PyExpr:
        if isinstance(expr, Cast):
            return self._cast(dtype_of(expr.operand).element, expr.dtype, self.expr(expr.operand))
        value = self.expr(expr.value)
        text = f"({value.text} if {self.fault(expr)} is None else None)"
        return PyExpr(text, value.low, value.high)

    def _cast(self, source: DType, target: DType, operand: PyExpr) -> PyExpr:
        if target.is_bool:
            return PyExpr(f"({operand.text} != 0)")
        if target.is_float or source.is_float:
            low, high = (0, 0) if target.is_float else integer_range(target)
            name = self.constant(f"{target}_of_{source}", converter(source, target))
            return PyExpr(f"{name}({operand.text})", low, high)
        if source.is_bool:
            return PyExpr(f"number({operand.text})", 0, 1)
        return _wrap(operand, target)

    def _call(self, expr: Call) -> PyExpr:
        name, args = expr.name, expr.args
        if isinstance(expr, OwnCall):
            dtype = expr.function.result
            function = self.constant(name.replace("@", "_own_"), expr.function.of_scalars)
        else:
            dtype = dtype_of(args[0]).element
            function = self.constant(f"{name}_{dtype}", math_function(name, dtype))
        low, high = integer_range(dtype) if dtype.is_integer else (0, 0)
        if name in BIT_FUNCTIONS:
            text = f"{function}({', '.join(self.expr(arg).text for arg in args)})"
            return _wrap(PyExpr(text, 0, dtype.bits * len(args)), dtype)
        return PyExpr(f"{function}({', '.join(self.expr(arg).text for arg in args)})", low, high)

    def _reduce(self, op: BinaryOp, operand: Expr) -> PyExpr:
        dtype = dtype_of(operand)
        low, high = integer_range(dtype.element) if dtype.is_integer else (0, 0)
        reducer = self.constant(
            f"{op.name.lower()}_lanes_{dtype.element}", lane_reducer(op, dtype.element)
        )
        lanes = f"[{self.expr(operand).text} for {LANE} in range({dtype.lanes})]"
        return PyExpr(f"{reducer}({lanes})", low, high)

    def _dot(self, expr: Dot) -> PyExpr:
        """Write the sum of one lane; its operands are functions of the lane."""
        terms, dtype = expr.terms, dtype_of(expr).element
        total = self.expr(expr.total).text
        products: list[str] = []
        for term in reversed(range(terms)):
            factors: list[str] = []
            for operand in (expr.left, expr.right):
                is_shared = dtype_of(operand).lanes == terms
                index = f"{term}" if is_shared else f"{LANE} * {terms} + {term}"
                text = f"(lambda {LANE}: {self.expr(operand).text})({index})"
                factors.append(f"single({text})" if dtype.is_float else text)
            products.append(f"{factors[0]} * {factors[1]}")
        if expr.in_pairs:
            pairs = zip(products[::2], products[1::2], strict=True)
            products = [f"max(-32768, min(32767, {a} + {b}))" for a, b in pairs]
        for product in products:
            total = f"({total} + {product})"
        if dtype.is_float:
            return PyExpr(total)
        low, high = integer_range(dtype)
        return _wrap(PyExpr(total, 4 * low, 4 * high), dtype)

    def _index(self, buffer: Buffer, dimension: int, indices: Sequence[Expr], index: PyExpr) -> str:
        extent = buffer.shape[dimension]
        if index.low >= 0 and index.high < extent:
            return index.text
        self._sites.append((buffer, dimension, indices))
        value, site = self.fresh("index"), len(self._sites) - 1
        inside = f"0 <= ({value} := {index.text}) < {extent}"
        return f"({value} if {inside} else outside({value}, {site}))"

    def _outside(self, value: int, site: int) -> NoReturn:
        buffer, dimension, indices = self._sites[site]
        access = expr_text(Load(buffer, tuple(indices)))
        raise IRError(
            f"kernel '{self.kernel}' goes to {access} with index {value}, which is outside "
            f"dimension {dimension} of {buffer_text(buffer)}; guard the access by an If or Select"
        )

    def _divisor(self, value: int, site: int) -> int:
        if first_undefined(value) is None and value == 0:
            raise IRError(
                f"kernel '{self.kernel}' divides by zero in {expr_text(self._divisions[site])}"
            )
        return value


def _arithmetic(op: BinaryOp, a: PyExpr, b: PyExpr, dtype: DType) -> PyExpr:
    """Return integer `a op b` for +, - and *."""
    if op is BinaryOp.ADD:
        low, high = a.low + b.low, a.high + b.high
    elif op is BinaryOp.SUB:
        low, high = a.low - b.high, a.high - b.low
    else:
        corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        low, high = min(corners), max(corners)
    return _wrap(PyExpr(f"({a.text} {op.value} {b.text})", low, high), dtype)


def _wrap(value: PyExpr, dtype: DType) -> PyExpr:
    """Return `value` wrapped to the bits of `dtype`: two's complement, as in C."""
    low, high = integer_range(dtype)
    if low <= value.low and value.high <= high:
        return value
    mask = high - low
    if dtype.kind is Kind.UINT:
        return PyExpr(f"({value.text} & {mask})", low, high)
    return PyExpr(f"(({value.text} - {low} & {mask}) + {low})", low, high)
