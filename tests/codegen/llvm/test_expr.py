"""Each kind of expression and each dtype: machine code against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from ansorc.ir.dtype import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, INT64, SCALARS, DType, Kind
from ansorc.ir.expr import (
    BinaryOp,
    Broadcast,
    Cast,
    CompareOp,
    Expr,
    ExprLike,
    Load,
    Not,
    Select,
    Var,
    as_expr,
    binary,
    compare,
)  # fmt: skip
from ansorc.ir.math_call import call
from ansorc.ir.stmt import Function, Store
from tests.codegen.llvm.llvm_harness import Array, assert_same, buffer, lanes, loop, run
from tests.support.nightly import sampled, sampled_pairs

COUNT = 16
SPECIAL = (0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 3.0e4)
FLOATS = (FLOAT16, BFLOAT16, FLOAT32, FLOAT64)
NUMBERS = [dtype for dtype in SCALARS.values() if not dtype.is_bool]
INTEGERS = [dtype for dtype in NUMBERS if dtype.is_integer]


def _data(dtype: DType, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return rng.integers(0, 2, COUNT).astype(np.bool_)
    if dtype.is_float:
        values = rng.standard_normal(COUNT) * 3
        values[: len(SPECIAL)] = np.roll(SPECIAL, seed)
        return values.astype(dtype.numpy)
    info = np.iinfo(dtype.name)
    values = rng.integers(-9, 10, COUNT) if dtype.kind is Kind.INT else rng.integers(0, 19, COUNT)
    result = values.astype(dtype.numpy)
    result[:4] = [info.max, info.min, info.max // 2 + 7, 1]
    return np.roll(result, seed)


def _unary(body: Callable[[Expr], Expr], dtype: DType, result: DType, data: Array) -> Array:
    return _evaluate(lambda operands: body(operands[0]), dtype, result, [data])


def _pair(
    body: Callable[[Expr, Expr], Expr], dtype: DType, result: DType, data: list[Array]
) -> Array:
    return _evaluate(lambda operands: body(operands[0], operands[1]), dtype, result, data)


def _evaluate(
    body: Callable[[list[Expr]], Expr], dtype: DType, result: DType, data: list[Array]
) -> Array:
    """Run `out[i] = body(a[i], b[i], …)` by scalars and by vectors; both must agree."""
    sources = [buffer(f"s{n}", COUNT, dtype=dtype) for n in range(len(data))]
    out = buffer("out", COUNT, dtype=result)
    outputs: list[Array] = []
    for width in (1, 4):

        def element(i: Var, width: int = width) -> Store:
            index = i if width == 1 else lanes(i * width, width)
            return Store(out, (index,), body([Load(source, (index,)) for source in sources]))

        target = np.zeros(COUNT, result.numpy)
        run(Function("f", (*sources, out), loop("i", COUNT // width, element)), *data, target)
        outputs.append(target)
    assert_same(outputs[0], outputs[1])
    return outputs[0]


ARITHMETIC: dict[BinaryOp, tuple[Any, list[DType]]] = {
    BinaryOp.ADD: (np.add, NUMBERS), BinaryOp.SUB: (np.subtract, NUMBERS),
    BinaryOp.MUL: (np.multiply, NUMBERS), BinaryOp.DIV: (np.divide, list(FLOATS)),
    BinaryOp.FLOORDIV: (np.floor_divide, INTEGERS), BinaryOp.MOD: (np.remainder, INTEGERS),
    BinaryOp.MIN: (np.minimum, NUMBERS), BinaryOp.MAX: (np.maximum, NUMBERS),
}  # fmt: skip


@pytest.mark.parametrize(
    ("op", "dtype"),
    [(op, dtype) for op, (_, dtypes) in ARITHMETIC.items() for dtype in dtypes],
    ids=str,
)
def test_arithmetic(op: BinaryOp, dtype: DType) -> None:
    a, b = _data(dtype, 0), _data(dtype, 1)
    with np.errstate(all="ignore"):
        expected = ARITHMETIC[op][0](a, b)
    found = _pair(lambda x, y: binary(op, x, y), dtype, dtype, [a, b])
    assert_same(found, expected)


@pytest.mark.parametrize(("op", "dtype"), sampled_pairs(list(CompareOp), NUMBERS), ids=str)
def test_comparison(op: CompareOp, dtype: DType) -> None:
    a, b = _data(dtype, 0), _data(dtype, 1)
    b[::3] = a[::3]
    numpy_op = {
        CompareOp.EQ: np.equal, CompareOp.NE: np.not_equal, CompareOp.LT: np.less,
        CompareOp.LE: np.less_equal, CompareOp.GT: np.greater, CompareOp.GE: np.greater_equal,
    }[op]  # fmt: skip
    with np.errstate(all="ignore"):
        expected = numpy_op(a, b)
    found = _pair(lambda x, y: compare(op, x, y), dtype, BOOL, [a, b])
    np.testing.assert_array_equal(found, expected)


def test_logic() -> None:
    a, b = np.array([0, 0, 1, 1] * 4, np.bool_), np.array([0, 1] * 8, np.bool_)
    both = _pair(lambda x, y: binary(BinaryOp.AND, x, y), BOOL, BOOL, [a, b])
    either = _pair(lambda x, y: binary(BinaryOp.OR, x, Not(y)), BOOL, BOOL, [a, b])
    np.testing.assert_array_equal(both, a & b)
    np.testing.assert_array_equal(either, a | ~b)


CASTS = list(product(SCALARS.values(), repeat=2))
SOME_CASTS = CASTS[::3]
"""Each dtype is converted to four others or more, and from as many: 13 is no multiple of 3."""


@pytest.mark.parametrize(
    "cast", sampled(CASTS, SOME_CASTS), ids=lambda cast: "-".join(map(str, cast))
)
def test_cast(cast: tuple[DType, DType]) -> None:
    source, goal = cast
    data = _data(source, 0)
    if source.is_float and goal.is_integer:
        low = 0 if goal.kind is Kind.UINT else -100
        data = np.linspace(low, 100, COUNT).astype(source.numpy)
    with np.errstate(all="ignore"):
        expected = data.astype(goal.numpy)
    found = _unary(lambda x: Cast(goal, x), source, goal, data)
    assert_same(found, expected)


def test_float_outside_the_range_of_an_integer_saturates() -> None:
    data = np.array([1e30, -1e30, np.nan, 7.9] * 4, np.float32)
    found = _unary(lambda x: Cast(SCALARS["int32"], x), FLOAT32, SCALARS["int32"], data)
    np.testing.assert_array_equal(found[:4], [2**31 - 1, -(2**31), 0, 7])


_erf: Any = np.vectorize(math.erf)


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


MATH: dict[str, Any] = {
    "exp": np.exp, "log": np.log, "tanh": np.tanh, "erf": _erf, "sqrt": np.sqrt, "sin": np.sin,
    "cos": np.cos, "abs": np.abs, "floor": np.floor, "ceil": np.ceil, "round": np.round,
    "rsqrt": _rsqrt, "sigmoid": _sigmoid, "exp2": np.exp2, "expm1": np.expm1, "log2": np.log2,
    "log1p": np.log1p,
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", MATH)
def test_math(name: str, dtype: DType) -> None:
    positive = ("log", "log2", "log1p", "sqrt", "rsqrt")
    data = np.linspace(0.5 if name in positive else -4.5, 4.5, COUNT)
    data = data.astype(dtype.numpy)
    expected = MATH[name](data.astype(np.float64))
    found = _unary(lambda x: call(name, x), dtype, dtype, data)
    tolerance = {16: 2 * dtype.epsilon, 32: 3e-7, 64: 1e-14}[dtype.bits]
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_math_of_several_operands(dtype: DType) -> None:
    a = np.linspace(0.5, 2, COUNT).astype(dtype.numpy)
    b = np.linspace(-2, 2, COUNT).astype(dtype.numpy)
    power = _pair(lambda x, y: call("pow", x, y), dtype, dtype, [a, b])
    fused = _pair(lambda x, y: call("fma", x, y, x), dtype, dtype, [a, b])
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    tolerance = {16: 2 * dtype.epsilon, 32: 3e-7, 64: 1e-14}[dtype.bits]
    found = power.astype(np.float64), fused.astype(np.float64)
    np.testing.assert_allclose(found[0], wide_a**wide_b, rtol=tolerance)
    np.testing.assert_allclose(found[1], wide_a * wide_b + wide_a, rtol=tolerance, atol=tolerance)


def test_round_goes_to_even() -> None:
    data = np.array([0.5, 1.5, 2.5, -0.5] * 4, np.float32)
    found = _unary(lambda x: call("round", x), FLOAT32, FLOAT32, data)
    np.testing.assert_array_equal(found, np.round(data))


@pytest.mark.parametrize("value", [0.1, -0.0, np.inf, -np.inf, np.nan, 1e-45, 1e300])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_literals(value: float, dtype: DType) -> None:
    data = np.zeros(COUNT, dtype.numpy)

    def body(x: Expr) -> Expr:
        return Select(compare(CompareOp.EQ, x, 0.0), as_expr(value, dtype), x)

    found = _unary(body, dtype, dtype, data)
    with np.errstate(over="ignore"):
        expected = np.full(COUNT, value).astype(dtype.numpy)
    assert_same(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("divisor", [-3, -1, 1, 2, 5, 8])
def test_constant_divisors_of_every_sign(divisor: int) -> None:
    data = np.arange(-8, 8, dtype=np.int64)
    quotient = _unary(lambda x: x // divisor, INT64, INT64, data)
    rest = _unary(lambda x: x % divisor, INT64, INT64, data)
    np.testing.assert_array_equal(quotient, data // divisor)
    np.testing.assert_array_equal(rest, data % divisor)


def test_int64_data_wraps_and_is_not_treated_as_an_index() -> None:
    data = np.array([2**63 - 1, -(2**63), 2**62, 12] * 4, np.int64)
    with np.errstate(over="ignore"):
        expected = (data * 8 + data) // 4
    found = _unary(lambda x: (x * 8 + x) // 4, INT64, INT64, data)
    np.testing.assert_array_equal(found, expected)


def test_index_values_become_data() -> None:
    out = buffer("out", 4, 8)

    def row(i: Var) -> Store:
        columns = lanes(0, 8, stride=3)
        value: Expr = Cast(FLOAT32, Broadcast(i, 8) * 10 + columns % 4)
        return Store(out, (i, lanes(0, 8)), value)

    found = np.zeros((4, 8), np.float32)
    run(Function("f", (out,), loop("i", 4, row)), found)
    np.testing.assert_array_equal(found, np.arange(4)[:, None] * 10 + np.arange(0, 24, 3) % 4)


def test_scalars_and_numbers_spread_over_lanes() -> None:
    source, out = buffer("source", 4), buffer("out", 8)
    value: ExprLike = Load(source, (as_expr(2),)) * Load(source, (lanes(0, 8, stride=0),)) + 1.0
    data, found = np.array([3, 0, 5, 0], np.float32), np.zeros(8, np.float32)
    run(Function("f", (source, out), Store(out, (lanes(0, 8),), as_expr(value))), data, found)
    np.testing.assert_array_equal(found, np.full(8, 16))
