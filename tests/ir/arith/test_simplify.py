from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorc.ir.arith.affine import affine
from ansorc.ir.arith.interval import bounds, prove
from ansorc.ir.arith.simplify import simplify, simplify_stmt
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import BOOL, FLOAT32, INT8, INT32, INT64
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Broadcast,
    Cast,
    Compare,
    CompareOp,
    Const,
    Expr,
    Load,
    Not,
    Ramp,
    Reduce,
    Select,
    Var,
    const,
)
from ansorc.ir.node import walk
from ansorc.ir.parser import parse
from tests.support.nightly import examples

EXTENTS = {"a": 3, "b": 4, "c": 6, "d": 1}
RANGES = {name: (0, extent - 1) for name, extent in EXTENTS.items()}
a, b, c, d = (Var(name) for name in EXTENTS)
n = Var("n")
x = Load(Buffer("X", (8,), FLOAT32), (a,))
y = Load(Buffer("Y", (8,), INT64), (a,))
z = Load(Buffer("Z", (8,), INT32), (a,))


def value(expr: Expr, env: dict[str, int]) -> int:
    """The meaning of int64 and bool expressions in Python's own integers."""
    match expr:
        case Const(number, _):
            return int(number)
        case Var(name, _):
            return env[name]
        case Not(operand):
            return int(not value(operand, env))
        case Select(condition, then, otherwise):
            return value(then if value(condition, env) else otherwise, env)
        case Binary(op, left, right):
            return _apply(op, value(left, env), value(right, env))
        case Compare(op, left, right):
            return int(_holds(op, value(left, env), value(right, env)))
        case _:
            raise AssertionError(f"no meaning here: {expr}")


def _apply(op: BinaryOp, p: int, q: int) -> int:
    results = {
        BinaryOp.ADD: p + q,
        BinaryOp.SUB: p - q,
        BinaryOp.MUL: p * q,
        BinaryOp.MIN: min(p, q),
        BinaryOp.MAX: max(p, q),
        BinaryOp.AND: p & q,
        BinaryOp.OR: p | q,
    }
    if op in results:
        return results[op]
    return p // q if op is BinaryOp.FLOORDIV else p % q


def _holds(op: CompareOp, p: int, q: int) -> bool:
    return {
        CompareOp.EQ: p == q,
        CompareOp.NE: p != q,
        CompareOp.LT: p < q,
        CompareOp.LE: p <= q,
        CompareOp.GT: p > q,
        CompareOp.GE: p >= q,
    }[op]


def environments() -> list[dict[str, int]]:
    places = itertools.product(*(range(extent) for extent in EXTENTS.values()))
    return [dict(zip(EXTENTS, place, strict=True)) for place in places]


ENVIRONMENTS = environments()
leaves = st.sampled_from([a, b, c, d]) | st.integers(-9, 9).map(const)
divisors = st.sampled_from([1, 2, 3, 4, 6, 8, 12]).map(const)


