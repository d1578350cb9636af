"""Ask for the next panel of a large tensor while tiles read the present one again and again.

parallel p in 0..64:                       parallel p in 0..64:
    for i in 0..4:                             for i in 0..4:
        for k in 0..512:                           for k in 0..512:
            C[p, i, 0..16] +=        ->                prefetch W[p + 1, 0, i * 2048 + k * 4]
                A[i, k] * W[p, k, 0..16]               C[p, i, 0..16] += A[i, k] * W[p, k, 0..16]

The first tile would wait for the panel, which the others find in a cache, while the memory does
nothing. Each of them asks for its share of the next one. A transposed convolution with 8 MiB of
weights that four tiles read reached 90 % of a Zen 1's multiply-adds instead of 74 % with this, 85 %
when each tile asked for all of the next panel (one core; medians in turns).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from ansorc.ir.arith.affine import Atom, Linear
from ansorc.ir.arith.interval import Interval, linear_bounds
from ansorc.ir.arith.simplify import simplify
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Expr, Load, const, dtype_of
from ansorc.ir.node import walk
from ansorc.ir.passes.places import first_lane, flat_place, uses
from ansorc.ir.stmt import (
    Allocate,
    For,
    Function,
    LoopKind,
    Prefetch,
    Seq,
    Stmt,
    Store,
    map_substatements,
    statements,
)
from ansorc.ir.substitute import substitute

LEAST_BYTES = 4096
"""Of a panel; the processor's own prefetchers follow what comes sooner."""
LINE_BYTES = 64
MOST_LINES = 8
"""Asked for at once."""
MOST_TILES = 64
"""That read a panel: with more, the first one's share of the time is nothing to gain from."""
LEAST_WORK = 4
"""The least number of vectors stored, in registers or memory, for each line that is asked for."""

_UNROLLED = (LoopKind.UNROLLED, LoopKind.VECTORIZED)


def prefetch_panels(function: Function, cached_bytes: int) -> Function:
    """Return `function` with prefetches of panels of the constants larger than `cached_bytes`.

    Panels that are that large themselves are left out. Loops are vectorised already.
    """
    large = [
        buffer for buffer in function.params if buffer.constant and buffer.bytes > cached_bytes
    ]
    if not large:
        return function
    return replace(function, body=_Panels(large, cached_bytes).stmt(function.body, ()))


@dataclass(frozen=True, slots=True)
class _Nest:
    """The loops that read a tensor panel by panel."""

    panel: For
    """An iteration of it reads a panel."""
    tiles: tuple[For, ...]
    """All loops inside that are not unrolled, the outermost first."""
    begin: tuple[Expr, ...]
    """The indices of a panel's first element."""
    elements: int


