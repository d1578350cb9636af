"""Ask ahead for what a loop reads from memory only once.

parallel i in 0..1024:                     parallel i in 0..1024:
    for k in 0..256:                           for k in 0..256:
        vectorize l in 0..64:       ->             prefetch A[i, k * 64 + 256]  (and 16, 32, 48 on)
            S[i, l] += A[i, k * 64 + l]            vectorize l in 0..64:
                                                       S[i, l] += A[i, k * 64 + l]

Loads that miss wait in the few line buffers of the first cache, and the processor's prefetchers,
which have more, are not far enough ahead of full vectors. On two cores of a Xeon with AVX-512 a
sum of squares over 1 GiB took 28 to 32 ms with this, 37 to 39 without (36 and 40 in a process whose
pages lay less well). From the last cache (16 MiB) it was up to half slower, and loops that also
write to memory gained nothing: these are left as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ansorc.ir.arith.affine import Atom, Linear
from ansorc.ir.arith.simplify import simplify
from ansorc.ir.buffer import Buffer, Scope
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

AHEAD_BYTES = 1024
"""With 1536 and 4096 some processes took as long as without; 256 gained half as much."""
LEAST_BYTES = 4 * AHEAD_BYTES
"""A loop that reads less in one piece would mostly ask for what it does not need."""
LINE_BYTES = 64
LINES = (2, 4)
"""Asked for in one iteration, at least and at most: 8 gained nothing, 1 less than 2 or 4."""


def prefetch_streams(function: Function, last_cache_bytes: int) -> Function:
    """Return `function` with prefetches in loops over tensors larger than `last_cache_bytes`.

    Loops are vectorised already.
    """
    allocated = (s.buffer for s in statements(function.body) if isinstance(s, Allocate))
    if all(buffer.bytes <= last_cache_bytes for buffer in (*function.params, *allocated)):
        return function
    return replace(function, body=_Streams(last_cache_bytes).stmt(function.body, ()))


class _Streams:
    def __init__(self, last_cache_bytes: int) -> None:
        self._last_cache_bytes = last_cache_bytes

    def stmt(self, stmt: Stmt, loops: tuple[For, ...]) -> Stmt:
        """`stmt` inside `loops`, the outermost first."""
        if not isinstance(stmt, For):
            return map_substatements(stmt, lambda part: self.stmt(part, loops))
        if stmt.kind is not LoopKind.SERIAL or _has_loops(stmt.body):
            inside = (*loops, stmt)
            return map_substatements(stmt, lambda part: self.stmt(part, inside))
        asked = self._asked(stmt, loops)
        return replace(stmt, body=Seq((*asked, stmt.body))) if asked else stmt

    def _asked(self, loop: For, loops: Sequence[For]) -> list[Prefetch]:
        stores = [part.buffer for part in walk(loop) if isinstance(part, Store)]
        loads = [part for part in walk(loop) if isinstance(part, Load)]
        large = [load for load in loads if self._is_large(load.buffer)]
        is_alone = len({load.buffer.name for load in large}) == 1
        if not is_alone or any(self._is_large(buffer) for buffer in stores):
            return []
        return _of_stream(large, loop, loops)

    def _is_large(self, buffer: Buffer) -> bool:
        return buffer.scope is Scope.GLOBAL and buffer.bytes > self._last_cache_bytes


def _has_loops(stmt: Stmt) -> bool:
    """Whether loops remain that are not unrolled."""
    kinds = (LoopKind.UNROLLED, LoopKind.VECTORIZED)
    return any(isinstance(part, For) and part.kind not in kinds for part in walk(stmt))


def _of_stream(loads: Sequence[Load], loop: For, loops: Sequence[For]) -> list[Prefetch]:
    """What to ask for if `loads`, all of one buffer, read it once and piece after piece."""
    unrolled = [part for part in walk(loop.body) if isinstance(part, For)]
    places = [flat_place(load.buffer, load.indices) for load in loads]
    steps = {None if place is None else place.terms.get(loop.var.name, 0) for place in places}
    step = steps.pop()
    if step is None or steps or not _is_read_once(places[0], (*loops, loop)):
        return []
    size = loads[0].buffer.dtype.bytes
    if _elements(loads, unrolled) != step or step * loop.extent * size < LEAST_BYTES:
        return []
    lines = step * size // LINE_BYTES
    if not LINES[0] <= lines <= LINES[1]:
        return []
    first = {each.var.name: const(0) for each in unrolled}
    begin = [simplify(substitute(first_lane(index), first)) for index in loads[0].indices]
    return [_ahead(loads[0].buffer, begin, n * LINE_BYTES // size) for n in range(lines)]


def _is_read_once(place: Linear | None, loops: Sequence[For]) -> bool:
    """Whether each of the loops around moves the place."""
    return place is not None and all(
        any(_moves(each.var.name, atom) for atom in place.terms) for each in loops
    )


def _moves(name: str, atom: Atom) -> bool:
    return atom == name if isinstance(atom, str) else uses(atom, name)


def _elements(loads: Sequence[Load], unrolled: Sequence[For]) -> int:
    """The elements that one iteration reads, if it reads none twice."""
    copies = prod(each.extent for each in unrolled)
    distinct = set(loads)
    lanes = max(dtype_of(index).lanes for load in distinct for index in load.indices)
    return len(distinct) * lanes * copies


def _ahead(buffer: Buffer, begin: Sequence[Expr], elements: int) -> Prefetch:
    offset = AHEAD_BYTES // buffer.dtype.bytes + elements
    return Prefetch(buffer, (*begin[:-1], simplify(begin[-1] + const(offset))))
