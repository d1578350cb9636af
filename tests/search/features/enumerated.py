"""What a lowered program does, found by running through all iterations of its loops at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Binary, BinaryOp, Const, Expr, Load, Select, Var, dtype_of
from ansorc.ir.node import walk
from tests.search.features.brute_force import Statement

Numbers: TypeAlias = npt.NDArray[np.integer]
Place: TypeAlias = int
"""What lies inside the first loops: these stay at their first iteration, the others run."""

OPERATORS: dict[BinaryOp, Callable[[Numbers, Numbers], Numbers]] = {
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.MUL: np.multiply,
    BinaryOp.FLOORDIV: np.floor_divide,
    BinaryOp.MOD: np.mod,
    BinaryOp.MIN: np.minimum,
    BinaryOp.MAX: np.maximum,
}


@dataclass(frozen=True, eq=False)
class Run:
    """A statement, run."""

    statement: Statement

    @property
    def extents(self) -> list[int]:
        return [loop.extent for loop in self.statement.loops]

    @cached_property
    def buffers(self) -> dict[str, tuple[Buffer, list[tuple[Expr, ...]]]]:
        """The tensors by name, with the indices of all loads and of the store."""
        store = self.statement.store
        found = {store.buffer.name: (store.buffer, [store.indices])}
        for node in walk(store.value):
            if isinstance(node, Load) and node.buffer.name != store.buffer.name:
                found.setdefault(node.buffer.name, (node.buffer, []))[1].append(node.indices)
        return found

    @property
    def is_padded(self) -> bool:
        """Whether some loads do not happen."""
        return any(isinstance(node, Select) for node in walk(self.statement.store.value))

    def touched(self, name: str, place: Place, first: dict[int, int] | None = None) -> Numbers:
        """Return [elements, dimensions]: the different indices inside a place.

        `first` are the iterations of outer loops that are not the first one.
        """
        found = [self._indices(indices, place, first or {}) for indices in self.buffers[name][1]]
        return np.unique(np.concatenate(found), axis=0)

    def inner_stride(self, name: str) -> int:
        """Return how far the innermost loop moves in memory."""
        buffer, loads = self.buffers[name]
        pitches = [prod(buffer.shape[place + 1 :]) for place in range(len(buffer.shape))]
        reached = self._indices(loads[0], len(self.extents) - 1, {})
        return int(abs((reached[1] - reached[0]) @ np.array(pitches, dtype=np.int64)))

    def reuse_loop(self, name: str) -> int | None:
        """Return the innermost loop whose second iteration touches what the first one does."""
        for loop in reversed(range(len(self.extents))):
            first = self.touched(name, loop + 1)
            second = self.touched(name, loop + 1, {loop: 1})
            if np.array_equal(first, second):
                return loop
        return None

    def operations(self, *ops: BinaryOp) -> int:
        """Return how many of these operations on floats all iterations do."""
        nodes = walk(self.statement.store.value)
        found = [n for n in nodes if isinstance(n, Binary) and n.op in ops]
        return sum(dtype_of(node.left).is_float for node in found) * prod(self.extents)

    def _indices(self, indices: tuple[Expr, ...], place: Place, first: dict[int, int]) -> Numbers:
        ranges = [
            np.arange(extent) if loop >= place else np.array([first.get(loop, 0)])
            for loop, extent in enumerate(self.extents)
        ]
        grid = np.meshgrid(*ranges, indexing="ij")
        at: dict[str, Numbers] = {
            loop.var.name: axis.ravel()
            for loop, axis in zip(self.statement.loops, grid, strict=True)
        }
        count = prod(len(each) for each in ranges)
        rows = [np.broadcast_to(_value(index, at), count) for index in indices]
        return np.stack(rows, axis=1)


def _value(expr: Expr, at: dict[str, Numbers]) -> Numbers:
    match expr:
        case Const(number, _):
            return np.array(int(number), dtype=np.int64)
        case Var(name, _):
            return at[name]
        case Binary(op, left, right):
            return OPERATORS[op](_value(left, at), _value(right, at))
        case _:
            raise NotImplementedError(expr)