class _Panels:
    def __init__(self, large: Sequence[Buffer], cached_bytes: int) -> None:
        self._large, self._cached_bytes = large, cached_bytes
        self._found: list[tuple[For, list[Prefetch]]] = []

    def stmt(self, stmt: Stmt, loops: tuple[For, ...]) -> Stmt:
        """`stmt` inside `loops`, the outermost first."""
        if not isinstance(stmt, For):
            return map_substatements(stmt, lambda part: self.stmt(part, loops))
        if stmt.kind in _UNROLLED:
            return stmt
        inside = (*loops, stmt)
        if stmt.kind is LoopKind.SERIAL and not _has_loops(stmt.body):
            self._find(inside)
        new = map_substatements(stmt, lambda part: self.stmt(part, inside))
        asked = dict.fromkeys(x for loop, each in self._found if loop is stmt for x in each)
        if not asked:
            return new
        assert isinstance(new, For)
        return replace(new, body=Seq((*asked, new.body)))

    def _find(self, loops: tuple[For, ...]) -> None:
        """Note what an iteration of one of `loops`, the last of which is innermost, asks for."""
        loads = dict.fromkeys(x for x in walk(loops[-1]) if isinstance(x, Load))
        for buffer in self._large:
            nest = _nest([load for load in loads if load.buffer == buffer], loops)
            size = 0 if nest is None else nest.elements * buffer.dtype.bytes
            if nest is not None and LEAST_BYTES <= size <= self._cached_bytes:
                loop, asked = _share(buffer, nest)
                if len(asked) <= min(MOST_LINES, _work(loop.body) // LEAST_WORK):
                    self._found.append((loop, asked))


def _has_loops(stmt: Stmt) -> bool:
    """Whether loops remain that are not unrolled."""
    return any(isinstance(part, For) and part.kind not in _UNROLLED for part in statements(stmt))


def _work(stmt: Stmt) -> int:
    """The vectors that `stmt` stores, in registers or memory."""
    match stmt:
        case Store():
            return 1
        case For(extent=extent, body=body):
            return extent * _work(body)
        case Seq(stmts):
            return sum(_work(part) for part in stmts)
        case Allocate(_, body):
            return _work(body)
        case _:
            return 0


def _nest(loads: Sequence[Load], loops: Sequence[For]) -> _Nest | None:
    """Return how `loops`, the outermost first, read panels by `loads`, all of one buffer."""
    place = flat_place(loads[0].buffer, loads[0].indices) if loads else None
    if place is None:
        return None
    moving = [_moves(place, loop) for loop in loops]
    still = max((n for n, moves in enumerate(moving) if not moves), default=0)
    outer = max((n for n in range(still) if moving[n]), default=None)
    if outer is None:
        return None
    panel, tiles = loops[outer], tuple(loops[outer + 1 :])
    again = prod(x.extent for x, moves in zip(tiles, moving[outer + 1 :], strict=True) if not moves)
    if not 1 < again <= MOST_TILES or any(loop.kind is not LoopKind.SERIAL for loop in tiles):
        return None
    return _panel(loads, panel, tiles)


def _moves(place: Linear, loop: For) -> bool:
    name = loop.var.name
    return any(atom == name if isinstance(atom, str) else uses(atom, name) for atom in place.terms)


def _panel(loads: Sequence[Load], panel: For, tiles: tuple[For, ...]) -> _Nest | None:
    """Return the nest if its panels are dense, and each iteration of `panel` has another one."""
    inner = {part.var.name: part for part in statements(tiles[0]) if isinstance(part, For)}
    spans = [_span(load, inner) for load in loads]
    if None in spans or len({outside for outside, _ in filter(None, spans)}) != 1:
        return None
    low = min(span[0] for _, span in filter(None, spans))
    high = max(span[1] for _, span in filter(None, spans))
    place = flat_place(loads[0].buffer, loads[0].indices)
    assert place is not None
    copies = prod(loop.extent for name, loop in inner.items() if name in place.terms)
    lanes = max(dtype_of(index).lanes for index in loads[0].indices)
    elements = high - low + lanes
    if copies * lanes * len(set(loads)) < elements:
        return None
    begin = [substitute(first_lane(i), dict.fromkeys(inner, const(0))) for i in loads[0].indices]
    begin[-1] = begin[-1] + const(low - place.constant)
    return _Nest(panel, tiles, tuple(begin), elements) if _moves_always(begin, panel) else None


def _span(
    load: Load, inner: Mapping[str, For]
) -> tuple[frozenset[tuple[Atom, int]], Interval] | None:
    """Return what loops outside add to the place of `load`, and between what else it lies."""
    place = flat_place(load.buffer, load.indices)
    if place is None:
        return None
    outside = {atom: c for atom, c in place.terms.items() if atom not in inner}
    if any(uses(x, name) for x in outside if not isinstance(x, str) for name in inner):
        return None
    terms = {atom: c for atom, c in place.terms.items() if atom in inner}
    ranges = {name: (0, loop.extent - 1) for name, loop in inner.items()}
    span = linear_bounds(Linear(terms, place.constant), ranges)
    return None if span is None else (frozenset(outside.items()), span)


def _moves_always(begin: Sequence[Expr], panel: For) -> bool:
    """Whether the first iterations of `panel` have different panels."""
    first = [
        tuple(simplify(substitute(index, {panel.var.name: const(n)})) for index in begin)
        for n in range(min(panel.extent, 4))
    ]
    return len(first) > 1 and all(one != other for one, other in pairwise(first))


def _share(buffer: Buffer, nest: _Nest) -> tuple[For, list[Prefetch]]:
    """Return a loop, and what an iteration of it asks for of the next panel.

    It is the outermost loop whose iterations do not ask for too much at once.
    """
    line = LINE_BYTES // buffer.dtype.bytes
    offset, step, count = const(0), nest.elements, 1
    chosen = nest.tiles[-1]
    for loop in nest.tiles:
        count *= loop.extent
        step = -(-nest.elements // count)
        offset = offset + loop.var * step
        if step <= MOST_LINES * line:
            chosen = loop
            break
    following = {nest.panel.var.name: nest.panel.var + 1}
    *begin, last = (substitute(index, following) for index in nest.begin)
    return chosen, [
        Prefetch(buffer, (*map(simplify, begin), simplify(last + offset + const(n))))
        for n in range(0, step, line)
    ]
