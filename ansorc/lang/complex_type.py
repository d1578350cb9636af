"""Complex: a complex element, a pair of real ones; its arithmetic is that of its parts.

The operators of Python, `ac.exp`, `ac.if_then_else` and others ask for this class where an operand
is complex (`Scalar.complex_kind`). No program has complex numbers: a definition of a complex tensor
is one of its real and one of its imaginary parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, cast

import numpy as np

from ansorc.errors import LanguageError
from ansorc.ir.dtype import FLOAT32, FLOAT64, DType
from ansorc.ir.expr import BinaryOp, CompareOp, Const, Expr
from ansorc.lang.complex_dtype import ComplexType
from ansorc.lang.let import let
from ansorc.lang.literal import DTypeLike, as_any_dtype, as_number, refuse_bool
from ansorc.lang.scalar import all_of, any_of, const, cos, exp, if_then_else, maximum, minimum, sin
from ansorc.lang.scalar import sqrt as real_sqrt
from ansorc.lang.scalar_type import Scalar, absolute, as_scalar, binary, is_complex

_SIGNS = {BinaryOp.ADD: "+", BinaryOp.SUB: "-", BinaryOp.MUL: "*", BinaryOp.DIV: "/"}
_PARTS = (FLOAT32, FLOAT64)
_MOST_MULTIPLIED = 64
"""The largest whole power, by repeated squaring."""


class Complex(Scalar, is_complex_kind=True):
    """A complex element: `real` and `imag`, of one float dtype."""

    __slots__ = ("_imag", "_real")
    is_complex = True

    def __init__(self, real: Scalar, imag: Scalar) -> None:
        self._real, self._imag = real, imag

    @property
    def real(self) -> Scalar:
        """The real part."""
        return self._real

    @property
    def imag(self) -> Scalar:
        """The imaginary part."""
        return self._imag

    @property
    def dtype(self) -> ComplexType:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The type of its values."""
        return ComplexType(self.real.dtype)

    @property
    def expr(self) -> Expr:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Refuse to be an expression: there is one for each part."""
        raise LanguageError(
            f"a {self.dtype} is where a real number is needed: complex numbers have +, -, *, /, "
            "whole powers, ==, !=, abs, exp, conj, sums, products and if_then_else; use the parts "
            "z.real and z.imag for all else"
        )

    def conj(self) -> Complex:
        """Return the conjugate, whose imaginary part has the opposite sign."""
        return Complex(self.real, -self.imag)

    def hold_parts(self, hold: Callable[[Scalar], Scalar]) -> Complex:
        """Return the value with `hold` applied to its parts."""
        return Complex(hold(self.real), hold(self.imag))

    def astype(self, type: DTypeLike) -> Scalar:
        """Return `self` converted to a complex dtype; raise LanguageError for another."""
        goal = as_any_dtype(type)
        if not isinstance(goal, ComplexType):
            raise LanguageError(
                f"{self.dtype} as {goal} would lose the imaginary part: write z.real, or abs(z)"
            )
        return Complex(self.real.astype(goal.part), self.imag.astype(goal.part))

    def __neg__(self) -> Scalar:
        return Complex(-self.real, -self.imag)

    def __abs__(self) -> Scalar:
        return length_of(let(self.real), let(self.imag))

    def __round__(self, digits: object = None) -> NoReturn:
        raise LanguageError(f"round of a {self.dtype}: round z.real and z.imag")

    def __bool__(self) -> NoReturn:
        raise LanguageError(
            f"{self!r} has no truth value while the program is being defined; see ac.if_then_else"
        )

    __hash__ = Scalar.__hash__

    def __str__(self) -> str:
        return f"complex({self.real}, {self.imag})"

    def __repr__(self) -> str:
        return f"<{self}: {self.dtype}>"

    @classmethod
    def of(cls, value: object, part: DType | None = None) -> Complex:
        """Return a number, a real or a complex element as a Complex with parts of dtype `part`.

        Without `part` numbers are complex64. Raise LanguageError for another dtype.
        """
        refuse_bool(value)
        if isinstance(value, (complex, np.complexfloating)):
            number, kind = complex(cast(complex, value)), part or FLOAT32
            return cls(const(number.real, kind), const(number.imag, kind))
        element = as_scalar(value, part or FLOAT32)
        if not isinstance(element, Complex):
            if element.dtype.is_bool:
                element = element.astype(part or FLOAT32)
            require_float("a complex number", element)
            element = cls(element, const(0.0, element.dtype))
        if part not in (None, element.real.dtype):
            raise LanguageError(
                f"{element.dtype} meets {ComplexType(part)}; cast one of them by astype"
            )
        return element

    @classmethod
    def binary(cls, op: BinaryOp, left: object, right: object) -> Scalar:
        """Return `left op right`, of which one is complex.

        Raise LanguageError for operations that there are not.
        """
        if op not in _SIGNS:
            raise LanguageError(
                f"'{op.value}' of complex numbers: they have no order, no remainder and no bits; "
                "use abs(z), z.real or z.imag"
            )
        part = _part_of(left, right)
        if op in (BinaryOp.ADD, BinaryOp.SUB):
            return _add(op, left, right, part)
        if not is_complex(right):
            factor = _real(right, part)
            z = cls.of(left, part)
            return Complex(binary(op, z.real, factor), binary(op, z.imag, factor))
        if op is BinaryOp.DIV:
            return _divide(cls.of(left, part).hold_parts(let), cls.of(right, part).hold_parts(let))
        if not is_complex(left):
            return cls.binary(op, right, left)
        return _multiply(cls.of(left, part).hold_parts(let), cls.of(right, part).hold_parts(let))

    @classmethod
    def compare(cls, op: CompareOp, left: object, right: object) -> Scalar:
        """Return whether two numbers, of which one is complex, are equal, or not.

        Raise LanguageError for other comparisons: complex numbers have no order.
        """
        if op not in (CompareOp.EQ, CompareOp.NE):
            raise LanguageError(
                f"'{op.value}' of complex numbers, which have no order; compare abs(z), z.real or "
                "z.imag"
            )
        part = _part_of(left, right)
        a, b = cls.of(left, part), cls.of(right, part)
        if op is CompareOp.EQ:
            return all_of(a.real == b.real, a.imag == b.imag)
        return any_of(a.real != b.real, a.imag != b.imag)

    @classmethod
    def power(cls, base: object, exponent: object) -> Scalar:
        """Return `base` to a whole power as products; raise LanguageError for other powers."""
        count = None if is_complex(exponent) else as_number(exponent)
        if not isinstance(count, (int, float)) or count not in range(_MOST_MULTIPLIED + 1):
            raise LanguageError(
                "a power of complex numbers is a product: the exponent is a whole number from 0 to "
                f"{_MOST_MULTIPLIED}; use ac.exp for others"
            )
        z = cls.of(base)
        result: Scalar = cls.of(1.0, z.real.dtype)
        square: Scalar = z
        rest, is_first = int(count), True
        while rest:
            if rest % 2:
                result, is_first = (square if is_first else result * square), False
            rest //= 2
            square = square * square if rest else square
        return result

    @classmethod
    def exp(cls, value: object) -> Scalar:
        """Return e to the power of the complex `value`."""
        z = cls.of(value)
        size, angle = let(exp(z.real)), let(z.imag)
        return Complex(size * cos(angle), size * sin(angle))

    @classmethod
    def choose(cls, condition: Scalar, then: object, otherwise: object) -> Scalar:
        """Return `then` where `condition` holds, else `otherwise`, of which one is complex."""
        part = _part_of(then, otherwise)
        a, b = cls.of(then, part), cls.of(otherwise, part)
        real, imag = (
            if_then_else(condition, a.real, b.real),
            if_then_else(condition, a.imag, b.imag),
        )
        return Complex(real, imag)


def length_of(x: Scalar, y: Scalar) -> Scalar:
    """Return the length of the vector (x, y), also where a square overflows.

    It is infinite if one of them is. They are divided by the larger one.
    """
    a, b = absolute(x), absolute(y)
    large, small = maximum(a, b), minimum(a, b)
    share = small / if_then_else(large == 0.0, const(1.0, x.dtype), large)
    length = large * real_sqrt(share * share + 1.0)
    is_endless = (a == np.inf) | (b == np.inf)
    return if_then_else(is_endless, const(np.inf, x.dtype), length)


def require_float(what: str, element: Scalar) -> None:
    if element.dtype not in _PARTS:
        raise LanguageError(f"{what} is float32 or float64, not {element.dtype}; cast it by astype")


def _part_of(*operands: object) -> DType:
    """Return the dtype of the parts of an operation: that of the complex elements, if any."""
    elements = [each for each in operands if isinstance(each, Scalar)]
    for each in elements:
        if isinstance(each, Complex):
            return each.real.dtype
    for each in elements:
        if not each.dtype.is_bool:
            require_float("what meets a complex number", each)
            return each.dtype
    return FLOAT32


def _real(value: object, part: DType) -> Scalar:
    """Return a real operand in the dtype `part`."""
    return Complex.of(value, part).real


def _add(op: BinaryOp, left: object, right: object, part: DType) -> Complex:
    """Return a sum or a difference; a real operand leaves the other's imaginary part alone."""
    a, b = Complex.of(left, part), Complex.of(right, part)
    real = binary(op, a.real, b.real)
    if not is_complex(right):
        return Complex(real, a.imag)
    if not is_complex(left):
        return Complex(real, b.imag if op is BinaryOp.ADD else -b.imag)
    return Complex(real, binary(op, a.imag, b.imag))


