"""Store large results past the caches.

A core that stores to a line which is in no cache first reads it from memory, even if all of it is
overwritten, and the stored line displaces data that is still needed. A streaming store does
neither: the core collects vectors into whole lines in a few buffers, and writes those to memory. A
line that is not complete while it is in such a buffer is written in pieces, which is slower than
reading it. So a store is marked only if the unrolled loops around it, and one loop around those,
fill whole lines with nothing else between.
"""

from __future__ import annotations

from dataclasses import replace

from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Load, Ramp, const
from ansorc.ir.node import walk
from ansorc.ir.passes.queries import LINE_BYTES, flat_offset, has_loops
from ansorc.ir.stmt import For, Function, LoopKind, Stmt, Store, map_substatements

CACHED_SHARE = 2
"""Results larger than this part of the last cache are mostly displaced before they are read, by
their sources and by other cores."""


def stream_stores(function: Function, last_cache_bytes: int) -> Function:
    """Return `function`, whose loops are vectorised, with streaming stores to large results.

    Only results that the function does not read are stored this way.
    """
    least_bytes = last_cache_bytes // CACHED_SHARE
    large = {each for each in function.params if each.bytes > least_bytes}
    if large:
        large -= {part.buffer for part in walk(function.body) if isinstance(part, Load)}
    if not large:
        return function
    return replace(function, body=_streaming(function.body, large, ()))


def _streaming(stmt: Stmt, large: set[Buffer], loops: tuple[For, ...]) -> Stmt:
    """Return `stmt` with its stores marked; it is inside `loops`, the innermost first."""
    if isinstance(stmt, Store) and stmt.buffer in large and _fills_lines(stmt, loops):
        return replace(stmt, is_streamed=True)
    inside = (stmt, *loops) if isinstance(stmt, For) else loops
    return map_substatements(stmt, lambda part: _streaming(part, large, inside))


def _fills_lines(store: Store, loops: tuple[For, ...]) -> bool:
    """Return whether `store` fills whole lines in unrolled ones of `loops` and one around them."""
    offset = flat_offset(store.buffer, store.indices)
    last = store.indices[-1] if store.indices else const(0)
    if offset is None or not isinstance(last, Ramp) or last.stride != const(1):
        return False
    filled, line = last.lanes, LINE_BYTES // store.buffer.dtype.bytes
    if filled % line and line % filled:
        return False
    steps = dict(offset.terms)
    for loop in loops:
        if filled % line == 0 or steps.get(loop.var.name) != filled or has_loops(loop.body):
            break
        filled *= loop.extent
        del steps[loop.var.name]
        if loop.kind is not LoopKind.UNROLLED:
            break
    return not any(step % line for step in (filled, offset.constant, *steps.values()))
