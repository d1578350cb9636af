"""Copy what is transposed in square blocks, whose rows and columns both are vectors.

for k in 0..40:                                 for k.block in 0..2:
    for j.chunk in 0..4:                            for j.chunk in 0..4:
        T[k, ramp(j.chunk * 16, 1, 16)] =   ->          unrolled k.row in 0..16:
            S[ramp(j.chunk * 16, 1, 16), k]                 T[k.block * 16 + k.row, …] = S[…]
                                                for k.rest in 0..8: …

Such a vector of S is gathered element by element. Code generation finds the unrolled loop: it loads
the block along k and turns it in registers (`Transposition`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansorc.ir.arith.affine import integer, linear
from ansorc.ir.buffer import Scope
from ansorc.ir.expr import BinaryOp, Expr, Load, Ramp, Var, binary
from ansorc.ir.passes.places import are_distinct, flat_place, uses
from ansorc.ir.passes.register_tile import nest, perfect_nest
from ansorc.ir.stmt import For, Function, LoopKind, Seq, Stmt, Store, map_substatements
from ansorc.ir.substitute import substitute

_SEQUENTIAL = (LoopKind.SERIAL, LoopKind.UNROLLED)


@dataclass(frozen=True, slots=True)
class Transposition:
    """A copy whose source is contiguous along a loop, and strided along its lanes."""

    store: Store
    load: Load
    axis: int
    """The dimension of the source along which the lanes lie."""
    step: int
    """From one lane to the next along it."""
    lanes: int

    def row(self, lane: int) -> Load:
        """Return the load of what one lane is stored from in as many iterations as lanes."""
        places = list(self.load.indices)
        ramp = places[self.axis]
        assert isinstance(ramp, Ramp)
        places[self.axis] = binary(BinaryOp.ADD, ramp.base, integer(lane * self.step))
        places[-1] = Ramp(places[-1], integer(1), self.lanes)
        return Load(self.load.buffer, tuple(places))


def transposition(store: Stmt, name: str) -> Transposition | None:
    """Return what `store` transposes in a loop of the variable `name`; None if it does not."""
    if not isinstance(store, Store) or not isinstance(store.value, Load):
        return None
    load = store.value
    ramps = [axis for axis, index in enumerate(load.indices) if isinstance(index, Ramp)]
    if len(ramps) != 1 or ramps[0] == len(load.indices) - 1 or not _is_row(store):
        return None
    ramp = load.indices[ramps[0]]
    assert isinstance(ramp, Ramp)
    step, along = linear(ramp.stride), linear(load.indices[-1])
    others = [index for index in load.indices[:-1] if uses(index, name)]
    if others or along is None or along.terms.pop(name, 0) != 1 or uses(along.to_expr(), name):
        return None
    is_apart = load.buffer.name != store.buffer.name and not load.buffer.dtype.is_bool
    is_apart = is_apart and load.buffer.scope is not Scope.REGISTER
    is_square = ramp.lanes & (ramp.lanes - 1) == 0
    if not (is_apart and is_square) or step is None or step.terms:
        return None
    return Transposition(store, load, ramps[0], step.constant, ramp.lanes)


def transpose_copies(function: Function) -> Function:
    """Return `function` with transposed copies in blocks; its loops are vectorised already."""
    body = _in_blocks(function.body)
    return function if body is function.body else replace(function, body=body)


def _in_blocks(stmt: Stmt) -> Stmt:
    if isinstance(stmt, For) and stmt.kind in _SEQUENTIAL:
        inner, guards, store = perfect_nest(stmt.body)
        found = None if store is None or guards else transposition(store, stmt.var.name)
        is_long = found is not None and stmt.extent >= found.lanes
        if found is not None and is_long and _may_interchange(found, [stmt, *inner]):
            return _blocks(stmt, inner, found)
    return map_substatements(stmt, _in_blocks)


def _blocks(loop: For, inner: Sequence[For], found: Transposition) -> Stmt:
    name, lanes = loop.var.name, found.lanes
    block, row, rest = (Var(f"{name}.{part}") for part in ("block", "row", "rest"))
    count = loop.extent // lanes
    start = binary(BinaryOp.MUL, block, integer(lanes))
    square = For(row, lanes, LoopKind.UNROLLED, _at(found.store, name, start + row))
    whole = For(block, count, loop.kind, nest(inner, square))
    if count * lanes == loop.extent:
        return whole
    last = nest(inner, _at(found.store, name, rest + count * lanes))
    return Seq((whole, For(rest, loop.extent - count * lanes, loop.kind, last)))


def _at(store: Store, name: str, value: Expr) -> Store:
    return substitute(store, {name: value})


def _is_row(store: Store) -> bool:
    """Whether a vector is stored where it is contiguous."""
    *outer, last = store.indices
    is_contiguous = isinstance(last, Ramp) and last.stride == integer(1)
    return is_contiguous and not any(isinstance(index, Ramp) for index in outer)


def _may_interchange(found: Transposition, loops: Sequence[For]) -> bool:
    """Whether no element is stored twice, so that the order of the loops does not matter."""
    place = flat_place(found.store.buffer, found.store.indices)
    return place is not None and are_distinct(place, loops, found.lanes - 1)