def _multiply(a: Complex, b: Complex) -> Complex:
    """Return a * b; terms of constant parts that are 0 are left out."""
    real = _sum(lambda x, y: x - y, _product(a.real, b.real), _product(a.imag, b.imag))
    imag = _sum(lambda x, y: x + y, _product(a.real, b.imag), _product(a.imag, b.real))
    zero = const(0.0, a.real.dtype)
    return Complex(zero if real is None else real, zero if imag is None else imag)


def _product(x: Scalar, y: Scalar) -> Scalar | None:
    """Return x * y; None if one is the constant 0."""
    return None if _is_zero(x) or _is_zero(y) else x * y


def _sum(
    combine: Callable[[Any, Any], Scalar], first: Scalar | None, second: Scalar | None
) -> Scalar | None:
    if second is None:
        return first
    if first is None:
        return combine(const(-0.0, second.dtype), second)
    return combine(first, second)


def _is_zero(x: Scalar) -> bool:
    return isinstance(x.expr, Const) and x.expr.value == 0


def _divide(a: Complex, b: Complex) -> Complex:
    """Return a / b by Smith's method (1962): no square of a part of b overflows.

    Parts of b are divided by the larger one; for b = 0 the result is NaN.
    """
    is_steep = absolute(b.real) < absolute(b.imag)
    large = let(if_then_else(is_steep, b.imag, b.real))
    small = let(if_then_else(is_steep, b.real, b.imag))
    share = let(small / large)
    size = let(large + small * share)
    real = if_then_else(is_steep, a.real * share + a.imag, a.real + a.imag * share)
    imag = if_then_else(is_steep, a.imag * share - a.real, a.imag - a.real * share)
    return Complex(real / size, imag / size)
