"""Move the loops of a reduction outside of the tile that a thread keeps in registers.

for i in 0..4:                           for i in 0..4:
    C.local[i] = 0                           C.local[i] = 0
    for k in 0..8:               ->      for k in 0..8:
        C.local[i] = C.local[i] + …          for i in 0..4:
                                                 C.local[i] = C.local[i] + …

The loads of an iteration of the reduction are then used for the whole tile at once. In the other
order a compiler keeps all loaded values until there are no registers left. Each element adds up its
terms in the same order as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ansorc.ir.buffer import Scope
from ansorc.ir.expr import Exchange, Expr, Load
from ansorc.ir.node import walk
from ansorc.ir.passes.queries import are_distinct, flat_offset, reads_memory
from ansorc.ir.stmt import For, Function, If, LoopKind, Seq, Stmt, Store, map_substatements
from ansorc.ir.substitute import free_vars

_PLAIN = (LoopKind.SERIAL, LoopKind.UNROLLED, LoopKind.VECTORIZED)
_PRIVATE = (Scope.LOCAL, Scope.REGISTER)


def order_reductions(function: Function) -> Function:
    """Return `function` with the loops of reductions outside of tiles."""
    body = _order(function.body)
    return function if body is function.body else replace(function, body=body)


@dataclass(frozen=True)
class _Leaf:
    """A store to memory of the thread, with the loops of the nest around it."""

    stmt: Stmt
    store: Store
    loops: tuple[For, ...]


def _order(stmt: Stmt) -> Stmt:
    if isinstance(stmt, For) and stmt.kind in _PLAIN:
        leaves = _leaves(stmt, ())
        if leaves is not None and _are_apart(leaves):
            new = [_nest(leaf) for leaf in leaves]
            changed = Seq(tuple(new)) if len(new) > 1 else new[0]
            return stmt if changed == stmt else changed
    return map_substatements(stmt, _order)


def _leaves(stmt: Stmt, loops: tuple[For, ...]) -> list[_Leaf] | None:
    """Return the stores of a nest that has only loops and stores; None for another nest."""
    match stmt:
        case For() if stmt.kind in _PLAIN:
            return _leaves(stmt.body, (*loops, stmt))
        case Seq(parts):
            groups = [_leaves(part, loops) for part in parts]
            return None if None in groups else [leaf for each in groups for leaf in each or ()]
        case Store() if stmt.buffer.scope in _PRIVATE:
            return [_Leaf(stmt, stmt, loops)]
        case If(condition, Store() as store, None) if store.buffer.scope in _PRIVATE:
            return None if reads_memory(condition) else [_Leaf(stmt, store, loops)]
        case _:
            return None


def _are_apart(leaves: Sequence[_Leaf]) -> bool:
    """Return whether the elements of the tiles are independent, in the order of statements."""
    stored = {leaf.store.buffer.name for leaf in leaves}
    for leaf in leaves:
        if any(isinstance(part, Exchange) for part in walk(leaf.store.value)):
            return False
        store = leaf.store
        for load in _loads(store):
            is_own = load.buffer.name == store.buffer.name and load.indices == store.indices
            if load.buffer.name in stored and not is_own:
                return False
        offset = flat_offset(store.buffer, store.indices)
        if offset is None or not are_distinct(offset, _tile(leaf)):
            return False
        if any(loop.kind is LoopKind.VECTORIZED for loop in _terms(leaf)):
            return False
    return all(
        {loop.var.name for loop in _common_loops(leaf, other)} <= _indexing(other)
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


def _common_loops(leaf: _Leaf, other: _Leaf) -> list[For]:
    """Return the loops that are around both."""
    return [a for a, b in zip(leaf.loops, other.loops, strict=False) if a is b]


def _loads(store: Store) -> Iterator[Load]:
    exprs: tuple[Expr, ...] = (*store.indices, store.value)
    for expr in exprs:
        for part in walk(expr):
            if isinstance(part, Load):
                yield part
