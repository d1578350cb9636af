"""Functions on the elements of tensors, for use inside the body of a `compute`."""

from __future__ import annotations

from functools import reduce

from ansorc.errors import LanguageError
from ansorc.ir.dtype import FLOAT32, DType, Kind
from ansorc.ir.expr import BinaryOp, CompareOp, Const, Not, Select
from ansorc.ir.math_call import call
from ansorc.lang.complex_dtype import ComplexType
from ansorc.lang.literal import DTypeLike, as_any_dtype, as_number, literal, refuse_bool, short_text
from ansorc.lang.scalar_type import (
    Scalar,
    ScalarLike,
    absolute,
    as_condition,
    as_scalar,
    binary,
    compare,
    is_complex,
    match_dtypes,
)
from ansorc.lang.scalar_type import power as general_power


def if_then_else(condition: ScalarLike, then: ScalarLike, otherwise: ScalarLike) -> Scalar:
    """Return `then` where `condition` holds, else `otherwise`; only the chosen arm is evaluated.

    Raise LanguageError unless `condition` is a bool of the program and both arms have one dtype.
    """
    test = as_condition("if_then_else", condition)
    if is_complex(then) or is_complex(otherwise):
        return Scalar.complex_kind.choose(test, then, otherwise)
    arms = [_arm(arm) for arm in (then, otherwise)]
    dtypes = [arm.dtype for arm in arms if isinstance(arm, Scalar)]
    is_float = any(isinstance(arm, float) for arm in arms)
    like = dtypes[0] if dtypes else FLOAT32 if is_float else None
    a, b = (_arm_of(arm, like) for arm in arms)
    if a.dtype != b.dtype:
        raise LanguageError(f"if_then_else chooses between {a.dtype} and {b.dtype}; cast one arm")
    return Scalar(Select(test.expr, a.expr, b.expr))


def all_of(*conditions: ScalarLike) -> Scalar:
    """Return whether all `conditions` hold; each is evaluated."""
    return _join(BinaryOp.AND, "all_of", conditions)


def any_of(*conditions: ScalarLike) -> Scalar:
    """Return whether one of `conditions` holds; each is evaluated."""
    return _join(BinaryOp.OR, "any_of", conditions)


def logical_not(condition: ScalarLike) -> Scalar:
    """Return whether `condition` does not hold."""
    return Scalar(Not(as_condition("logical_not", condition).expr))


def equal(left: ScalarLike, right: ScalarLike) -> Scalar:
    """Return whether two numbers of one dtype are equal; `left == right` is the same."""
    return compare(CompareOp.EQ, left, right)


def not_equal(left: ScalarLike, right: ScalarLike) -> Scalar:
    """Return whether two numbers of one dtype differ; `left != right` is the same."""
    return compare(CompareOp.NE, left, right)


def const(value: complex, type: DTypeLike = "float32") -> Scalar:
    """Return `value` as a literal; raise LanguageError where the dtype cannot hold it."""
    dtype = as_any_dtype(type)
    if isinstance(dtype, ComplexType):
        return Scalar.complex_kind.of(value, dtype.part)
    number = as_number(value)
    if number is None:
        raise LanguageError(f"const makes a literal of a number, not of {short_text(value)}")
    if isinstance(number, bool) and not dtype.is_bool:
        number = int(number)
    return Scalar(literal(number, dtype))


def cast(value: ScalarLike, type: DTypeLike) -> Scalar:
    """Return `value` converted as NumPy's `astype` does; `x.astype(type)` is the same.

    Floats are truncated to integers; values out of range are clamped, and NaN becomes 0.
    """
    refuse_bool(value)
    return as_scalar(value).astype(type)


def maximum(left: ScalarLike, right: ScalarLike) -> Scalar:
    """Return the larger of two numbers of one dtype; NaN if one is NaN."""
    return binary(BinaryOp.MAX, left, right)


def minimum(left: ScalarLike, right: ScalarLike) -> Scalar:
    """Return the smaller of two numbers of one dtype; NaN if one is NaN."""
    return binary(BinaryOp.MIN, left, right)


def exp(x: ScalarLike) -> Scalar:
    """Return e to the power of the float `x`, which may be complex."""
    return Scalar.complex_kind.exp(x) if is_complex(x) else _call("exp", x)


def exp2(x: ScalarLike) -> Scalar:
    """Return 2 to the power of the float `x`."""
    return _call("exp2", x)


def expm1(x: ScalarLike) -> Scalar:
    """Return exp(x) - 1 of the float `x`, exact near 0."""
    return _call("expm1", x)


def log(x: ScalarLike) -> Scalar:
    """Return the natural logarithm of the float `x`."""
    return _call("log", x)


def log2(x: ScalarLike) -> Scalar:
    """Return the logarithm to base 2 of the float `x`."""
    return _call("log2", x)


def log1p(x: ScalarLike) -> Scalar:
    """Return log(1 + x) of the float `x`, exact near 0."""
    return _call("log1p", x)


def tanh(x: ScalarLike) -> Scalar:
    """Return the hyperbolic tangent of the float `x`."""
    return _call("tanh", x)


