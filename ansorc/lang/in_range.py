"""Refuse definitions that read outside of a tensor, if that can be decided."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ansorc.errors import LanguageError
from ansorc.ir.aligned import Array
from ansorc.ir.arith.affine import affine, linear
from ansorc.ir.arith.data_bounds import data_bounds
from ansorc.ir.arith.interval import Interval, bounds
from ansorc.ir.expr import Binary, BinaryOp, Cast, Expr, Load, Not, Select, Var
from ansorc.ir.node import Node, children, walk
from ansorc.ir.printer import expr_text
from ansorc.ir.substitute import free_vars
from ansorc.lang.compute_op import ComputeOp, StateBuffer
from ansorc.lang.grid import Grid

_MOST_POINTS = 1 << 18


def check_reads_in_range(op: ComputeOp) -> None:
    """Raise LanguageError for an index that leaves its tensor for some values of the axes.

    Affine indices are decided exactly. Others, and those in an arm of `if_then_else`, are decided
    by trying all values of the axes that matter, if these are few. Indices that depend on the
    contents of tensors are not decided. The step before is right by construction.
    """
    inner = [axis for each in op.step_sums for axis in each.axes]
    ranges = {axis.name: (0, axis.extent - 1) for axis in (*op.axes, *op.reduce_axes, *inner)}
    for target in op.overwrites[:1]:
        for dimension, index in enumerate(target.indices):
            _Read(op.name, target, dimension, index, "writes to").check((), ranges)
    for expr in (*op.outer, *op.parts, *op.inits):
        for load, guards in find_guarded_loads(expr, ()):
            for dimension, index in enumerate(load.indices):
                is_state = isinstance(load.buffer, StateBuffer)
                if is_state and op.axes[dimension].name == op.scan_axis:
                    continue
                _Read(op.name, load, dimension, index).check(guards, ranges)
    for place in op.places:
        dimension = [axis.name for axis in op.axes].index(place.axis)
        result = Load(op.buffer, tuple(Var(axis.name) for axis in op.axes))
        _Read(op.name, result, dimension, place.index, "adds to").check((), ranges)


@dataclass(frozen=True)
class _Read:
    """One index of one load of the computation `op_name`, or of the results that it adds to."""

    op_name: str
    load: Load
    place: int
    index: Expr
    verb: str = "reads"

    def check(self, guards: Sequence[Expr], ranges: Mapping[str, Interval]) -> None:
        interval = bounds(self.index, ranges)
        extent = self.load.buffer.shape[self.place]
        if interval is not None and interval[0] >= 0 and interval[1] < extent:
            return
        if interval is not None and not guards and affine(self.index) is not None:
            axes = ", ".join(f"{n} in 0..{ranges[n][1]}" for n in sorted(free_vars(self.index)))
            low, high = interval
            self._refuse(f"{low}" if low == high else f"{low}..{high} for {axes}")
        promised = self._find_promised_bounds(ranges) if not guards else None
        if promised is not None and (promised[0] < 0 or promised[1] >= extent):
            self._refuse(f"{promised[0]}..{promised[1]} by what is promised of the values read")
        self._try_all(guards, ranges)

    def _find_promised_bounds(self, ranges: Mapping[str, Interval]) -> Interval | None:
        """Return the bounds of a sum of axes and of elements with a promised range, or None."""
        total = linear(self.index)
        loads = [part for part in walk(self.index) if isinstance(part, Load)]
        if total is None or not loads or any(load.buffer.promised is None for load in loads):
            return None
        inner = [atom.operand if isinstance(atom, Cast) else atom for atom in total.terms]
        if not all(isinstance(atom, str | Load) for atom in inner) or len(loads) != sum(
            isinstance(atom, Load) for atom in inner
        ):
            return None
        return data_bounds(self.index, ranges)

    def _try_all(self, guards: Sequence[Expr], ranges: Mapping[str, Interval]) -> None:
        relevant = _relevant(self.index, guards)
        names = sorted({name for expr in (self.index, *relevant) for name in free_vars(expr)})
        shape = [ranges[name][1] + 1 for name in names]
        reads_tensors = any(isinstance(n, Load) for e in (self.index, *guards) for n in walk(e))
        if reads_tensors or math.prod(shape) > _MOST_POINTS:
            return
        grid = Grid(_axis_values(names, shape), {}, np.dtype(np.float64), self.op_name, len(names))
        with np.errstate(all="ignore"):
            index = grid.evaluate(self.index)
            wrong = (index < 0) | (index >= self.load.buffer.shape[self.place])
            for guard in relevant:
                wrong = wrong & grid.evaluate(guard)
        if wrong.any():
            where = np.unravel_index(int(np.argmax(np.broadcast_to(wrong, shape))), shape)
            values = ", ".join(f"{n} = {int(v)}" for n, v in zip(names, where, strict=True))
            value = int(np.broadcast_to(index, shape)[where])
            self._refuse(f"{value} for {values}" if values else f"{value}")

    def _refuse(self, values: str) -> None:
        name = self.load.buffer.name
        extent = self.load.buffer.shape[self.place]
        reads = self.verb == "reads"
        cure = "guard the read by if_then_else" if reads else "give places inside of it"
        raise LanguageError(
            f"'{self.op_name}' {self.verb} '{name}' outside of it: index {self.place} is "
            f"{expr_text(self.index)}, that is {values}, but '{name}' has extent {extent} there; "
            f"make the tensor larger, or {cure}"
        )


def find_guarded_loads(
    root: Node, guards: tuple[Expr, ...]
) -> Iterator[tuple[Load, tuple[Expr, ...]]]:
    """Yield each load below `root` with the conditions under which it is read."""
    if isinstance(root, Load):
        yield root, guards
    if isinstance(root, Select):
        yield from find_guarded_loads(root.condition, guards)
        yield from find_guarded_loads(root.then, (*guards, *_conjuncts(root.condition)))
        yield from find_guarded_loads(root.otherwise, (*guards, Not(root.condition)))
        return
    for child in children(root):
        yield from find_guarded_loads(child, guards)


def _conjuncts(condition: Expr) -> Iterator[Expr]:
    if isinstance(condition, Binary) and condition.op is BinaryOp.AND:
        yield from _conjuncts(condition.left)
        yield from _conjuncts(condition.right)
    else:
        yield condition


def _relevant(index: Expr, guards: Sequence[Expr]) -> list[Expr]:
    """Return the guards that share variables with `index`, directly or through other guards."""
    names = free_vars(index)
    if not names:
        return list(guards)
    while True:
        related = [guard for guard in guards if names & free_vars(guard)]
        reached = names.union(*(free_vars(guard) for guard in related))
        if reached == names:
            return related
        names = reached


def _axis_values(names: Sequence[str], shape: Sequence[int]) -> dict[str, Array]:
    grids = np.indices(shape, dtype=np.int64, sparse=True)
    return dict(zip(names, grids, strict=True))
