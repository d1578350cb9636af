"""Store results that no cache keeps past the caches.

A core that stores to a line which is in no cache reads it first, from memory, even where all of it
is overwritten; and what it stores there drives out what is still needed. A streaming store does
neither: vectors are gathered into whole lines in a few buffers of the core and go to memory from
there. A line that is not filled while it is in such a buffer goes to memory in pieces, which takes
longer than to read it; so a store is marked only if the unrolled loops around it, and one around
those, fill whole lines with nothing else between.
"""

from __future__ import annotations

from dataclasses import replace

from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Load, Ramp, const
from ansorc.ir.node import walk
from ansorc.ir.passes.places import LINE_BYTES, flat_place, has_loops
from ansorc.ir.stmt import For, Function, LoopKind, Stmt, Store, map_substatements

CACHED_SHARE = 2
"""Of larger results than this part of the last cache little is there when they are read: what they
are made from, and other cores, take the rest."""


def stream_stores(function: Function, last_cache_bytes: int) -> Function:
    """Return `function`, whose loops are vectorised, with streaming stores to large results.

    These are read nowhere in the function.
    """
    least_bytes = last_cache_bytes // CACHED_SHARE
    large = {each for each in function.params if each.bytes > least_bytes}
    if large:
        large -= {part.buffer for part in walk(function.body) if isinstance(part, Load)}
    if not large:
        return function
    return replace(function, body=_streaming(function.body, large, ()))


def _streaming(stmt: Stmt, large: set[Buffer], loops: tuple[For, ...]) -> Stmt:
    """Mark the stores of `stmt` inside `loops`, the innermost first."""
    if isinstance(stmt, Store) and stmt.buffer in large and _fills_lines(stmt, loops):
        return replace(stmt, is_streamed=True)
    inside = (stmt, *loops) if isinstance(stmt, For) else loops
    return map_substatements(stmt, lambda part: _streaming(part, large, inside))


def _fills_lines(store: Store, loops: tuple[For, ...]) -> bool:
    """Whether `store` fills whole lines, in the unrolled ones of `loops` and one around them."""
    place = flat_place(store.buffer, store.indices)
    last = store.indices[-1] if store.indices else const(0)
    if place is None or not isinstance(last, Ramp) or last.stride != const(1):
        return False
    filled, line = last.lanes, LINE_BYTES // store.buffer.dtype.bytes
    if filled % line and line % filled:
        return False
    steps = dict(place.terms)
    for loop in loops:
        if filled % line == 0 or steps.get(loop.var.name) != filled or has_loops(loop.body):
            break
        filled *= loop.extent
        del steps[loop.var.name]
        if loop.kind is not LoopKind.UNROLLED:
            break
    return not any(step % line for step in (filled, place.constant, *steps.values()))
