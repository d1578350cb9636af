"""Put the loops of a reduction outside of the tile that a thread keeps in registers.

for i in 0..4:                           for i in 0..4:
    C.local[i] = 0                           C.local[i] = 0
    for k in 0..8:               ->      for k in 0..8:
        C.local[i] = C.local[i] + …          for i in 0..4:
                                                 C.local[i] = C.local[i] + …

What an iteration of the reduction loads then serves the whole tile at once. The other way round a
compiler keeps all that it has loaded, until there are no registers left. Each element adds up its
terms in the same order as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ansorc.ir.buffer import Scope
from ansorc.ir.expr import Exchange, Expr, Load
from ansorc.ir.node import walk
from ansorc.ir.passes.places import are_distinct, flat_place, reads_memory
from ansorc.ir.stmt import For, Function, If, LoopKind, Seq, Stmt, Store, map_substatements
from ansorc.ir.substitute import free_vars

_PLAIN = (LoopKind.SERIAL, LoopKind.UNROLLED, LoopKind.VECTORIZED)
_PRIVATE = (Scope.LOCAL, Scope.REGISTER)


def order_reductions(function: Function) -> Function:
    """Return `function` with the loops of reductions outside of tiles."""
    body = _ordered(function.body)
    return function if body is function.body else replace(function, body=body)


@dataclass(frozen=True)
class _Leaf:
    """A store to memory of the thread, with the loops around it inside of the nest."""

    stmt: Stmt
    store: Store
    loops: tuple[For, ...]


def _ordered(stmt: Stmt) -> Stmt:
    if isinstance(stmt, For) and stmt.kind in _PLAIN:
        leaves = _leaves(stmt, ())
        if leaves is not None and _are_apart(leaves):
            new = [_nest(leaf) for leaf in leaves]
            changed = Seq(tuple(new)) if len(new) > 1 else new[0]
            return stmt if changed == stmt else changed
    return map_substatements(stmt, _ordered)


def _leaves(stmt: Stmt, loops: tuple[For, ...]) -> list[_Leaf] | None:
    """Return the stores of a nest that has nothing else; None for another nest."""
    match stmt:
        case For() if stmt.kind in _PLAIN:
            return _leaves(stmt.body, (*loops, stmt))
        case Seq(parts):
            found = [_leaves(part, loops) for part in parts]
            return None if None in found else [leaf for each in found for leaf in each or ()]
        case Store() if stmt.buffer.scope in _PRIVATE:
            return [_Leaf(stmt, stmt, loops)]
        case If(condition, Store() as store, None) if store.buffer.scope in _PRIVATE:
            return None if reads_memory(condition) else [_Leaf(stmt, store, loops)]
        case _:
            return None


def _are_apart(leaves: Sequence[_Leaf]) -> bool:
    """Whether each element of the tiles is computed for itself, in the order of the statements."""
    stored = {leaf.store.buffer.name for leaf in leaves}
    for leaf in leaves:
        if any(isinstance(part, Exchange) for part in walk(leaf.store.value)):
            return False
        own = leaf.store
        for load in _loads(own):
            is_own = load.buffer.name == own.buffer.name and load.indices == own.indices
            if load.buffer.name in stored and not is_own:
                return False
        place = flat_place(own.buffer, own.indices)
        if place is None or not are_distinct(place, _tile(leaf)):
            return False
        if any(loop.kind is LoopKind.VECTORIZED for loop in _terms(leaf)):
            return False
    return all(
        {loop.var.name for loop in _shared(leaf, other)} <= _indexing(other)
        for leaf in leaves
        for other in leaves
        if leaf is not other
    )


def _nest(leaf: _Leaf) -> Stmt:
    tile = _tile(leaf)
    lanes = [loop for loop in tile if loop.kind is LoopKind.VECTORIZED]
    rows = [loop for loop in tile if loop.kind is not LoopKind.VECTORIZED]
    stmt = leaf.stmt
    for loop in reversed([*_terms(leaf), *rows, *lanes]):
        stmt = replace(loop, body=stmt)
    return stmt


def _tile(leaf: _Leaf) -> list[For]:
    names = _indexing(leaf)
    return [loop for loop in leaf.loops if loop.var.name in names]


def _terms(leaf: _Leaf) -> list[For]:
    names = _indexing(leaf)
    return [loop for loop in leaf.loops if loop.var.name not in names]


def _indexing(leaf: _Leaf) -> set[str]:
    return {name for index in leaf.store.indices for name in free_vars(index)}


def _shared(leaf: _Leaf, other: _Leaf) -> list[For]:
    """Return the loops that are around both."""
    return [a for a, b in zip(leaf.loops, other.loops, strict=False) if a is b]


def _loads(store: Store) -> Iterator[Load]:
    exprs: tuple[Expr, ...] = (*store.indices, store.value)
    for expr in exprs:
        for part in walk(expr):
            if isinstance(part, Load):
                yield part