def erf(x: ScalarLike) -> Scalar:
    """Return the error function of the float `x`."""
    return _call("erf", x)


def sigmoid(x: ScalarLike) -> Scalar:
    """Return 1 / (1 + exp(-x)) of the float `x`."""
    return _call("sigmoid", x)


def sqrt(x: ScalarLike) -> Scalar:
    """Return the square root of the float `x`."""
    return _call("sqrt", x)


def rsqrt(x: ScalarLike) -> Scalar:
    """Return 1 / sqrt(x) of the float `x`."""
    return _call("rsqrt", x)


def sin(x: ScalarLike) -> Scalar:
    """Return the sine of the float `x`."""
    return _call("sin", x)


def cos(x: ScalarLike) -> Scalar:
    """Return the cosine of the float `x`."""
    return _call("cos", x)


def abs(x: ScalarLike) -> Scalar:
    """Return the absolute value of a number, which may be complex."""
    return absolute(x)


def floor(x: ScalarLike) -> Scalar:
    """Return the float `x` rounded down."""
    return _call("floor", x)


def ceil(x: ScalarLike) -> Scalar:
    """Return the float `x` rounded up."""
    return _call("ceil", x)


def round(x: ScalarLike) -> Scalar:
    """Return the float `x` rounded to the nearest integer, halves to the even one."""
    return _call("round", x)


def power(base: ScalarLike, exponent: ScalarLike) -> Scalar:
    """Return `base` to the power `exponent`, both of one dtype, floats or integers.

    Integers wrap around; with a negative exponent 1 and -1 stay 1 or -1, others give 0.
    """
    return general_power(base, exponent)


def fmod(left: ScalarLike, right: ScalarLike) -> Scalar:
    """Return the remainder of `left / right` truncated to an integer, with the sign of `left`.

    As in C, it is exact for floats and integers. `%` has the sign of `right` instead.
    """
    a, b = match_dtypes("fmod", left, right)
    if a.dtype.is_float:
        return Scalar(call("fmod", a.expr, b.expr))
    is_same = a.dtype.kind is Kind.UINT or (isinstance(b.expr, Const) and b.expr.value == 0)
    return a % b if is_same else a - truncated_divide(a, b) * b  # by 0 `* b` would hide the fault


def truncated_divide(left: ScalarLike, right: ScalarLike) -> Scalar:
    """Return the quotient of two integers of one dtype, rounded towards 0 (`//` rounds it down).

    Raise LanguageError for other numbers.
    """
    a, b = match_dtypes("truncated_divide", left, right)
    if not a.dtype.is_integer:
        raise LanguageError(f"truncated_divide needs integers, not {a.dtype}; use / on floats")
    floor = a // b
    if a.dtype.kind is Kind.UINT:
        return floor
    is_rounded = all_of((a < 0) != (b < 0), floor * b != a)
    return if_then_else(is_rounded, floor + 1, floor)


def fma(left: ScalarLike, right: ScalarLike, addend: ScalarLike) -> Scalar:
    """Return `left * right + addend` of floats of one dtype, rounded once."""
    return Scalar(call("fma", *(as_scalar(each).expr for each in (left, right, addend))))


def popcount(x: ScalarLike) -> Scalar:
    """Return how many bits of the integer `x` are 1, in its dtype."""
    return _bits_of("popcount", x)


def clz(x: ScalarLike) -> Scalar:
    """Return how many zeros the integer `x` has before its first bit that is 1, in its dtype.

    Of 0 it is the number of bits.
    """
    return _bits_of("clz", x)


def ctz(x: ScalarLike) -> Scalar:
    """Return how many zeros the integer `x` has behind its last bit that is 1, in its dtype.

    Of 0 it is the number of bits.
    """
    return _bits_of("ctz", x)


def _bits_of(name: str, x: ScalarLike) -> Scalar:
    refuse_bool(x)
    operand = as_scalar(x)
    if not operand.dtype.is_integer:
        raise LanguageError(f"{name} counts bits of an integer, not of {operand.dtype}; cast first")
    return Scalar(call(name, operand.expr))


def _call(name: str, x: ScalarLike) -> Scalar:
    refuse_bool(x)
    return Scalar(call(name, as_scalar(x, FLOAT32).expr))


def _arm(value: ScalarLike) -> Scalar | float:
    """Return an arm of `if_then_else`; numbers become those of Python."""
    number = as_number(value)
    return as_scalar(value) if number is None else number


def _arm_of(arm: Scalar | float, like: DType | None) -> Scalar:
    if isinstance(arm, Scalar):
        return arm
    if isinstance(arm, float) and like is not None and not like.is_float:
        raise LanguageError(f"if_then_else chooses between {like} and {arm}; cast one arm")
    return as_scalar(arm, like)


def _join(op: BinaryOp, name: str, conditions: tuple[ScalarLike, ...]) -> Scalar:
    if not conditions:
        raise LanguageError(f"{name} needs one condition or more")
    tests = [as_condition(name, each) for each in conditions]
    return reduce(lambda left, right: binary(op, left, right), tests)
