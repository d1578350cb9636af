"""Prefetch cache lines of large tensors for which a loop would otherwise wait.

A core waits for a line that comes from beyond its second cache, unless the hardware prefetchers,
which follow a stream within a page, are ahead of the loop. A prefetch costs one instruction a line.
So the pass prefetches where there is little work for each line, and where the next line is known
early:

* Rows. The data that an iteration reads is read again by a later loop inside. The second time it
  comes from a cache, and memory would be idle: there the row of the next iteration is prefetched.

    for i in 0..1024:                               for i in 0..1024:
        for k in 0..64:                                 for k in 0..64:
            M[i] = max(M[i], A[i, k])                       M[i] = max(M[i], A[i, k])
        for k in 0..64:                    ->           for k in 0..64:
            E[k] = exp(A[i, k] - M[i])                      prefetch A[i + 1, k]
                                                            E[k] = exp(A[i, k] - M[i])

* Panels. The part of a large constant that an iteration reads is read by each of a few tiles
  inside. The first tile would wait, and the others leave memory idle: each tile prefetches its
  share of the next panel.

* Streams. A tensor that is larger than the last cache and read once, in order, is prefetched a
  fixed distance ahead: loads that miss occupy the few line buffers of the first cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from ansorc.ir.arith.affine import Atom, Linear
from ansorc.ir.arith.interval import Interval, linear_bounds
from ansorc.ir.arith.simplify import simplify
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import Expr, Load, const, dtype_of
from ansorc.ir.node import walk
from ansorc.ir.passes.queries import (
    LINE_BYTES,
    UNROLLED,
    first_lane,
    flat_offset,
    has_loops,
    loops_of,
    uses,
)
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
    substatements,
    written_buffers,
)
from ansorc.ir.substitute import substitute

ROW_BYTES = (1024, 64 * 1024)
"""Shorter rows are left to the hardware prefetcher; longer ones would displace data in use."""
LEAST_PANEL_BYTES = 4096
"""The bytes of a page: a shorter panel is left to the hardware prefetcher."""
PANEL_LINES = 8
"""The most lines that are prefetched at once."""
PANEL_WORK = (4, 512)
"""The vectors stored, in registers or memory, for each line. With fewer, a prefetch costs more than
it saves; with more, the time of a line is negligible."""
PANEL_SHARE = 8
"""Constants of less than this part of the last cache are left to the hardware: they stay in that
cache. Larger ones are displaced by other tensors and other cores."""
STREAM_AHEAD_BYTES = 1024
"""The distance of a prefetch ahead of the load, in bytes: 16 cache lines."""
LEAST_STREAM_BYTES = 4 * STREAM_AHEAD_BYTES
STREAM_LINES = (2, 4)
"""The least and the most lines that one iteration prefetches."""


def prefetch(
    function: Function, cached_bytes: int, last_cache_bytes: int, *, has_streams: bool
) -> Function:
    """Return `function`, whose loops are vectorised, with prefetches.

    Tensors larger than `cached_bytes` do not stay in the caches of one core; those larger than
    `last_cache_bytes` stay in no cache. `has_streams`: whether streams are prefetched.
    """
    stores = {buffer.name for buffer in written_buffers(function.body)}
    loads = {part.buffer for part in walk(function.body) if isinstance(part, Load)}
    if all(buffer.bytes <= cached_bytes for buffer in loads):
        return function
    changed = stores & {buffer.name for buffer in loads}
    rewriting = _Prefetching(changed, cached_bytes, last_cache_bytes, has_streams=has_streams)
    return replace(function, body=rewriting.stmt(function.body, ()))


class _Prefetching:
    def __init__(
        self, changed: set[str], cached_bytes: int, last_cache_bytes: int, *, has_streams: bool
    ) -> None:
        self._changed, self._has_streams = changed, has_streams
        self._cached_bytes, self._last_cache_bytes = cached_bytes, last_cache_bytes
        self._asked: dict[int, dict[Prefetch, None]] = {}
        """The prefetches at the start of an iteration, by the id of the loop."""

    def stmt(self, stmt: Stmt, loops: tuple[For, ...]) -> Stmt:
        """Return `stmt` with prefetches; it is inside `loops`, the outermost first."""
        if not isinstance(stmt, For) or stmt.kind in UNROLLED:
            return map_substatements(stmt, lambda part: self.stmt(part, loops))
        inside = (*loops, stmt)
        self._rows(stmt)
        if stmt.kind is LoopKind.SERIAL and not has_loops(stmt.body):
            self._panels(inside)
            if self._has_streams:
                self._stream(inside)
        new = map_substatements(stmt, lambda part: self.stmt(part, inside))
        asked = self._asked.pop(id(stmt), None)
        if not asked:
            return new
        assert isinstance(new, For)
        return replace(new, body=Seq((*asked, new.body)))

    def _ask(self, loop: For, asked: Sequence[Prefetch]) -> None:
        self._asked.setdefault(id(loop), {}).update(dict.fromkeys(asked))

    def _rows(self, row: For) -> None:
        """Prefetch the next row where the row of an iteration of `row` is read a second time."""
        loops = _serial_loops(row.body)
        first: dict[str, tuple[For, _Block]] = {}
        asked: set[str] = set(self._changed)
        for loop in loops if len(loops) > 1 else ():
            for load in _large_loads(loop, self._cached_bytes):
                name = load.buffer.name
                block = None if name in asked else _block([load], loops_of(loop))
                if block is None or block.count < block.elements or not _is_row(block, row):
                    continue
                before, whole = first.setdefault(name, (loop, block))
                if before is not loop and _is_again(block, whole, row):
                    asked.add(name)
                    self._next_row(load, row, loop)

    def _next_row(self, load: Load, row: For, loop: For) -> None:
        """Prefetch in `loop` the elements that `load` reads in the next iteration of `row`.

        Nothing is done if an iteration reads single elements that are far apart.
        """
        *_, inner = (x for x in loops_of(loop) if x.kind not in UNROLLED and load in walk(x))
        piece = _block([load], loops_of(inner)[1:])
        assert piece is not None
        if piece.count >= piece.elements:
            self._ask(inner, piece.lines({row.var.name: row.var + 1}, const(0), piece.elements))

    def _panels(self, loops: tuple[For, ...]) -> None:
        """Prefetch the next panels of the constants that the innermost of `loops` reads."""
        least_bytes = max(self._cached_bytes, self._last_cache_bytes // PANEL_SHARE)
        loads = _large_loads(loops[-1], least_bytes)
        for buffer in dict.fromkeys(load.buffer for load in loads if load.buffer.constant):
            same = [load for load in loads if load.buffer == buffer]
            number = _panel_loop(same[0], loops)
            if number is None:
                continue
            panel, tiles = loops[number], loops[number + 1 :]
            block = _block(same, loops_of(tiles[0]))
            if block is None or block.count < block.elements or not _moves_always(block, panel):
                continue
            size = block.elements * buffer.dtype.bytes
            least, most = (work * size for work in PANEL_WORK)
            if (
                LEAST_PANEL_BYTES <= size <= self._cached_bytes
                and least <= _work(panel.body) * LINE_BYTES <= most
            ):
                self._share(block, panel, tiles)

    def _share(self, block: _Block, panel: For, tiles: Sequence[For]) -> None:
        """Prefetch shares of the next panel in one of `tiles`.

        It is the outermost loop whose iterations do not prefetch too much at once.
        """
        most = PANEL_LINES * LINE_BYTES // block.buffer.dtype.bytes
        first, share, count = const(0), block.elements, 1
        for loop in tiles:
            count *= loop.extent
            share = -(-block.elements // count)
            first = first + loop.var * share
            if share <= most:
                self._ask(loop, block.lines({panel.var.name: panel.var + 1}, first, share))
                return

    def _stream(self, loops: tuple[For, ...]) -> None:
        """Prefetch the load of the innermost of `loops` if it is the only one from memory."""
        size, loop = self._last_cache_bytes, loops[-1]
        loads = _large_loads(loop, size)
        stores = [part.buffer for part in statements(loop) if isinstance(part, Store)]
        buffers = {load.buffer.name for load in loads}
        if len(buffers) != 1 or any(_is_large(buffer, size) for buffer in stores):
            return
        block = _block(loads, loops_of(loop)[1:])
        if block is None or not all(_moves(block.fixed, each.var.name) for each in loops):
            return
        item, step = block.buffer.dtype.bytes, block.fixed.get(loop.var.name, 0)
        least, most = (lines * LINE_BYTES for lines in STREAM_LINES)
        is_long = step * loop.extent * item >= LEAST_STREAM_BYTES
        if step == block.count == block.elements and least <= step * item <= most and is_long:
            self._ask(loop, block.lines({}, const(STREAM_AHEAD_BYTES // item), step))


@dataclass(frozen=True, slots=True)
class _Block:
    """The elements that loads of a buffer read in some loops, with the loops outside fixed."""

    buffer: Buffer
    begin: tuple[Expr, ...]
    """The indices of the first element."""
    fixed: dict[Atom, int]
    """The coefficients of the loops outside in its offset, in elements."""
    span: Interval
    """The interval of the remaining offset."""
    count: int
    """The number of elements read; repeated reads count repeatedly."""

    @property
    def elements(self) -> int:
        """The number of elements from the first to the last."""
        return self.span[1] - self.span[0] + 1

    def lines(self, variables: Mapping[str, Expr], first: Expr, elements: int) -> list[Prefetch]:
        """Return prefetches of `elements` of the block from `first` on, for other `variables`."""
        *begin, last = (simplify(substitute(index, variables)) for index in self.begin)
        places = range(0, elements, LINE_BYTES // self.buffer.dtype.bytes)
        return [Prefetch(self.buffer, (*begin, simplify(last + first + const(n)))) for n in places]


def _block(loads: Sequence[Load], inside: Sequence[For]) -> _Block | None:
    """Return the block that `loads` of one buffer read in the loops `inside`; None if unknown."""
    ranges = {loop.var.name: loop.span for loop in inside}
    parts_: list[tuple[dict[Atom, int], Interval]] = []
    for load in loads:
        offset = flat_offset(load.buffer, load.indices)
        if offset is None:
            return None
        fixed = {atom: c for atom, c in offset.terms.items() if atom not in ranges}
        moving = {atom: c for atom, c in offset.terms.items() if atom in ranges}
        span = linear_bounds(Linear(moving, offset.constant), ranges)
        if span is None or any(_moves(fixed, name) for name in ranges):
            return None
        parts_.append((fixed, (span[0], span[1] + _lanes(load) - 1)))
    fixed = parts_[0][0]
    if any(other != fixed for other, _ in parts_):
        return None
    span = min(low for _, (low, _) in parts_), max(high for _, (_, high) in parts_)
    offset = flat_offset(loads[0].buffer, loads[0].indices)
    assert offset is not None
    start = dict.fromkeys(ranges, const(0))
    *begin, last = (substitute(first_lane(index), start) for index in loads[0].indices)
    begin.append(last + const(span[0] - offset.constant))
    copies = prod(loop.extent for loop in inside if loop.var.name in offset.terms)
    count = copies * sum(_lanes(load) for load in set(loads))
    return _Block(loads[0].buffer, tuple(begin), fixed, span, count)


def _is_large(buffer: Buffer, size: int) -> bool:
    return buffer.scope is Scope.GLOBAL and buffer.bytes > size


def _large_loads(stmt: Stmt, size: int) -> list[Load]:
    """Return the loads from tensors of more than `size` bytes, each once."""
    loads = (part for part in walk(stmt) if isinstance(part, Load))
    return list(dict.fromkeys(load for load in loads if _is_large(load.buffer, size)))


def _lanes(load: Load) -> int:
    return max(dtype_of(index).lanes for index in load.indices)


def _serial_loops(stmt: Stmt) -> list[For]:
    """Return the outermost loops of `stmt`, in order, that are under no condition."""
    if isinstance(stmt, For):
        return [stmt] if stmt.kind is LoopKind.SERIAL else []
    parts = substatements(stmt) if isinstance(stmt, Seq | Allocate) else ()
    return [loop for part in parts for loop in _serial_loops(part)]


def _moves(terms: Iterable[Atom], name: str) -> bool:
    return any(atom == name if isinstance(atom, str) else uses(atom, name) for atom in terms)


def _is_row(block: _Block, row: For) -> bool:
    """Return whether `block` is another row in each iteration of `row`."""
    step = abs(block.fixed.get(row.var.name, 0)) * block.buffer.dtype.bytes
    is_sum = all(isinstance(atom, str) for atom in block.fixed)
    return is_sum and ROW_BYTES[0] <= step <= ROW_BYTES[1]


def _is_again(block: _Block, other: _Block, row: For) -> bool:
    """Return whether `block` covers most of the part of the row that `other` reads."""
    low, high = max(block.span[0], other.span[0]), min(block.span[1], other.span[1])
    most = max(abs(block.fixed[row.var.name]) // 2, block.elements)
    return block.fixed == other.fixed and 2 * (high - low) > most


def _panel_loop(load: Load, loops: Sequence[For]) -> int | None:
    """Return the number of the loop with which the panel of `load` changes, or None.

    It is the innermost one around a loop that reads the same elements again.
    """
    offset = flat_offset(load.buffer, load.indices)
    if offset is None:
        return None
    moving = [_moves(offset.terms, loop.var.name) for loop in loops]
    still = max((n for n, moves in enumerate(moving) if not moves), default=0)
    outer = max((n for n in range(still) if moving[n]), default=None)
    if outer is None or any(loop.kind is not LoopKind.SERIAL for loop in loops[outer + 1 :]):
        return None
    return outer


def _moves_always(panel: _Block, loop: For) -> bool:
    """Return whether the first iterations of `loop` have different panels."""
    first = [
        tuple(simplify(substitute(index, {loop.var.name: const(n)})) for index in panel.begin)
        for n in range(min(loop.extent, 4))
    ]
    return len(first) > 1 and all(before != after for before, after in pairwise(first))


def _work(stmt: Stmt) -> int:
    """Return the number of vectors that `stmt` stores, in registers or memory."""
    if isinstance(stmt, Store):
        return 1
    work = sum(_work(part) for part in substatements(stmt))
    return work * stmt.extent if isinstance(stmt, For) else work
