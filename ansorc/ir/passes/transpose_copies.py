"""Copy what is transposed in square blocks, whose rows and columns both are vectors.

for k in 0..40:                                 for k.block in 0..2:
    for j.chunk in 0..4:                            for j.chunk in 0..4:
        T[k, ramp(j.chunk * 16, 1, 16)] =   ->          unrolled k.row in 0..16:
            S[ramp(j.chunk * 16, 1, 16), k]                 T[k.block * 16 + k.row, …] = S[…]
                                                …

Such a vector of S is gathered element by element. Code generation finds the unrolled loop: it loads
the block along k and turns it in registers (`Transposition`). A vector that is longer than a block
is divided, and a last block begins early enough to be whole: it copies some rows again.
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
from ansorc.target.code_facts import LEAST_TRANSPOSED_ROWS

_MOST_ROWS = 16
"""Of a block: it lies in registers, and takes fewer instructions than its elements."""
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
        apart = _apart(stmt)
        if len(apart) > 1:
            return Seq(tuple(map(_in_blocks, apart)))
        inner, guards, store = perfect_nest(stmt.body)
        found = None if store is None or guards else transposition(store, stmt.var.name)
        side = 0 if found is None else _side(stmt.extent, found.lanes)
        if found is not None and side and _may_interchange(found, [stmt, *inner]):
            return _blocks(stmt, inner, found, side)
    return map_substatements(stmt, _in_blocks)


def _apart(loop: For) -> Sequence[For]:
    """The loop once for each of its statements, if all of them are such copies: parts of a row.

    None reads what another stores, and those that store to one buffer do so in one row at a time.
    """
    name, parts = loop.var.name, loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)
    copies = [each for part in parts if (each := transposition(part, name)) is not None]
    read, stored = {each.load.buffer for each in copies}, {each.store.buffer for each in copies}
    rows = {(each.store.buffer, each.store.indices[:-1]) for each in copies}
    is_moved = any(uses(each.store.indices[-1], name) for each in copies)
    meet = len(rows) > len(stored) or (is_moved and len(copies) > len(stored))
    if len(copies) < len(parts) or read & stored or meet:
        return (loop,)
    return [replace(loop, body=part) for part in parts]


def _side(rows: int, lanes: int) -> int:
    """The length of a block's sides, a power of 2; 0 where none is worth it."""
    side = min(1 << (rows.bit_length() - 1), lanes, _MOST_ROWS)
    return side if side >= LEAST_TRANSPOSED_ROWS else 0


def _blocks(loop: For, inner: Sequence[For], found: Transposition, side: int) -> Stmt:
    """The blocks of whole rows; a last one that fits copies some elements again."""
    name = loop.var.name
    block, row, piece = (Var(f"{name}.{part}") for part in ("block", "row", "piece"))
    pieces = found.lanes // side
    store = _narrowed(found, piece, side) if pieces > 1 else found.store

    def square(start: Expr) -> Stmt:
        rows = For(row, side, LoopKind.UNROLLED, _at(store, name, start + row))
        whole = For(piece, pieces, LoopKind.SERIAL, rows) if pieces > 1 else rows
        return nest(inner, whole)

    count = loop.extent // side
    start = binary(BinaryOp.MUL, block, integer(side))
    whole = For(block, count, loop.kind, square(start))
    if count * side == loop.extent:
        return whole
    return Seq((whole, square(integer(loop.extent - side))))


def _narrowed(found: Transposition, piece: Var, side: int) -> Store:
    """The copy of some lanes, from `piece` times `side` on."""
    store, load, places = found.store, found.load, list(found.load.indices)

    def part(index: Expr) -> Ramp:
        assert isinstance(index, Ramp)
        offset = binary(BinaryOp.MUL, binary(BinaryOp.MUL, piece, integer(side)), index.stride)
        return Ramp(binary(BinaryOp.ADD, index.base, offset), index.stride, side)

    places[found.axis] = part(places[found.axis])
    return Store(
        store.buffer,
        (*store.indices[:-1], part(store.indices[-1])),
        Load(load.buffer, tuple(places)),
    )


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
