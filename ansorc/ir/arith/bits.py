"""Bounds of bitwise operations and shifts of integers."""

from __future__ import annotations

from ansorc.ir.operator import BinaryOp


def bit_bounds(op: BinaryOp, a: tuple[int, int], b: tuple[int, int], bits: int) -> tuple[int, int]:
    """Return the least and the largest value of `a op b` for operands of `bits` bits within bounds.

    `op` is one of BITWISE. A left shift may leave the dtype; its bounds are those of the product
    then, which no integer of the dtype is, so the result may be any.
    """
    match op:
        case BinaryOp.BIT_AND:
            return _of_and(a, b)
        case BinaryOp.BIT_OR:  # ~(~a & ~b)
            low, high = _of_and((~a[1], ~a[0]), (~b[1], ~b[0]))
            return ~high, ~low
        case BinaryOp.BIT_XOR:
            if a == b and a[0] == a[1]:
                return 0, 0
            size = (1 << max(map(_length, (*a, *b)))) - 1
            if (a[0] >= 0 and b[0] >= 0) or (a[1] < 0 and b[1] < 0):
                return 0, size
            is_negative = (a[0] >= 0 and b[1] < 0) or (a[1] < 0 and b[0] >= 0)
            return ~size, -1 if is_negative else size
        case _:
            counts = {max(0, min(b[0], bits)), max(0, min(b[1], bits))}
            if b[0] < 0:  # as a count beyond the dtype
                counts.add(bits)
            is_left = op is BinaryOp.SHL
            corners = [x << n if is_left else x >> n for x in a for n in counts]
            if is_left and (b[0] < 0 or b[1] >= bits):
                corners.append(0)
            return min(corners), max(corners)


def _of_and(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    positive = [x for x in (a, b) if x[0] >= 0]
    if positive:
        return 0, min(x[1] for x in positive)
    low = -(1 << max(_length(a[0]), _length(b[0])))
    is_negative = a[1] < 0 and b[1] < 0
    return low, min(a[1], b[1]) if is_negative else max(a[1], b[1])


def _length(value: int) -> int:
    return (value if value >= 0 else ~value).bit_length()
