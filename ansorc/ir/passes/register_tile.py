"""Find the elements of a buffer that a loop updates repeatedly: the tile to keep in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from ansorc.ir.arith.affine import difference, integer, step_along
from ansorc.ir.arith.scalar import conjuncts
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import BinaryOp, Expr, Load, Var, binary
from ansorc.ir.node import Node, rewrite, walk
from ansorc.ir.passes.accesses import BufferAccess, Span
from ansorc.ir.passes.queries import are_distinct, flat_offset, reads_memory, uses
from ansorc.ir.passes.tile_guards import exists, guard, happens, split_guards
from ansorc.ir.stmt import For, If, LoopKind, Stmt, Store
from ansorc.ir.substitute import substitute

_TILE_KINDS = (LoopKind.UNROLLED, LoopKind.VECTORIZED)
THREADED_KINDS = (LoopKind.PARALLEL, LoopKind.BOUND)
ZERO = integer(0)


@dataclass(frozen=True, slots=True)
class PromotedTile:
    """`buffer[indices]` for all values of the variables of `loops`, as the array `register`."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    loops: tuple[For, ...]
    """The unrolled loops, then the vectorised one; each is a dimension of `register`."""
    register: Buffer
    guards: tuple[Expr, ...] = ()
    """The conditions on elements under which they are accessed; other conditions stay."""

    def element(self) -> tuple[Expr, ...]:
        """Return the indices of `register` for `indices`."""
        return tuple(loop.var for loop in self.loops)

    def place(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Return the indices of `register` for `buffer[indices]`, an access of the tile."""
        if indices == self.indices:
            return self.element()
        distances = shifts(self.indices, indices, self.loops)
        assert distances is not None, "an access to elements that are not of the tile"
        return tuple(
            shift_index(loop.var if runs else ZERO, shift)
            for loop, (runs, shift) in zip(self.loops, distances, strict=True)
        )

    def nest(self, buffer: Buffer, indices: tuple[Expr, ...], value: Expr) -> Stmt:
        """Return `buffer[indices] = value` for each element of the tile."""
        return nest(self.loops, guard(self.guards, Store(buffer, indices, value)))


def find_tile(name: str, span: Span, register: str) -> PromotedTile | None:
    """Return the tile of the buffer `name` that the loop of `span` updates, or None.

    Every access below the loop must be to the same element of the tile, for all values of the
    variables of that loop and of serial loops below it. The elements must be distinct. All accesses
    must be under the same conditions on elements, and other conditions must hold in some iteration.
    """
    group = [access for access in span.accesses if access.buffer.name == name]
    stores = [access for access in group if access.is_store]
    if not stores or len(stores) == len(group):
        return None
    first, depth = stores[0], span.depth + 1
    used = {part.name for index in first.indices for part in walk(index) if isinstance(part, Var)}
    if span.loop.var.name in used or any(reads_memory(index) for index in first.indices):
        return None
    loops = tile_loops(first, depth, used)
    offset = flat_offset(first.buffer, first.indices)
    if loops is None or offset is None or not are_distinct(offset, loops):
        return None
    moving = {x.var.name for access in group for x in access.loops[span.depth :]} - {
        x.var.name for x in loops
    }
    guards, _ = split_guards(first, depth, moving)
    if not any(happens(store, depth, moving) or exists(store) for store in stores):
        return None
    for access in group:
        if access.indices != first.indices or not _same_loops(access, depth, loops):
            return None
        if set(split_guards(access, depth, moving)[0]) != set(guards):
            return None
    ordered = tuple(sorted(loops, key=lambda loop: loop.kind is LoopKind.VECTORIZED))
    shape = tuple(loop.extent for loop in ordered)
    buffer = Buffer(register, shape, first.buffer.dtype, Scope.REGISTER)
    return PromotedTile(first.buffer, first.indices, ordered, buffer, guards)


def in_registers(root: Stmt, tiles: Sequence[PromotedTile]) -> Stmt:
    """Return `root` with accesses to elements of the tiles replaced by their registers."""
    by_name = {tile.buffer.name: tile for tile in tiles}

    def rule(old: Node) -> Node | None:
        match old:
            case Load(buffer, indices) if tile := by_name.get(buffer.name):
                return Load(tile.register, tile.place(indices))
            case Store(buffer, indices, value) if tile := by_name.get(buffer.name):
                return Store(tile.register, tile.place(indices), value)
            case _:
                return None

    return rewrite(root, rule)


def shifts(
    base: Sequence[Expr], indices: Sequence[Expr], loops: Sequence[For]
) -> list[tuple[bool, int]] | None:
    """Return for each of `loops` whether `indices` depend on it, and their distance from `base`.

    The distance is in steps of the loop. Return None if they differ in another way.
    """
    distances: dict[str, tuple[bool, int]] = {}
    for at, index in zip(base, indices, strict=True):
        variables = [loop.var for loop in loops if uses(at, loop.var.name)]
        is_run = len(variables) != 1 or uses(index, variables[0].name)
        total = difference(index, at if is_run else substitute(at, {variables[0].name: ZERO}))
        step = step_along(at, variables[0].name) if len(variables) == 1 else 0
        if total is None or total.terms or (total.constant % step if step else total.constant):
            return None
        shift = total.constant // step if step else 0
        if any(
            distances.setdefault(var.name, (is_run, shift)) != (is_run, shift) for var in variables
        ):
            return None
    return [distances[loop.var.name] for loop in loops]


def shift_index(index: Expr, shift: int) -> Expr:
    """Return `index + shift`."""
    return binary(BinaryOp.ADD, index, shift) if shift else index


def as_initial_value(stmt: Stmt, tile: PromotedTile) -> Stmt | None:
    """Return `stmt` on the registers if it sets exactly the tile without reading memory."""
    loops, guards, store = perfect_nest(stmt)
    if store is None or store.buffer.name != tile.buffer.name or reads_memory(store.value):
        return None
    names = match_loops(loops, store.indices, tile)
    if names is None or {rename(guard, names) for guard in guards} != set(tile.guards):
        return None
    return tile.nest(tile.register, tile.element(), rename(store.value, names))


def as_first_value(stmt: Stmt, tile: PromotedTile) -> Stmt | None:
    """Return `stmt` on the registers if it sets exactly the tile under a condition.

    If the condition fails, the registers are loaded from memory. The condition does not read
    memory, so it may move.
    """
    match stmt:
        case If(condition, then, None) if not reads_memory(condition):
            initial = as_initial_value(then, tile)
            return None if initial is None else If(condition, initial, load_tile(tile))
        case _:
            return None


def load_tile(tile: PromotedTile) -> Stmt:
    """Return the statements that load the tile into the registers."""
    return tile.nest(tile.register, tile.element(), Load(tile.buffer, tile.indices))


def as_read_out(stmt: Stmt, tile: PromotedTile) -> Stmt | None:
    """Return `stmt` reading the registers if it maps exactly the tile to another buffer.

    The order of loops is kept; serial ones are unrolled if those of the tile are.
    """
    loops, guards, store = perfect_nest(stmt)
    if store is None or tile.buffer.name == store.buffer.name:
        return None
    loads = [load for load in walk(store) if isinstance(load, Load)]
    wanted = [load for load in loads if load.buffer.name == tile.buffer.name]
    names = match_loops(loops, wanted[0].indices, tile) if wanted else None
    if names is None or any(load.indices != wanted[0].indices for load in wanted):
        return None
    if not {rename(guard, names) for guard in guards}.issuperset(tile.guards):
        return None
    kinds = {loop.var.name: loop.kind for loop in tile.loops}
    adapted = [replace(loop, kind=kinds[names[loop.var.name].name]) for loop in loops]
    if not all(map(_may_run_as, loops, adapted)):
        return None
    mine = {names[loop.var.name].name: loop.var for loop in loops}
    element = tuple(mine[loop.var.name] for loop in tile.loops)

    def rule(old: Node) -> Node | None:
        is_tile = isinstance(old, Load) and old.buffer.name == tile.buffer.name
        return Load(tile.register, element) if is_tile else None

    return nest(adapted, guard(guards, rewrite(store, rule)))


def match_loops(
    loops: Sequence[For], indices: tuple[Expr, ...], tile: PromotedTile
) -> dict[str, Var] | None:
    """Return the variable of the tile for each variable of `loops`.

    Return None if `indices`, for all values of the variables, are not the tile.
    """
    if len(loops) != len(tile.loops) or len(indices) != len(tile.indices):
        return None
    for order in permutations(tile.loops):
        if any(a.extent != b.extent for a, b in zip(loops, order, strict=True)):
            continue
        names = {a.var.name: b.var for a, b in zip(loops, order, strict=True)}
        renamed = [rename(index, names) for index in indices]
        if all(map(_is_same, renamed, tile.indices)):
            return names
    return None


def perfect_nest(stmt: Stmt) -> tuple[list[For], list[Expr], Store | None]:
    """Return the loops of a perfect nest of sequential loops, its conditions and its store.

    The store is None for other nests.
    """
    loops: list[For] = []
    guards: list[Expr] = []
    while True:
        match stmt:
            case For(_, _, kind, body) if kind not in (*THREADED_KINDS, LoopKind.RAGGED):
                loops.append(stmt)
                stmt = body
            case If(condition, then, None) if not reads_memory(condition):
                guards += conjuncts(condition)
                stmt = then
            case _:
                return loops, guards, stmt if isinstance(stmt, Store) else None


def nest(loops: Sequence[For], body: Stmt) -> Stmt:
    """Return `body` inside `loops`, the first of which is the outermost."""
    for loop in reversed(loops):
        body = replace(loop, body=body)
    return body


def rename(expr: Expr, names: dict[str, Var]) -> Expr:
    """Return `expr` with variables replaced by others."""
    return rewrite(expr, lambda old: names.get(old.name) if isinstance(old, Var) else None)


def tile_loops(access: BufferAccess, depth: int, used: set[str]) -> list[For] | None:
    """Return the loops below `depth` whose variables are `used`; None if they form no tile."""
    inner = access.loops[depth:]
    if any(loop.kind in THREADED_KINDS for loop in inner):
        return None
    loops = [loop for loop in inner if loop.var.name in used]
    return loops if all(loop.kind in _TILE_KINDS for loop in loops) else None


def _same_loops(access: BufferAccess, depth: int, loops: list[For]) -> bool:
    inner = {loop.var.name: loop for loop in access.loops[depth:]}
    if any(loop.kind in THREADED_KINDS for loop in inner.values()):
        return False
    matches = [inner.get(loop.var.name) for loop in loops]
    return all(
        other is not None and (other.extent, other.kind) == (loop.extent, loop.kind)
        for loop, other in zip(loops, matches, strict=True)
    )


def _may_run_as(loop: For, wanted: For) -> bool:
    """Return whether `loop` has the wanted kind, or is serial and can be unrolled."""
    unrollable = loop.kind is LoopKind.SERIAL and wanted.kind is LoopKind.UNROLLED
    return unrollable or loop.kind is wanted.kind


def _is_same(left: Expr, right: Expr) -> bool:
    total = difference(left, right)
    return total is not None and not total.terms and total.constant == 0
