"""The linear form: arithmetic on sums is arithmetic on their values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ansorc.codegen.llvm.lane_index import lane_form
from ansorc.ir.arith.affine import Linear, affine, collect
from ansorc.ir.dtype import INT64
from ansorc.ir.expr import Binary, BinaryOp, Broadcast, Const, Expr, Ramp, Var, const

VALUES = {"a": 7, "b": -3, "c": 11}
a, b = Var("a"), Var("b")
numbers = st.integers(-6, 6)
sums = st.builds(
    Linear[str],
    st.dictionaries(st.sampled_from("abc"), numbers.filter(bool)),
    numbers,
)


def value(total: Linear[str]) -> int:
    assert all(total.terms.values())
    return total.constant + sum(factor * VALUES[name] for name, factor in total.terms.items())


@given(sums, sums, numbers)
def test_arithmetic(one: Linear[str], other: Linear[str], factor: int) -> None:
    before = value(one)
    assert value(one.plus(other, factor)) == before + factor * value(other)
    assert value(one.times(factor)) == factor * before
    assert value(one.offset_by(factor)) == before + factor
    values = {name: other.offset_by(number) for name, number in VALUES.items()}
    numbers = {name: value(each) for name, each in values.items()}
    expected = one.constant + sum(one.coefficient(name) * numbers[name] for name in "abc")
    assert value(one.at(values.__getitem__)) == expected
    assert value(one) == before
    one.add_scaled(other, factor)
    assert value(one) == before + factor * value(other)


@given(sums, st.integers(1, 5))
def test_split(total: Linear[str], divisor: int) -> None:
    quotient, rest = total.split(divisor)
    assert 0 <= rest.constant < divisor
    assert divisor * value(quotient) + value(rest) == value(total)


def test_what_is_no_sum_is_asked_for_with_its_factor() -> None:
    found: list[tuple[Expr, int]] = []

    def rest(expr: Expr, scale: int, _: Linear[str]) -> bool:
        found.append((expr, scale))
        return True

    total: Linear[str] = Linear()
    assert collect((a // 2 - b * 4 + 5) * -3, 1, total, rest)
    assert (found, total) == ([(a // 2, -3), (b, 12)], Linear({}, -15))


def test_a_sum_of_variables_is_sorted_and_what_cancels_does_not_matter() -> None:
    found = affine(b * 2 + a // 2 + a - a // 2)
    assert found is not None
    assert found == Linear({"a": 1, "b": 2})
    assert list(found.terms) == ["a", "b"]
    assert affine(a // 2) is None


def test_lanes() -> None:
    ramp = Ramp(a * 3, const(2), 4)
    found = lane_form((Binary(BinaryOp.ADD, ramp, Broadcast(b, 4)), a // 2), (5, 1))
    assert found is not None
    assert found.first == Linear({"a": 15, "b": 5, a // 2: 1})
    assert (found.lanes, found.step, found.reach) == (4, 10, 30)
    assert found.lane(2).constant == 20


def test_quotients_of_known_lanes_are_steps_where_they_are_even() -> None:
    ramp, four = Ramp(const(0), const(2), 4), Const(4, INT64.vector(4))
    quotient, rest = Binary(BinaryOp.FLOORDIV, ramp, four), Binary(BinaryOp.MOD, ramp, four)
    assert lane_form((quotient,)) is None
    assert lane_form((rest,)) is None
    found = lane_form((quotient, rest), (4, 1))
    assert found is not None
    assert (found.first, found.step) == (Linear(), 2)
    assert lane_form((Binary(BinaryOp.FLOORDIV, Ramp(a, const(1), 4), four),)) is None
