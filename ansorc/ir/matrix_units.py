"""Matrix units of a GPU: rules and meaning of `MatrixLoad`, `MatrixMultiply`, `Transpose`.

The 32 threads of a warp do each of them together. The layout in registers is described in
`ansorc.ir.expr`.
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
"""The bytes of one of 8 rows that `ldmatrix` loads (PTX ISA, "Warp-level matrix load
instruction")."""
REGISTER_BYTES = 4
"""The bytes of a register, in which a thread holds its part of a matrix."""
SUMS: dict[DType, tuple[DType, ...]] = {
    FLOAT16: (FLOAT32, FLOAT16), BFLOAT16: (FLOAT32,), FLOAT32: (FLOAT32,), INT8: (INT32,)
}  # fmt: skip
"""The dtypes of sums, by the dtype of the factors."""

Given = Mapping[int, Sequence[Any]]
"""The value that each thread provides, by its number in the block."""


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
        known = ", ".join(f"{each} into {total_}" for each, sums in SUMS.items() for total_ in sums)
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


def receive_rows(given: Given, number: int, *, is_transposed: bool) -> list[Any]:
    """Return the elements that thread `number` receives from the rows of its warp."""
    first, lane = number // WARP_THREADS * WARP_THREADS, number % WARP_THREADS
    per = len(given[number]) // 4
    column, row = lane % 4 * per, lane // 4
    if is_transposed:
        return [given[first + 8 * i + column + e][row] for i in range(4) for e in range(per)]
    return [given[first + 8 * i + row][column + e] for i in range(4) for e in range(per)]


def receive_pieces(given: Given, number: int, threads: int) -> list[Any]:
    """Return the pieces that thread `number` receives from the vectors of its neighbours."""
    lane, size = number % threads, len(given[number]) // threads
    first = number - lane
    pieces = [given[first + i][lane * size : (lane + 1) * size] for i in range(threads)]
    return [element for piece in pieces for element in piece]


def multiply_tiles(given: Given, number: int, total: Sequence[Any], dtype: DType) -> list[Any]:
    """Return the sums of thread `number`; each thread provides its factors, `left` first.

    Sums of floats are exact, or nearly so, until they are rounded to `dtype` at the end.
    """
    first, lane = number // WARP_THREADS * WARP_THREADS, number % WARP_THREADS
    per = len(given[number]) // 6
    sums: list[Any] = []
    for i in range(4):
        row, column = lane // 4, lane % 4 * 2 + i % 2
        result: Any = total[i]
        if dtype.is_float and first_undefined(result) is None:
            result = float(result)
        for element in range(4):
            left, right = given[first + 4 * row + element], given[first + 4 * column + element]
            for half in range(2):
                a, b = (i // 2 + 2 * half) * per, (4 + half) * per
                for e in range(per):
                    result += _factor(left[a + e]) * _factor(right[b + e])
        if first_undefined(result) is None:
            is_float = dtype.is_float
            result = dtype.numpy.type(result) if is_float else (result + 2**31) % 2**32 - 2**31
        sums.append(result)
    return sums


def _factor(value: Any) -> Any:
    """Return a factor with the precision of the units."""
    if type(value) is np.float32:
        return float((value.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32))
    return value if isinstance(value, int | Undefined) else float(value)
