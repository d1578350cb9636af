"""Do transposed copies in square blocks, whose rows and columns are both vectors.

for k in 0..40:                                 for k.block in 0..2:
    for j.chunk in 0..4:                            for j.chunk in 0..4:
        T[k, ramp(j.chunk * 16, 1, 16)] =   ->          unrolled k.row in 0..16:
            S[ramp(j.chunk * 16, 1, 16), k]                 T[k.block * 16 + k.row, …] = S[…]
                                                …

Without blocks, such a vector of S is gathered element by element. Code generation recognises the
unrolled loop: it loads the block along k and transposes it in registers (`Transposition`). A vector
that is longer than a block is divided. The last block begins early enough to be whole, and copies
some rows again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansorc.ir.arith.affine import integer, linear
from ansorc.ir.buffer import Scope
from ansorc.ir.expr import BinaryOp, Expr, Load, Ramp, Var, binary
from ansorc.ir.passes.queries import are_distinct, flat_offset, uses
from ansorc.ir.passes.register_tile import nest, perfect_nest
from ansorc.ir.stmt import For, Function, LoopKind, Seq, Stmt, Store, map_substatements
from ansorc.ir.substitute import substitute
from ansorc.target.code_facts import LEAST_TRANSPOSED_ROWS

_MOST_ROWS = 16
"""The longest side of a block: it must fit registers."""
_SEQUENTIAL = (LoopKind.SERIAL, LoopKind.UNROLLED)


@dataclass(frozen=True, slots=True)
class Transposition:
    """A copy whose source is contiguous along a loop, and strided along its lanes."""

    store: Store
    load: Load
    axis: int
    """The dimension of the source along which the lanes run."""
    step: int
    """The step from one lane to the next along that dimension."""
    lanes: int

    def row(self, lane: int) -> Load:
        """Return the load of the elements that one lane stores in as many iterations as lanes."""
        places = list(self.load.indices)
        ramp = places[self.axis]
        assert isinstance(ramp, Ramp)
        places[self.axis] = binary(BinaryOp.ADD, ramp.base, integer(lane * self.step))
        places[-1] = Ramp(places[-1], integer(1), self.lanes)
        return Load(self.load.buffer, tuple(places))


def transposition(store: Stmt, name: str) -> Transposition | None:
    """Return the transposition by `store` in a loop of the variable `name`, or None."""
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
    """Return `function`, whose loops are vectorised, with transposed copies in blocks."""
    body = _in_blocks(function.body)
    return function if body is function.body else replace(function, body=body)


def _in_blocks(stmt: Stmt) -> Stmt:
    if isinstance(stmt, For) and stmt.kind in _SEQUENTIAL:
        apart = _apart(stmt)
        if len(apart) > 1:
            return Seq(tuple(map(_in_blocks, apart)))
        inner, guards, store = perfect_nest(stmt.body)
        copy_ = None if store is None or guards else transposition(store, stmt.var.name)
        side = 0 if copy_ is None else _side(stmt.extent, copy_.lanes)
        if copy_ is not None and side and _may_interchange(copy_, [stmt, *inner]):
            return _blocks(stmt, inner, copy_, side)
    return map_substatements(stmt, _in_blocks)


def _apart(loop: For) -> Sequence[For]:
    """Return one loop for each statement of `loop`, if all are such copies of parts of a row.

    None of them reads a buffer that another stores, and stores to one buffer are in one row.
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
    """Return the side of a block, a power of 2; 0 if blocks do not pay."""
    side = min(1 << (rows.bit_length() - 1), lanes, _MOST_ROWS)
    return side if side >= LEAST_TRANSPOSED_ROWS else 0


def _blocks(loop: For, inner: Sequence[For], copy_: Transposition, side: int) -> Stmt:
    """Return the loop over blocks of whole rows; the last one may copy some elements again."""
    name = loop.var.name
    block, row, piece = (Var(f"{name}.{part}") for part in ("block", "row", "piece"))
    pieces = copy_.lanes // side
    store = _narrow(copy_, piece, side) if pieces > 1 else copy_.store

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


def _narrow(copy_: Transposition, piece: Var, side: int) -> Store:
    """Return the copy of `side` lanes, from `piece` times `side` on."""
    store, load, places = copy_.store, copy_.load, list(copy_.load.indices)

    def part(index: Expr) -> Ramp:
        assert isinstance(index, Ramp)
        offset = binary(BinaryOp.MUL, binary(BinaryOp.MUL, piece, integer(side)), index.stride)
        return Ramp(binary(BinaryOp.ADD, index.base, offset), index.stride, side)

    places[copy_.axis] = part(places[copy_.axis])
    return Store(
        store.buffer,
        (*store.indices[:-1], part(store.indices[-1])),
        Load(load.buffer, tuple(places)),
    )


def _at(store: Store, name: str, value: Expr) -> Store:
    return substitute(store, {name: value})


def _is_row(store: Store) -> bool:
    """Return whether the stored vector is contiguous."""
    *outer, last = store.indices
    is_contiguous = isinstance(last, Ramp) and last.stride == integer(1)
    return is_contiguous and not any(isinstance(index, Ramp) for index in outer)


def _may_interchange(copy_: Transposition, loops: Sequence[For]) -> bool:
    """Return whether no element is stored twice, so that the loops may be interchanged."""
    offset = flat_offset(copy_.store.buffer, copy_.store.indices)
    return offset is not None and are_distinct(offset, loops, copy_.lanes - 1)
