"""Ask for the next row of a large tensor while the row before it is being read again.

for i in 0..1024:                               for i in 0..1024:
    for k in 0..64:                                 for k in 0..64:
        M[i] = max(M[i], A[i, k])                       M[i] = max(M[i], A[i, k])
    for k in 0..64:                    ->           for k in 0..64:
        E[k] = exp(A[i, k] - M[i])                      prefetch A[i + 1, k]
                                                        E[k] = exp(A[i, k] - M[i])

The second time a row comes from a cache near by, and the memory would have nothing to do. The
processor's own prefetcher follows one stream through one page, and a long row is a page. The row of
a result that a later loop of the same shape stores is asked for as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ansorc.ir.arith.affine import Atom, Linear
from ansorc.ir.arith.interval import Interval, linear_bounds
from ansorc.ir.arith.simplify import simplify
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import Load
from ansorc.ir.node import Node, walk
from ansorc.ir.passes.places import first_lane, flat_place
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
)
from ansorc.ir.substitute import substitute

ROW_BYTES = (1024, 64 * 1024)
"""Shorter rows are followed by the processor; longer ones would displace what is worked on."""


def prefetch_rows(function: Function, cached_bytes: int) -> Function:
    """Return `function` with prefetches of rows of the tensors larger than `cached_bytes`.

    Those of tensors that are both loaded and stored are left out. Loops are vectorised already.
    """
    stored: set[str] = set()
    loaded: set[Buffer] = set()
    for part in walk(function.body):
        if isinstance(part, Store):
            stored.add(part.buffer.name)
        elif isinstance(part, Load):
            loaded.add(part.buffer)
    if all(buffer.bytes <= cached_bytes for buffer in loaded):
        return function
    changed = stored & {buffer.name for buffer in loaded}
    body = _Rows(changed, cached_bytes).stmt(function.body)
    return function if body is function.body else replace(function, body=body)


@dataclass(frozen=True, slots=True)
class _Sweep:
    """A load in a loop that reads a row of its buffer: one iteration of `row` moves the row."""

    loop: For
    load: Load
    step: int
    """Elements from one row to the next."""
    outer: dict[Atom, int]
    span: Interval
    """The elements of the row that it reads, besides what loops outside `row` add."""


class _Rows:
    def __init__(self, changed: set[str], cached_bytes: int) -> None:
        self._changed, self._cached_bytes = changed, cached_bytes

    def stmt(self, stmt: Stmt) -> Stmt:
        new = map_substatements(stmt, self.stmt)
        return self._with_next_rows(new) if isinstance(new, For) else new

    def _with_next_rows(self, row: For) -> For:
        """Return the loop with prefetches where a row is read for the second time."""
        loops = list(_inner_loops(row.body))
        if row.kind not in (LoopKind.SERIAL, LoopKind.PARALLEL) or len(loops) < 2:
            return row
        first: dict[str, list[_Sweep]] = {}
        again: dict[str, _Sweep] = {}
        for sweep in self._sweeps(row, loops):
            name = sweep.load.buffer.name
            if any(_reads_again(sweep, other) for other in first.get(name, [])):
                again.setdefault(name, sweep)
            first.setdefault(name, []).append(sweep)
        for sweep in again.values():
            asked = [_next_row(sweep, row), *self._results(sweep, row)]
            new = _before(sweep.loop, sweep.load, asked)
            row = replace(row, body=_replaced(row.body, sweep.loop, new))
        return row

    def _results(self, sweep: _Sweep, row: For) -> Iterator[Prefetch]:
        """Yield what asks for the rows that loops like that of `sweep` store after it."""
        loops = list(_inner_loops(row.body))
        for loop in loops[next(n for n, x in enumerate(loops) if x is sweep.loop) + 1 :]:
            store = loop.body
            if loop.extent != sweep.loop.extent or not isinstance(store, Store):
                continue
            place = Load(store.buffer, store.indices)
            if self._is_large(store.buffer) and _sweep(row, loop, place) is not None:
                here = {loop.var.name: sweep.loop.var}
                indices = tuple(substitute(first_lane(index), here) for index in store.indices)
                yield Prefetch(store.buffer, indices)

    def _sweeps(self, row: For, loops: Sequence[For]) -> Iterator[_Sweep]:
        for loop in loops:
            for load in walk(loop):
                if isinstance(load, Load) and self._is_large(load.buffer):
                    sweep = _sweep(row, loop, load)
                    if sweep is not None:
                        yield sweep

    def _is_large(self, buffer: Buffer) -> bool:
        is_kept = buffer.scope is Scope.GLOBAL and buffer.name not in self._changed
        return is_kept and buffer.bytes > self._cached_bytes


def _inner_loops(stmt: Stmt) -> Iterator[For]:
    """Yield the outermost loops of `stmt`, in order, that no condition guards."""
    match stmt:
        case For(_, _, LoopKind.SERIAL | LoopKind.UNROLLED):
            yield stmt
        case Seq(stmts):
            for part in stmts:
                yield from _inner_loops(part)
        case Allocate(_, body):
            yield from _inner_loops(body)
        case _:
            pass


def _sweep(row: For, loop: For, load: Load) -> _Sweep | None:
    place = flat_place(load.buffer, load.indices)
    if place is None:
        return None
    loops = [part for part in walk(loop) if isinstance(part, For)]
    ranges = {each.var.name: (0, each.extent - 1) for each in loops}
    step = place.terms.pop(row.var.name, 0)
    outer = {atom: c for atom, c in place.terms.items() if atom not in ranges}
    inner = {atom: c for atom, c in place.terms.items() if atom in ranges}
    span = linear_bounds(Linear(inner, place.constant), ranges)
    least, most = ROW_BYTES
    is_row = least <= abs(step) * load.buffer.dtype.bytes <= most
    if span is None or not is_row or not all(isinstance(atom, str) for atom in outer):
        return None
    return _Sweep(loop, load, step, outer, span)


def _reads_again(sweep: _Sweep, other: _Sweep) -> bool:
    """Whether `sweep` reads, in another loop, most of what `other` has read of the row."""
    if sweep.loop is other.loop or (sweep.step, sweep.outer) != (other.step, other.outer):
        return False
    low, high = max(sweep.span[0], other.span[0]), min(sweep.span[1], other.span[1])
    return 2 * (high - low) > max(abs(sweep.step) // 2, sweep.span[1] - sweep.span[0])


def _next_row(sweep: _Sweep, row: For) -> Prefetch:
    following = {row.var.name: row.var + 1}
    indices = tuple(simplify(substitute(first_lane(i), following)) for i in sweep.load.indices)
    return Prefetch(sweep.load.buffer, indices)


def _before(root: Stmt, load: Load, asked: Sequence[Prefetch]) -> Stmt:
    """Return `root` with `asked` before each store that has the load."""
    match root:
        case Store() if any(part is load for part in walk(root)):
            return Seq((*asked, root))
        case For(body=body) | Allocate(body=body):
            return replace(root, body=_before(body, load, asked))
        case Seq(stmts):
            return Seq(tuple(_before(part, load, asked) for part in stmts))
        case _:
            return root


def _replaced(root: Stmt, old: Node, new: Stmt) -> Stmt:
    """Return `root`, a sequence of loops, with the loop `old` replaced."""
    if root is old:
        return new
    match root:
        case Seq(stmts):
            return Seq(tuple(_replaced(part, old, new) for part in stmts))
        case Allocate(buffer, body):
            return Allocate(buffer, _replaced(body, old, new))
        case _:
            return root
