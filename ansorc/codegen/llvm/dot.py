"""Dot products: the instruction of the machine, on vectors of the widths that it has."""

from __future__ import annotations

from collections.abc import Sequence

from ansorc.codegen.llvm.math import cast
from ansorc.codegen.llvm.types import Value, register_type, with_lanes
from ansorc.codegen.llvm.vector import any_lane, extract, splat
from ansorc.codegen.llvm.writer import FunctionWriter
from ansorc.ir.dtype import INT16, INT32, DType
from ansorc.ir.expr import Dot
from ansorc.target.dot_products import DotProduct, dot_products


def dot_product(
    writer: FunctionWriter, expr: Dot, total: Value, left: Value, right: Value
) -> Value:
    """Write `expr`, of operands that are written (see `Dot`).

    The target must have an instruction for it (see `require_features`). Where that is only assumed
    of the machine that the code is for, it is written in plain arithmetic.
    """
    names = left.dtype.element.name, right.dtype.element.name
    terms, target = expr.terms, writer.module.target
    instructions = dot_products(target, terms, *names, in_pairs=expr.in_pairs)
    if not instructions:
        return _plain(writer, terms, total, [left, right])
    if instructions[0].left != names[0]:
        left, right = right, left
    lanes, start = total.dtype.lanes, 0
    parts: list[Value] = []
    while start < lanes:
        chosen = next(
            (instruction for instruction in instructions if instruction.lanes <= lanes - start),
            instructions[-1],
        )
        sums = _cut(writer, total, start, chosen.lanes)
        factors = [_factor(writer, side, chosen, start) for side in (left, right)]
        parts.append(_instruction(writer, chosen, sums, factors))
        start += chosen.lanes
    return _join(writer, parts, lanes)


def _plain(writer: FunctionWriter, terms: int, total: Value, sides: Sequence[Value]) -> Value:
    prefix = "f" if total.dtype.is_float else ""
    for term in reversed(range(terms)):  # the order of the instructions for bfloat16
        factors = [_term(writer, side, terms, term, total.dtype) for side in sides]
        product = writer.emit(f"{prefix}mul {factors[0].typed}, {factors[1].text}")
        total = Value(writer.emit(f"{prefix}add {total.typed}, {product}"), total.dtype)
    return total


def _term(writer: FunctionWriter, side: Value, terms: int, term: int, goal: DType) -> Value:
    """Return the factor number `term` of each sum; a side of one group has the same for all."""
    step = 0 if side.dtype.lanes == terms else terms
    if goal.lanes == 1:
        return cast(writer, extract(writer, side, term), goal.element)
    order = [lane * step + term for lane in range(goal.lanes)]
    return cast(writer, _shuffle(writer, side, order), goal.element)


def widen_mask(writer: FunctionWriter, mask: Value, lanes: int) -> Value:
    """Return the mask of an operand of `lanes` lanes, where `mask` is that of the sums."""
    count = mask.dtype.lanes
    if lanes % count or lanes == count:  # one operand for all sums: read if any is wanted
        return splat(writer, any_lane(writer, mask), lanes)
    return _shuffle(writer, mask, [lane * count // lanes for lane in range(lanes)])


def _factor(writer: FunctionWriter, side: Value, chosen: DotProduct, start: int) -> Value:
    """Return what one instruction multiplies for the sums from lane `start` on."""
    terms, width = chosen.terms, chosen.lanes
    if side.dtype.lanes != terms:
        return _cut(writer, side, start * terms, width * terms)
    goal = with_lanes(side.dtype, terms * width)
    group = Value(writer.emit(f"bitcast {side.typed} to i32"), INT32)
    wide = splat(writer, group, width)
    return Value(writer.emit(f"bitcast {wide.typed} to {register_type(goal)}"), goal)


def _instruction(
    writer: FunctionWriter, chosen: DotProduct, sums: Value, factors: Sequence[Value]
) -> Value:
    kind = register_type(sums.dtype)
    operands = [_operand(writer, factor) for factor in factors]
    if chosen.adds:
        operands.insert(0, (kind, sums.text))
    kinds = ", ".join(kind for kind, _ in operands)
    if chosen.in_pairs:
        kind = register_type(INT16.vector(2 * chosen.lanes))
    writer.module.declare(f"declare {kind} @llvm.{chosen.llvm}({kinds})")
    listing = ", ".join(f"{kind} {text}" for kind, text in operands)
    result = writer.emit(f"call {kind} @llvm.{chosen.llvm}({listing})")
    if chosen.adds:
        return Value(result, sums.dtype)
    if chosen.in_pairs:
        return _add_pairs(writer, Value(result, INT16.vector(2 * chosen.lanes)), sums)
    return Value(writer.emit(f"add {sums.typed}, {result}"), sums.dtype)


def _add_pairs(writer: FunctionWriter, pairs: Value, sums: Value) -> Value:
    """Write `sums` plus each two sums of pairs, as products with 1."""
    target, lanes = writer.module.target, sums.dtype.lanes
    found = dot_products(target, 2, "int16", "int16")
    chosen = next(each for each in found if each.lanes == lanes and not each.adds)
    one = splat(writer, Value("1", INT16), pairs.dtype.lanes)
    return _instruction(writer, chosen, sums, (pairs, one))


def _operand(writer: FunctionWriter, factor: Value) -> tuple[str, str]:
    """Return type and text of a factor; instructions know bfloat16 by a type of its own."""
    if not factor.dtype.is_bfloat:
        return register_type(factor.dtype), factor.text
    kind = f"<{factor.dtype.lanes} x bfloat>"
    return kind, writer.emit(f"bitcast {factor.typed} to {kind}")


def _cut(writer: FunctionWriter, value: Value, start: int, width: int) -> Value:
    """Return the lanes of `value` from `start` on; those beyond its last are undefined."""
    lanes = value.dtype.lanes
    if lanes == 1:
        goal = with_lanes(value.dtype, width)
        text = f"insertelement {register_type(goal)} poison, {value.typed}, i64 0"
        return Value(writer.emit(text), goal)
    if (start, width) == (0, lanes):
        return value
    return _shuffle(writer, value, range(start, start + width))


def _join(writer: FunctionWriter, parts: Sequence[Value], lanes: int) -> Value:
    """Return the first `lanes` lanes of `parts`, one after another."""
    if lanes == 1:
        return extract(writer, parts[0], 0)
    whole = parts[0]
    for part in parts[1:]:
        held, more = whole.dtype.lanes, part.dtype.lanes
        size = max(held, more)
        sides = [_cut(writer, side, 0, size) for side in (whole, part)]
        order = [*range(held), *range(size, size + more)]
        whole = _shuffle(writer, sides[0], order, sides[1])
    return _cut(writer, whole, 0, lanes)


def _shuffle(
    writer: FunctionWriter, value: Value, order: Sequence[int], other: Value | None = None
) -> Value:
    """Return the given lanes of `value`, then `other`; those beyond the last are undefined."""
    count = value.dtype.lanes * (1 if other is None else 2)
    goal = with_lanes(value.dtype, len(order))
    second = "poison" if other is None else other.text
    places = ", ".join(f"i32 {lane}" if lane < count else "i32 poison" for lane in order)
    kind = register_type(value.dtype)
    text = f"shufflevector {value.typed}, {kind} {second}, <{len(order)} x i32> <{places}>"
    return Value(writer.emit(text), goal)
