"""Read indices that are cut off at the borders of a tensor: `max(min(e, high), low)`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf

from ansorc.ir.arith.affine import Linear, affine
from ansorc.ir.expr import Binary, BinaryOp, Const, Expr


@dataclass(frozen=True)
class CutOff:
    """A value that is cut off at limits; one that is missing is infinite."""

    value: Expr
    low: float = -inf
    high: float = inf


def cut_off(index: Expr) -> CutOff | None:
    """Return what `index` cuts off and where; None where it does not, or has no such order.

    An index whose lower limit is above its upper one is not read either: the order would matter.
    """
    low, high, value = -inf, inf, index
    while isinstance(value, Binary) and value.op in (BinaryOp.MAX, BinaryOp.MIN):
        limit, inner = value.right, value.left
        if not isinstance(limit, Const):
            limit, inner = inner, limit
        if not isinstance(limit, Const):
            return None
        if value.op is BinaryOp.MAX:
            low = max(low, float(limit.value))
        else:
            high = min(high, float(limit.value))
        value = inner
    return None if value is index or low > high else CutOff(value, low, high)


@lru_cache(maxsize=1 << 14)
def linear_form(index: Expr) -> tuple[Linear[str] | None, CutOff | None]:
    """Return the linear form of `index`, or of what it cuts off and where; None if it has none.

    The form is shared by all who ask for it, and must not be changed.
    """
    form, cut = affine(index), None
    if form is None and (cut := cut_off(index)) is not None:
        form = affine(cut.value)
    return form, cut
