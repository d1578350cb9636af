"""Scalar: the values of a definition, an element of a tensor or a number computed from elements.

Each operator of Python builds an expression of the program; none is evaluated while the program is
defined. So `==` is a comparison of elements like `<`, and a Scalar has no truth value. The
expressions inside (`ansorc/ir/expr.py`) are compared by structure, for use in ansorc only.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, TypeAlias, cast

import numpy as np

from ansorc.errors import LanguageError, UnhashableError
from ansorc.ir import expr as ir
from ansorc.ir.dim import Size
from ansorc.ir.dtype import FLOAT32, DType, Kind
from ansorc.ir.expr import BinaryOp, CompareOp, Expr, Operand, dtype_of
from ansorc.ir.math_call import call
from ansorc.ir.printer import expr_text
from ansorc.ir.size_expr import size_expr
from ansorc.lang.bits import combine_bits, invert, shift
from ansorc.lang.complex_dtype import ComplexType
from ansorc.lang.literal import (
    DTypeLike,
    as_any_dtype,
    as_number,
    literal,
    refuse_bool,
    short_text,
)
from ansorc.lang.numpy_names import OPERATORS, instead_of
from ansorc.lang.operands import bool_as_number, default_dtype, match_operands
from ansorc.lang.whole import Whole

ScalarLike: TypeAlias = "Scalar | Expr | Size | float | complex | np.number[Any] | np.bool_"
"""An operand of operators and functions: a Scalar, a size, or a number of Python or NumPy."""

_MULTIPLIED = 4
"""Powers up to this are products, which round at most twice."""
_LOGICAL = (BinaryOp.AND, BinaryOp.OR)


class Scalar:
    """An element of a tensor, an index, or a value computed from them.

    A number as the other operand becomes a literal of its dtype. Two scalars of different dtypes
    are refused, but in arithmetic a bool counts as 0 or 1. A Scalar has no hash and no truth value.
    """

    __slots__ = ("expr",)
    expr: Expr
    """The expression; its operators are not for users."""
    is_complex: ClassVar[bool] = False
    complex_kind: ClassVar[Any]
    """The class of complex elements, which does their arithmetic (`Complex`)."""

    def __init_subclass__(cls, *, is_complex_kind: bool = False) -> None:
        if is_complex_kind:
            Scalar.complex_kind = cls

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    @property
    def dtype(self) -> DType:
        """The type of its values."""
        return dtype_of(self.expr)

    def astype(self, type: DTypeLike) -> Scalar:
        """Return `self` converted to `type` as NumPy's `astype` does.

        Floats are truncated to integers; values out of range are clamped, and NaN becomes 0. A
        float may become complex. Raise LanguageError on an unknown name.
        """
        goal = as_any_dtype(type)
        if isinstance(goal, ComplexType):
            return Scalar.complex_kind.of(self.astype(goal.part))
        return self if self.dtype == goal else Scalar(self.expr.astype(goal))

    @property
    def real(self) -> Scalar:
        """The real part: itself, unless it is complex."""
        return self

    @property
    def imag(self) -> Scalar:
        """The imaginary part: 0, unless it is complex."""
        return Scalar(literal(0, self.dtype))

    def conj(self) -> Scalar:
        """Return the conjugate: itself, unless it is complex."""
        return self

    def hold_parts(self, hold: Callable[[Scalar], Scalar]) -> Scalar:
        """Return the value with `hold` applied to it, or to its parts if it is complex."""
        return hold(self)

    def __add__(self, other: ScalarLike) -> Scalar:
        return binary(BinaryOp.ADD, self, other)

    def __radd__(self, other: ScalarLike) -> Scalar:
        return binary(BinaryOp.ADD, other, self)

    def __sub__(self, other: ScalarLike) -> Scalar:
        return binary(BinaryOp.SUB, self, other)

    def __rsub__(self, other: ScalarLike) -> Scalar:
        return binary(BinaryOp.SUB, other, self)

    def __mul__(self, other: ScalarLike) -> Scalar:
        return binary(BinaryOp.MUL, self, other)

    def __rmul__(self, other: ScalarLike) -> Scalar:
        return binary(BinaryOp.MUL, other, self)

    def __truediv__(self, other: ScalarLike) -> Scalar:
        return binary(BinaryOp.DIV, self, other)

    def __rtruediv__(self, other: ScalarLike) -> Scalar:
        return binary(BinaryOp.DIV, other, self)

    def __floordiv__(self, other: ScalarLike) -> Scalar:
        return binary(BinaryOp.FLOORDIV, self, other)

    def __rfloordiv__(self, other: ScalarLike) -> Scalar:
        return binary(BinaryOp.FLOORDIV, other, self)

    def __mod__(self, other: ScalarLike) -> Scalar:
        return binary(BinaryOp.MOD, self, other)

    def __rmod__(self, other: ScalarLike) -> Scalar:
        return binary(BinaryOp.MOD, other, self)

    def __divmod__(self, other: ScalarLike) -> tuple[Scalar, Scalar]:
        return self // other, self % other

    def __rdivmod__(self, other: ScalarLike) -> tuple[Scalar, Scalar]:
        return other // self, other % self

    def __pow__(self, other: ScalarLike, modulus: object = None) -> Scalar:
        if modulus is not None:
            raise LanguageError("pow takes two operands; write (x ** n) % m for integers")
        return _raise_to(self, other)

    def __rpow__(self, other: ScalarLike) -> Scalar:
        return _raise_to(other, self)

    def __neg__(self) -> Scalar:
        return binary(BinaryOp.SUB, -0.0 if self.dtype.is_float else 0, self)  # -0.0 - x is -x

    def __pos__(self) -> Scalar:
        return self

    def __abs__(self) -> Scalar:
        return absolute(self)

    def __round__(self, digits: object = None) -> Scalar:
        if digits is not None:
            raise LanguageError(
                "round(x, digits) of an element: write ac.round(x * 10.0**digits) / 10.0**digits"
            )
        return self if self.dtype.is_integer else Scalar(call("round", self.expr))

    def __eq__(self, other: object) -> Scalar:  # pyright: ignore[reportIncompatibleMethodOverride]
        return compare(CompareOp.EQ, self, other)

    def __ne__(self, other: object) -> Scalar:  # pyright: ignore[reportIncompatibleMethodOverride]
        return compare(CompareOp.NE, self, other)

    def __lt__(self, other: ScalarLike) -> Scalar:
        return compare(CompareOp.LT, self, other)

    def __le__(self, other: ScalarLike) -> Scalar:
        return compare(CompareOp.LE, self, other)

    def __gt__(self, other: ScalarLike) -> Scalar:
        return compare(CompareOp.GT, self, other)

    def __ge__(self, other: ScalarLike) -> Scalar:
        return compare(CompareOp.GE, self, other)

    def __and__(self, other: ScalarLike) -> Scalar:
        return _bitwise("&", self, other)

    def __rand__(self, other: ScalarLike) -> Scalar:
        return _bitwise("&", other, self)

    def __or__(self, other: ScalarLike) -> Scalar:
        return _bitwise("|", self, other)

    def __ror__(self, other: ScalarLike) -> Scalar:
        return _bitwise("|", other, self)

    def __xor__(self, other: ScalarLike) -> Scalar:
        return _bitwise("^", self, other)

    def __rxor__(self, other: ScalarLike) -> Scalar:
        return _bitwise("^", other, self)

    def __invert__(self) -> Scalar:
        if self.dtype.is_integer:
            return Scalar(invert(self.expr))
        return Scalar(ir.Not(as_condition("'~'", self).expr))

    def __lshift__(self, other: ScalarLike) -> Scalar:
        return _shift("<<", self, other)

    def __rlshift__(self, other: ScalarLike) -> Scalar:
        return _shift("<<", other, self)

    def __rshift__(self, other: ScalarLike) -> Scalar:
        return _shift(">>", self, other)

    def __rrshift__(self, other: ScalarLike) -> Scalar:
        return _shift(">>", other, self)

    def __hash__(self) -> NoReturn:
        """Refuse to be hashed: `i in {0, 2}` would be False without a call of `==`."""
        raise UnhashableError(
            f"'{expr_text(self.expr)}' cannot be in a set or be a key of a dict, which look at "
            "hashes while the program is being defined: write ac.any_of(i == 0, i == 2) instead "
            "of i in {0, 2}, and ac.if_then_else(i == 0, a, b) instead of {0: a}.get(i, b). To "
            "keep something for each element, take a list, or id(x) as the key"
        )

    def __bool__(self) -> NoReturn:
        raise LanguageError(
            f"'{expr_text(self.expr)}' has no truth value while the program is being defined: "
            "it is computed for every element when it runs. Write ac.if_then_else(condition, a, b) "
            "instead of if; ac.all_of(…), ac.any_of(…) and ac.logical_not(…) instead of and, or "
            "and not (0 <= i < n is ac.all_of(0 <= i, i < n)); ac.any_of(i == 0, i == 2) instead "
            "of i in (0, 2); ac.maximum, ac.minimum or a reduction like ac.max instead of Python's "
            "max, min, any and all. Whether two are one object says `is`"
        )

    def _refuse_number(self, *_: object) -> NoReturn:
        raise LanguageError(
            f"'{expr_text(self.expr)}' is not a number while the program is being defined: it is "
            "computed for every element when it runs. Use x.astype(…) to convert it, ac.floor, "
            "ac.ceil and ac.round to round it, and ac.exp, ac.sqrt … instead of math.exp, math.sqrt"
        )

    __int__ = __float__ = __complex__ = __index__ = _refuse_number
    __trunc__ = __floor__ = __ceil__ = _refuse_number

    def _refuse_parts(self, *_: object) -> NoReturn:
        raise LanguageError(
            f"'{expr_text(self.expr)}' is one element, without parts: give all indices of a tensor "
            "at once, like A[i, j]; a product of matrices is ac.sum(A[i, k] * B[k, j], axis=k)"
        )

    __getitem__ = __len__ = __iter__ = __contains__ = __call__ = __matmul__ = _refuse_parts
    __rmatmul__ = __setitem__ = _refuse_parts

    def __format__(self, how: str) -> str:
        """Return the expression as text; it has no digits to format."""
        try:
            return format(str(self), how)
        except ValueError:
            self._refuse_number()

    def __array__(self, *_: object, **__: object) -> NoReturn:
        """Refuse to become an array: NumPy would make one of objects."""
        raise LanguageError(
            f"'{expr_text(self.expr)}' makes no array of NumPy: it is computed for every element "
            "when the program runs; write ac.if_then_else instead of numpy.where, and ac.maximum "
            "instead of numpy.max"
        )

    def __array_ufunc__(
        self, function: np.ufunc, method: str, *inputs: Any, **options: object
    ) -> Any:
        """Return the result of an operator whose left operand is a number of NumPy.

        Raise LanguageError for arrays and for functions of NumPy such as `np.exp`.
        """
        known = OPERATORS.get(function.__name__)
        if known is None or method != "__call__" or options:
            raise LanguageError(
                f"numpy.{function.__name__} takes arrays, not '{expr_text(self.expr)}', which is "
                f"computed when the program runs; {instead_of(function.__name__)}"
            )
        return getattr(operator, known)(*(_as_python(each) for each in inputs))

    def __str__(self) -> str:
        return expr_text(self.expr)

    def __repr__(self) -> str:
        return f"<{expr_text(self.expr)}: {self.dtype}>"


def as_scalar(value: object, dtype: DType | None = None) -> Scalar:
    """Return `value` as a Scalar; a number becomes a literal of `dtype`.

    Without `dtype` an int becomes int64, a float float32 and a bool bool. Raise LanguageError on
    other values, and on numbers that do not fit.
    """
    if isinstance(value, Scalar):
        return value
    if is_complex(value):
        return Scalar.complex_kind.of(value)
    operand = _operand(value)
    if isinstance(operand, Operand):
        return Scalar(operand)
    return Scalar(literal(operand, dtype or default_dtype(operand)))


def is_complex(value: object) -> bool:
    """Return whether `value` is a complex element, or a complex number of Python or NumPy."""
    if isinstance(value, Scalar):
        return value.is_complex
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return array.ndim == 0 and array.dtype.kind == "c"
    return isinstance(value, (complex, np.complexfloating))


def as_condition(name: str, value: object) -> Scalar:
    """Return `value`, a condition of `name`; raise LanguageError unless it is a bool.

    A Python bool is refused: it does not depend on elements.
    """
    refuse_bool(value)
    condition = as_scalar(value)
    if not condition.dtype.is_bool:
        raise LanguageError(f"{name} needs a bool, not {condition.dtype}; compare first")
    return condition


def binary(op: BinaryOp, left: object, right: object) -> Scalar:
    """Return `left op right`; raise LanguageError on dtypes that differ or do not have `op`.

    A bool and a number: the bool counts as 0 or 1 in the dtype of the number (int64 for a Python
    int, float32 for a Python float).
    """
    if is_complex(left) or is_complex(right):
        return Scalar.complex_kind.binary(op, left, right)
    a, b = _operand(left), _operand(right)
    for given in (left, right):
        refuse_bool(given)
    if op not in _LOGICAL:
        a, b = bool_as_number(a, b), bool_as_number(b, a)
    return Scalar(ir.binary(op, *match_operands(op.value, a, b)))


def compare(op: CompareOp, left: object, right: object) -> Scalar:
    """Return `left op right` as a bool; raise LanguageError on dtypes that differ."""
    if is_complex(left) or is_complex(right):
        return Scalar.complex_kind.compare(op, left, right)
    return Scalar(ir.compare(op, *match_operands(op.value, _operand(left), _operand(right))))


def match_dtypes(name: str, left: object, right: object) -> tuple[Scalar, Scalar]:
    """Return the operands of `name` as Scalars; a number gets the dtype of the other operand.

    Raise LanguageError on dtypes that differ, and for bools of Python.
    """
    refuse_bool(left)
    refuse_bool(right)
    a, b = ir.operands(name, *match_operands(name, _operand(left), _operand(right)))
    return Scalar(a), Scalar(b)


def power(base: object, exponent: object) -> Scalar:
    """Return `base` to the power `exponent`, both floats or integers of one dtype.

    Raise LanguageError on other dtypes.
    """
    refuse_bool(base)
    refuse_bool(exponent)
    x, y = _operand(base), _operand(exponent)
    if not isinstance(x, Operand) and not isinstance(y, Operand):
        return Scalar(call("pow", literal(x, FLOAT32), literal(y, FLOAT32)))
    a, b = match_operands("power", x, y)
    first, second = dtype_of(a), dtype_of(b)
    if not (first.is_float and second.is_float) and not (first.is_integer and first == second):
        raise LanguageError(
            f"the power of {first} and {second} needs floats, or integers of one dtype: cast "
            'first, like x.astype("float32")'
        )
    return Scalar(call("pow", a, b))


def _raise_to(base: object, exponent: object) -> Scalar:
    """Return `base ** exponent`: a product for a small whole exponent, or an integer `base`."""
    if is_complex(base) or is_complex(exponent):
        return Scalar.complex_kind.power(base, exponent)
    refuse_bool(exponent)
    x, n = _operand(base), _operand(exponent)
    if isinstance(x, Operand) and not isinstance(n, Operand):
        dtype = dtype_of(x)
        if dtype.is_integer:
            if isinstance(n, float) or n < 0:
                raise LanguageError(
                    f"{dtype} to the power {n}: integers have whole powers, 0 and more; cast to a "
                    'float first, like x.astype("float32")'
                )
            return _product(Scalar(x), n)
        if dtype.is_float and n in range(_MULTIPLIED + 1):
            return _product(Scalar(x), int(n))
    return power(base, exponent)


def absolute(value: object) -> Scalar:
    """Return the absolute value of a number; raise LanguageError for a bool."""
    refuse_bool(value)
    operand = as_scalar(value)
    if operand.is_complex:
        return operand.__abs__()
    if operand.dtype.is_float:
        return Scalar(call("abs", operand.expr))
    if operand.dtype.kind is Kind.UINT:
        return operand
    return binary(BinaryOp.MAX, operand, 0 - operand)


def _product(base: Scalar, count: int) -> Scalar:
    """Return the product of `count` times `base`, by repeated squaring."""
    result: Scalar | None = None
    square = base
    while count:
        if count % 2:
            result = square if result is None else result * square
        count //= 2
        square = square * square if count else square
    return result if result is not None else Scalar(literal(1, base.dtype))


def _bitwise(symbol: str, left: object, right: object) -> Scalar:
    """Return `left & right`, `left | right` or `left ^ right` of conditions, or of integers."""
    refuse_bool(left)
    refuse_bool(right)
    sides = _operand(left), _operand(right)
    dtypes = [dtype_of(side) for side in sides if isinstance(side, Operand)]
    words = f"'{symbol}'"
    if all(dtype.is_integer for dtype in dtypes):
        return Scalar(combine_bits(symbol, *ir.operands(symbol, *match_operands(symbol, *sides))))
    if any(dtype.is_float for dtype in dtypes):
        raise LanguageError(f"{words} needs a bool or an integer on both sides, not a float")
    a, b = as_condition(words, left), as_condition(words, right)
    if symbol == "^":
        return compare(CompareOp.NE, a, b)
    return binary(BinaryOp.AND if symbol == "&" else BinaryOp.OR, a, b)


def _shift(symbol: str, left: object, right: object) -> Scalar:
    refuse_bool(left)
    refuse_bool(right)
    sides = match_operands(symbol, _operand(left), _operand(right))
    return Scalar(shift(symbol, *ir.operands(symbol, *sides)))


def _operand(value: object) -> Expr | float:
    """Return an operand as an expression or a Python number."""
    if isinstance(value, Scalar):
        return value.expr
    if isinstance(value, Operand):
        return value  # pyright: ignore[reportReturnType]
    number = as_number(value)
    if number is not None:
        return number
    if isinstance(value, Size):
        return size_expr(value)
    if isinstance(value, Whole):
        raise LanguageError(value.advice())
    if isinstance(value, np.ndarray):
        shape = cast("np.ndarray[Any, Any]", value).shape
        raise LanguageError(
            f"an array of shape {shape} is not an element: make it an input of the program, by "
            "ac.placeholder, and index that"
        )
    raise LanguageError(f"{short_text(value)} ({type(value).__name__}) is not a tensor expression")


def _as_python(value: object) -> object:
    """Return a number of NumPy as one of Python, so that the other operand's operator is called."""
    if isinstance(value, Scalar):
        return value
    return complex(cast(complex, value)) if is_complex(value) else _operand(value)
