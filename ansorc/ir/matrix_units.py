"""What matrix units of a GPU do: rules and meaning of `MatrixLoad`, `MatrixMultiply`, `Transpose`.

All are done by the 32 threads of a warp together. Where each has what is said in `ansorc.ir.expr`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ansorc.errors import IRError
from ansorc.ir.dtype import BFLOAT16, FLOAT16, FLOAT32, INT8, INT32, DType
from ansorc.ir.expr import MatrixLoad, MatrixMultiply, Transpose
from ansorc.ir.printer import expr_text
from ansorc.ir.undefined import Undefined, first_undefined
from ansorc.target.gpu import WARP_THREADS

ROW_BYTES = 16
"""Of one row of the 8 that `ldmatrix` loads (PTX ISA, "Warp-level matrix load instruction")."""
REGISTER_BYTES = 4
"""Of a 32-bit register, in which a thread holds its part of a matrix."""
SUMS: dict[DType, tuple[DType, ...]] = {
    FLOAT16: (FLOAT32, FLOAT16), BFLOAT16: (FLOAT32,), FLOAT32: (FLOAT32,), INT8: (INT32,)
}  # fmt: skip
"""What sums of products of each dtype are in."""

Given = Mapping[int, Sequence[Any]]
"""What each thread gives, by its number in the block."""


def check_matrix_load(expr: MatrixLoad, operand: DType) -> DType:
    """Return the dtype of `expr`, whose operand has this one; raise IRError on an illegal one."""
    if operand.is_bool or operand.bits * operand.lanes != 8 * ROW_BYTES:
        raise IRError(f"{expr_text(expr)}: a row of a matrix has 16 bytes; this is {operand}")
    if expr.is_transposed and operand.bits != 16:
        raise IRError(
            f"{expr_text(expr)}: only matrices of 16-bit elements are transposed, not of "
            f"{operand.element}; load their elements one by one"
        )
    return operand


def check_transpose(expr: Transpose, operand: DType) -> DType:
    """Return the dtype of `expr`, whose operand has this one; raise IRError on an illegal one."""
    pieces = expr.threads
    if pieces not in (2, 4) or operand.lanes % pieces or operand.is_bool:
        raise IRError(f"{expr_text(expr)}: 2 or 4 threads exchange as many pieces of {operand}")
    if operand.lanes // pieces * operand.bits > 8 * REGISTER_BYTES:
        raise IRError(f"{expr_text(expr)}: a piece of {operand} is more than 4 bytes")
    return operand


def check_matrix_multiply(expr: MatrixMultiply, total: DType, left: DType, right: DType) -> DType:
    """Return the dtype of `expr`, whose parts have these; raise IRError on illegal ones."""
    factor = left.element
    if left.element != right.element or total.element not in SUMS.get(factor, ()):
        known = ", ".join(f"{each} into {one}" for each, sums in SUMS.items() for one in sums)
        raise IRError(
            f"{expr_text(expr)}: it multiplies {left.element} and {right.element} into "
            f"{total.element}; matrix units multiply {known}"
        )
    per = 32 // factor.bits
    if (total.lanes, left.lanes, right.lanes) != (4, 4 * per, 2 * per):
        raise IRError(
            f"{expr_text(expr)}: a thread has 4 sums, {4 * per} and {2 * per} factors of {factor}, "
            f"not {total.lanes}, {left.lanes} and {right.lanes}"
        )
    return total


def given_rows(given: Given, number: int, *, is_transposed: bool) -> list[Any]:
    """Return what thread `number` gets of the rows that those of its warp have given."""
    first, lane = number // WARP_THREADS * WARP_THREADS, number % WARP_THREADS
    per = len(given[number]) // 4
    column, row = lane % 4 * per, lane // 4
    if is_transposed:
        return [given[first + 8 * i + column + e][row] for i in range(4) for e in range(per)]
    return [given[first + 8 * i + row][column + e] for i in range(4) for e in range(per)]


def given_pieces(given: Given, number: int, threads: int) -> list[Any]:
    """Return what thread `number` gets of the vectors that its neighbours have given."""
    place, size = number % threads, len(given[number]) // threads
    first = number - place
    pieces = [given[first + i][place * size : (place + 1) * size] for i in range(threads)]
    return [element for piece in pieces for element in piece]


def multiplied(given: Given, number: int, total: Sequence[Any], dtype: DType) -> list[Any]:
    """Return the sums of thread `number`: each has given its factors, first those of `left`.

    The sums of floats are exact, or nearly, until they are rounded to `dtype` at the end.
    """
    first, lane = number // WARP_THREADS * WARP_THREADS, number % WARP_THREADS
    per = len(given[number]) // 6
    found: list[Any] = []
    for i in range(4):
        row, column = lane // 4, lane % 4 * 2 + i % 2
        result: Any = total[i]
        if dtype.is_float and first_undefined(result) is None:
            result = float(result)
        for place in range(4):
            left, right = given[first + 4 * row + place], given[first + 4 * column + place]
            for half in range(2):
                a, b = (i // 2 + 2 * half) * per, (4 + half) * per
                for e in range(per):
                    result += _factor(left[a + e]) * _factor(right[b + e])
        if first_undefined(result) is None:
            is_float = dtype.is_float
            result = dtype.numpy.type(result) if is_float else (result + 2**31) % 2**32 - 2**31
        found.append(result)
    return found


def _factor(value: Any) -> Any:
    """A factor as the units take it."""
    if type(value) is np.float32:
        return float((value.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32))
    return value if isinstance(value, int | Undefined) else float(value)
