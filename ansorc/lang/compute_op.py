"""What one `compute` means: its axes, its reduction and its body, as an immutable value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import DType
from ansorc.ir.expr import BinaryOp, Const, Expr, Load, binary, const
from ansorc.ir.node import walk


@dataclass(frozen=True)
class Axis:
    """One dimension of an iteration space: `name` runs over 0 … extent - 1."""

    name: str
    extent: int


class Combiner(Enum):
    """How the terms of a reduction are put together."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    PROD = "prod"

    def identity(self, dtype: DType) -> Const:
        """Return the value that changes nothing: 0 for a sum, the lowest `dtype` for max."""
        if self is Combiner.SUM:
            return const(0, dtype)
        if self is Combiner.PROD:
            return const(1, dtype)
        if dtype.is_float:
            return const(-math.inf if self is Combiner.MAX else math.inf, dtype)
        low, high = _integer_range(dtype)
        return const(low if self is Combiner.MAX else high, dtype)

    def combine(self, left: Expr, right: Expr) -> Expr:
        """Return the expression that adds the term `right` to the result `left`."""
        return binary(_OPERATORS[self], left, right)


_OPERATORS = {
    Combiner.SUM: BinaryOp.ADD,
    Combiner.MAX: BinaryOp.MAX,
    Combiner.MIN: BinaryOp.MIN,
    Combiner.PROD: BinaryOp.MUL,
}


@dataclass(frozen=True)
class ComputeOp:
    """`buffer[axes] = body`, or the terms `body` combined over `reduce_axes` by `combiner`.

    In `body` an axis is `Var(axis.name)`, an int64. `combiner` is None exactly if there are no
    reduce axes. `hints` are (name, value) pairs for the search.
    """

    name: str
    buffer: Buffer
    axes: tuple[Axis, ...]
    reduce_axes: tuple[Axis, ...]
    combiner: Combiner | None
    body: Expr
    hints: tuple[tuple[str, str], ...] = ()

    @cached_property
    def reads(self) -> tuple[Buffer, ...]:
        """The tensors that the body reads, without repetition, first read first."""
        loads = (node.buffer for node in walk(self.body) if isinstance(node, Load))
        return tuple({buffer.name: buffer for buffer in loads}.values())


def _integer_range(dtype: DType) -> tuple[int, int]:
    if dtype.kind.value == "int":
        return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
    return 0, 2**dtype.bits - 1