def _bigger_ints(ints: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    ring = st.sampled_from([BinaryOp.ADD, BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL])
    order = st.sampled_from([BinaryOp.MIN, BinaryOp.MAX])
    division = st.sampled_from([BinaryOp.FLOORDIV, BinaryOp.MOD])
    scaled = st.builds(Binary, st.just(BinaryOp.MUL), ints, divisors)
    sums = st.builds(Binary, st.just(BinaryOp.ADD), scaled, ints)
    return (
        st.builds(Binary, ring | order, ints, ints)
        | st.builds(Binary, division, ints | sums, divisors)
        | st.builds(Binary, division, sums, divisors)
        | sums
        | st.builds(Select, comparisons(ints), ints, ints)
    )


def comparisons(ints: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.builds(Compare, st.sampled_from(list(CompareOp)), ints, ints)


integers: st.SearchStrategy[Expr] = st.recursive(leaves, _bigger_ints, max_leaves=9)


def _bigger_conditions(parts: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    join = st.sampled_from([BinaryOp.AND, BinaryOp.OR])
    return st.builds(Binary, join, parts, parts) | st.builds(Not, parts)


conditions: st.SearchStrategy[Expr] = st.recursive(
    comparisons(integers) | st.booleans().map(lambda known: const(known, BOOL)),
    _bigger_conditions,
    max_leaves=4,
)


@examples(72, nightly=400)
@given(integers | conditions)
def test_simplify_keeps_the_value_and_is_idempotent(expr: Expr) -> None:
    simple = simplify(expr, RANGES)
    for env in ENVIRONMENTS:
        assert value(simple, env) == value(expr, env)
    assert simplify(simple, RANGES) is simple


@examples(72, nightly=400)
@given(integers)
def test_bounds_hold(expr: Expr) -> None:
    found = bounds(expr, RANGES)
    assert found is not None
    low, high = found
    assert all(low <= value(expr, env) <= high for env in ENVIRONMENTS)


@examples(72, nightly=400)
@given(conditions)
def test_what_is_proved_is_true(condition: Expr) -> None:
    known = prove(condition, RANGES)
    if known is not None:
        assert all(bool(value(condition, env)) == known for env in ENVIRONMENTS)


@examples(30, nightly=100)
@given(integers)
def test_affine_form_has_the_same_value(expr: Expr) -> None:
    form = affine(expr)
    if form is not None:
        assert list(form.terms) == sorted(form.terms)
        for env in ENVIRONMENTS:
            terms = (factor * env[name] for name, factor in form.terms.items())
            assert form.constant + sum(terms) == value(expr, env)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (a * 32 + 4 - a * 32, const(4)),
        ((a * 4 + b) // 4, a),
        ((a * 4 + b) % 4, b),
        ((a * 12 + b * 3 + 2) // 3, a * 4 + b),
        ((a * 24 + b * 6 + c) // 24, a),
        ((a * 24 + b * 6 + c) % 24, b * 6 + c),
        ((a * 24 + b * 6 + c) // 6 % 4, b),
        ((c // 2) // 3, const(0)),
        ((a * 16 + b) // 64, a // 4),
        ((a * 16 + b) % 32, a % 2 * 16 + b),
        ((c // 4) * 4 + c % 4, c),
        ((n // 4) % 3 * 4 + n % 4 + a, n % 12 + a),
        (n % 2 + n // 2 % 3 * 2 + n // 6 * 6, n),
        ((n * 4 + b) // 6 % 2 * 6 + (n * 4 + b) % 6, n % 3 * 4 + b),
        (n // 10 % 3 * 6 + n // 5 % 2 * 3 + n // 20, n // 5 % 6 * 3 + n // 20),
        ((c % 4 + a) % 2, (c + a) % 2),
        (((n % 4 * 3 + a) % 8 + b) % 2, (n * 3 + a + b) % 2),
        (d + b, b),
        (Binary(BinaryOp.MIN, a, const(7)), a),
        (Binary(BinaryOp.MAX, a + 1, a), a + 1),
        (a + 3 < a + 4, const(True, BOOL)),
        (a * 4 + b < 8, a < 2),
        (a * 4 + b >= 4, a >= 1),
        (Compare(CompareOp.LE, const(1), a), a >= 1),
        (Compare(CompareOp.EQ, a * 2, const(3)), const(False, BOOL)),
        (Binary(BinaryOp.AND, a < 2, a < 2), a < 2),
        (Not(a < 2), a >= 2),
        (Select(a < 2, a // 2, a), Select(a < 2, const(0), a)),
        (Select(a < 9, a, b), a),
        (Cast(INT64, a), a),
        (Cast(FLOAT32, const(3)), const(3.0, FLOAT32)),
        (Ramp(a * 4 + b - b, const(0), 8), simplify(Ramp(a * 4, const(0), 8))),
    ],
)
def test_laws(before: Expr, after: Expr) -> None:
    assert simplify(before, {**RANGES, "a": (0, 7)}) == after


@examples(30, nightly=100)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=5),
    st.integers(1, 3),
    st.randoms(),
)
def test_digits_that_adjoin_are_one(
    digits: list[tuple[int, bool]], unit: int, order: random.Random
) -> None:
    """Some digits of a number of any bounds, in any order, have the value that they had."""
    stride = 1
    terms: list[Expr] = [const(0)]
    for count, is_kept in digits:
        if is_kept:
            terms.append(n // stride % count * (stride * unit))
        stride *= count
    order.shuffle(terms)
    total = sum(terms[1:], terms[0])
    simpler = simplify(total)
    for number in range(-9, 300):
        assert value(simpler, {"n": number}) == value(total, {"n": number})


def test_float_laws_keep_every_bit() -> None:
    one, zero, negative = const(1.0, FLOAT32), const(0.0, FLOAT32), const(-0.0, FLOAT32)
    assert simplify(x * one) is x
    assert simplify(x / one) is x
    assert simplify(x - zero) is x
    assert simplify(x + negative) is x
    for kept in (x + zero, x - negative, x * zero, x - x, (x + one) - one, x / x):
        assert simplify(kept) is kept


def test_signed_zeros_stay_apart() -> None:
    chosen = Select(a < 2, const(0.0, FLOAT32), const(-0.0, FLOAT32))
    assert simplify(chosen, RANGES | {"a": (0, 7)}) is chosen
    folded = simplify(const(-0.0, FLOAT32) * const(2.0, FLOAT32))
    assert isinstance(folded, Const)
    assert math.copysign(1, folded.value) == -1


def test_float_literals_fold_as_the_machine_rounds() -> None:
    folded = simplify(const(0.1, FLOAT32) + const(0.2, FLOAT32))
    assert folded == const(0.30000001192092896, FLOAT32)
    endless = const(3e38, FLOAT32) * const(10.0, FLOAT32)
    assert simplify(endless) is endless


def test_nan_forbids_inverting_an_order() -> None:
    condition = Not(x < x + 1.0)
    assert simplify(condition) is condition
    assert simplify(Not(Compare(CompareOp.EQ, x, x))) == Compare(CompareOp.NE, x, x)


def test_data_may_wrap_around() -> None:
    for kept in (y + 1 > y, (y * 4) // 4, Compare(CompareOp.LT, y + 1, y + 2)):
        assert simplify(kept) is kept
    assert simplify((y + 1) - 1) == y
    assert simplify(z * 0) == const(0, INT32)
    assert simplify(const(100, INT8) + const(100, INT8)) == const(-56, INT8)
    unknown = const(1, INT32) // const(0, INT32)
    assert simplify(unknown) is unknown


def test_nothing_new_without_a_change() -> None:
    expr = Select(a * 4 + b < 7, Load(Buffer("X", (99,), FLOAT32), (a * 9 + b,)) * 2.0, x)
    assert simplify(expr, RANGES | {"a": (0, 7)}) is expr
    assert all(simplify(part, {}) is part for part in walk(a * 4 + b) if isinstance(part, Binary))


def test_what_lanes_are_summed_of_keeps_its_lanes() -> None:
    one = const(1.0, FLOAT32)
    lanes = Select(const(0, BOOL), Broadcast(one, 4), one)
    assert simplify(Reduce(BinaryOp.ADD, lanes)) == Reduce(BinaryOp.ADD, Broadcast(one, 4))


def test_what_is_left_of_a_branch_knows_when_it_runs() -> None:
    text = """
kernel choose(A: int64[3]):
    for i in 0..3:
        if 0 != i:
            pass
        else:
            A[i] = i
"""
    once = simplify_stmt(parse(text))
    assert simplify_stmt(once) is once
    assert once == parse(
        text.replace("0 != i", "i == 0").replace(
            "pass\n        else:\n            A[i] = i", "A[0] = 0"
        )
    )
