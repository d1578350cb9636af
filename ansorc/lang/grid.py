"""Evaluate an expression for a whole box of axis values at once, with NumPy.

Axis number d is dimension d of every array. An array has extent 1 along axes on which it does not
depend, so repeated values are computed once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

from ansorc.errors import LanguageError
from ansorc.ir.aligned import Array
from ansorc.ir.arith.scalar import NUMPY_BINARY, NUMPY_COMPARE
from ansorc.ir.dtype import DType
from ansorc.ir.expr import (
    Binary,
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
from ansorc.ir.fault import FaultKind, FaultSite, fault_error
from ansorc.ir.interpret_math import NUMPY_FUNCTIONS
from ansorc.ir.operator import DIVISIONS
from ansorc.ir.printer import expr_text
from ansorc.lang.strided import find_strided_view

Mask: TypeAlias = "NDArray[np.bool_] | None"
FloatType: TypeAlias = "np.dtype[np.floating[Any]] | None"
"""The type in which all floats are computed; None: each in its own dtype, as kernels do."""


@dataclass(frozen=True)
class Grid:
    """A box of axis values, the tensors computed so far, and the float type to compute in."""

    axes: Mapping[str, Array]
    tensors: Mapping[str, Array]
    floats: FloatType
    op_name: str
    rank: int
    is_box: bool = True
    """Whether each axis takes consecutive values along a dimension of its own."""

    def evaluate(self, expr: Expr, mask: Mask = None) -> Array:
        """Return the values of `expr`.

        Raise LanguageError if a load is outside of its tensor where `mask` holds.
        """
        match expr:
            case Const(value, dtype):
                return self._literal(value, dtype)
            case Var(name):
                return self.axes[name]
            case Binary(op, left, right):
                sides = self.evaluate(left, mask), self.evaluate(right, mask)
                if op in DIVISIONS:
                    self._require_divisor(right, sides[1], mask)
                return NUMPY_BINARY[op](*sides)
            case Compare(op, left, right):
                return NUMPY_COMPARE[op](self.evaluate(left, mask), self.evaluate(right, mask))
            case Not(operand):
                return np.logical_not(self.evaluate(operand, mask))
            case Select(condition, then, otherwise):
                return self._select(condition, then, otherwise, mask)
            case Checked(value):
                self.check(expr, mask)
                return self.evaluate(value, mask)
            case Cast(dtype, operand):
                return convert(self.evaluate(operand, mask), self.numpy_type(dtype))
            case Call(_, args):
                return self._call(expr, [self.evaluate(arg, mask) for arg in args])
            case Load():
                return self.load(expr, mask, self.tensors[expr.buffer.name])
            case Ramp() | Broadcast() | Dot() | Reduce():
                raise LanguageError(f"'{self.op_name}' holds a vector; it defines one element")
            case Shuffle() | MatrixLoad() | MatrixMultiply() | Transpose():
                raise LanguageError(f"'{self.op_name}' exchanges values between threads")
            case _:
                assert_never(expr)

    def numpy_type(self, dtype: DType) -> np.dtype[Any]:
        """Return the type that values of `dtype` are computed in."""
        return dtype.numpy if self.floats is None or not dtype.is_float else self.floats

    def _call(self, expr: Call, args: Sequence[Array]) -> Array:
        """Return a math function; for narrow floats in double precision, rounded once."""
        if isinstance(expr, OwnCall):
            return convert(expr.function.evaluate(*args), self.numpy_type(expr.function.result))
        name = expr.name
        if self.floats is not None or args[0].dtype.kind in "iu":
            return FUNCTIONS[name](*args)
        result = FUNCTIONS[name](*(arg.astype(np.float64, copy=False) for arg in args))
        return result.astype(args[0].dtype, copy=False)

    def _literal(self, value: float, dtype: DType) -> Array:
        """Return a literal with the precision of its dtype: 0.1 as float32 is not 0.1."""
        rounded = np.array(value, dtype.numpy).astype(self.numpy_type(dtype))
        return rounded.reshape((1,) * self.rank)

    def _select(self, condition: Expr, then: Expr, otherwise: Expr, mask: Mask) -> Array:
        test = self.evaluate(condition, mask)
        outer = np.True_ if mask is None else mask
        taken = self.evaluate(then, np.logical_and(outer, test))
        other = self.evaluate(otherwise, np.logical_and(outer, np.logical_not(test)))
        return np.where(test, taken, other)

    def check(self, expr: Checked, mask: Mask) -> None:
        """Raise the error that `expr` stands for if its condition fails anywhere."""
        wrong = np.logical_not(self.evaluate(expr.condition, mask))
        if mask is not None:
            wrong = np.logical_and(wrong, mask)
        if not wrong.any():
            return
        told = np.broadcast_arrays(wrong, *(self.evaluate(arg, mask) for arg in expr.args))
        values = tuple(int(arg[told[0]][0]) for arg in told[1:])
        raise fault_error(f"'{self.op_name}'", FaultSite(expr.kind, expr.about), values)

    def _require_divisor(self, expr: Expr, divisor: Array, mask: Mask) -> None:
        """Raise DivisionByZeroError where integers are divided by 0, as the program does."""
        wrong = np.equal(divisor, 0)
        if np.any(wrong if mask is None else np.logical_and(wrong, mask)):
            site = FaultSite(FaultKind.DIVISION, expr_text(expr))
            raise fault_error(f"'{self.op_name}'", site, ())

    def load(self, load: Load, mask: Mask, tensor: Array) -> Array:
        """Return the elements that `load` reads; `tensor` is the contents of its buffer."""
        if not load.indices:  # a tensor of one element, or a value that is held for each element
            return tensor if tensor.ndim else tensor.reshape((1,) * self.rank)
        view = find_strided_view(tensor, load.indices, self.axes) if self.is_box else None
        if view is not None:
            return view
        indices: list[Array] = []
        for dimension, expr in enumerate(load.indices):
            index, extent = self.evaluate(expr, mask), tensor.shape[dimension]
            outside = (index < 0) | (index >= extent)
            if outside.any():
                if mask is None or np.logical_and(mask, outside).any():
                    self._refuse(load, dimension, index[outside])
                index = np.clip(index, 0, extent - 1)
            indices.append(index)
        return tensor[tuple(indices)]

    def _refuse(self, load: Load, dimension: int, wrong: Array) -> None:
        name = load.buffer.name
        raise LanguageError(
            f"'{self.op_name}' reads '{name}' outside of it: index {dimension} is {wrong.flat[0]}, "
            f"but the extent is {load.buffer.shape[dimension]}"
        )


def convert(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return `values` as `dtype`; floats outside the range of an integer are clamped to it."""
    if values.dtype.name == "bfloat16":
        values = values.astype(np.float32)
    if values.dtype.kind != "f" or dtype.kind not in "iu":
        return values.astype(dtype)
    info = np.iinfo(dtype)
    below, above = values < float(info.min), values >= float(info.max) + 1.0
    inside = np.where(below | above | np.isnan(values), 0.0, values).astype(dtype)
    return np.where(below, info.min, np.where(above, info.max, inside)).astype(dtype, copy=False)


def _erf(x: Array) -> Array:
    return np.fromiter(map(math.erf, x.flat), x.dtype, x.size).reshape(x.shape)


def _fma(left: Array, right: Array, addend: Array) -> Array:
    return left * right + addend


FUNCTIONS: dict[str, Callable[..., Array]] = {**NUMPY_FUNCTIONS, "erf": _erf, "fma": _fma}
