"""The rules of a legal dot product."""

from __future__ import annotations

from ansorc.errors import IRError
from ansorc.ir.dtype import BFLOAT16, FLOAT32, INT8, INT16, INT32, UINT8, DType
from ansorc.ir.expr import Dot
from ansorc.ir.printer import expr_text

DOT_DTYPES: dict[int, dict[DType, frozenset[DType]]] = {
    4: {INT32: frozenset((INT8, UINT8))},
    2: {INT32: frozenset((INT16,)), FLOAT32: frozenset((BFLOAT16,))},
}
"""The dtypes of factors, by the number of terms and the dtype of the sums."""


def check_dot(expr: Dot, total: DType, left: DType, right: DType) -> DType:
    """Return the dtype of `expr` from those of its parts; raise IRError on illegal ones."""
    allowed = DOT_DTYPES.get(expr.terms)
    if allowed is None:
        raise IRError(f"{expr_text(expr)}: a dot product has 2 or 4 terms, not {expr.terms}")
    factors = allowed.get(total.element)
    if expr.in_pairs and {left.element, right.element} != {UINT8, INT8}:
        raise IRError(f"{expr_text(expr)}: pairs are products of uint8 and int8")
    if factors is None or not {left.element, right.element} <= factors:
        given = f"{left.element} and {right.element} into {total.element}"
        known = "; ".join(
            f"{' or '.join(sorted(map(str, factors_)))} into {into}"
            for into, factors_ in allowed.items()
        )
        raise IRError(f"{expr_text(expr)}: it multiplies {given}, but can only {known}")
    for operand in (left, right):
        if operand.lanes not in (expr.terms, expr.terms * total.lanes):
            raise IRError(
                f"{expr_text(expr)}: an operand has {operand.lanes} lanes; use {expr.terms} for "
                f"each of the {total.lanes} sums, or {expr.terms} that serve them all"
            )
    return total
