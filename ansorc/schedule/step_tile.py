"""The reductions in the steps of a scan: those of a tile of states are computed together.

    for t:                                       for t:
        vectorized u in 0..512:                      alloc h.step0: float32[512] local
            h[t, u] = tanh(x[t, u]           ->      vectorized u in 0..512: h.step0[u] = 0
              + sum of h[t - 1, k] * w[k, u])        for k in 0..64:
                                                         unrolled k_1 in 0..8:
                                                             vectorized u in 0..512:
                                                                 h.step0[u] += …
                                                     vectorized u in 0..512: h[t, u] = tanh(…)

The tile are the innermost loops. A few terms are added to all of its results, then the next ones:
so rows are read from one end to the other, which memory is fastest at, and the results stay in the
caches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import Expr, Load, Var, const
from ansorc.ir.node import Node, rewrite
from ansorc.ir.stmt import Allocate, Stmt, Store
from ansorc.lang.compute_op import StepSum
from ansorc.schedule.loops import loop_of, sequence
from ansorc.schedule.scan_state import last_step
from ansorc.schedule.stage import At, AxisKind, Loop, Mark
from ansorc.schedule.state import State
from ansorc.schedule.values import as_int, plus, times

FEW_TERMS = 8
"""Terms that are added to results in registers: so many rows are read side by side."""
TILE_BYTES = 1 << 17
"""Results that are computed together stay in the caches of a core."""
Leaves = Mapping[str, Expr]
"""The values of loops, by their names."""


@dataclass(frozen=True)
class StepTile:
    """The reductions of a tile of states: of the loops from number `start` on."""

    sums: tuple[StepSum, ...]
    start: int
    loops: tuple[Loop, ...]
    """Those of the tile that have several iterations."""
    scope: Scope

    @cached_property
    def buffers(self) -> dict[str, Buffer]:
        """Where the results are held, by the names of the reductions."""
        shape = tuple(as_int(loop.extent) for loop in self.loops)
        return {
            each.buffer.name: replace(each.buffer, shape=shape, scope=self.scope)
            for each in self.sums
        }

    def put_in(self, values: Sequence[Expr], leaves: Leaves) -> list[Expr]:
        """Return `values` with loads of the results for the `leaves` of the loops."""

        def rule(node: Node) -> Node | None:
            if not isinstance(node, Load) or node.buffer.name not in self.buffers:
                return None
            return self.load(node.buffer.name, leaves)

        return [rewrite(value, rule) for value in values] if self.sums else [*values]

    def load(self, name: str, leaves: Leaves) -> Load:
        """Return the load of a result for the `leaves` of the loops."""
        return Load(self.buffers[name], tuple(leaves[loop.name] for loop in self.loops))

    def add(self, each: StepSum, term: Expr, leaves: Leaves) -> Stmt:
        """Return the store that adds a term to a result."""
        result = self.load(each.buffer.name, leaves)
        return Store(result.buffer, result.indices, each.combiner.combine(result, term))

    def around(
        self,
        body: Stmt,
        fresh: Callable[[Loop], Var],
        added: Callable[[StepSum, Leaves, Leaves], Stmt],
    ) -> Stmt:
        """Return `body`, which loads the results, behind the loops that compute them.

        `fresh` makes a variable of a loop. `added` returns the statement that adds a term, for the
        values of the loops of the tile and of those over terms.
        """
        stmts: list[Stmt] = []
        for each in self.sums:
            loops = _Variables(self.loops, fresh)
            stmts.append(loops.around(self._zero(each, loops.leaves)))
            stmts.append(self._terms(each, fresh, added))
        stmt = sequence(*stmts, body)
        for buffer in reversed(self.buffers.values()):
            stmt = Allocate(buffer, stmt)
        return stmt

    def _terms(
        self,
        each: StepSum,
        fresh: Callable[[Loop], Var],
        added: Callable[[StepSum, Leaves, Leaves], Stmt],
    ) -> Stmt:
        """Return the loops that add the terms of a reduction, a few to each part of the tile."""
        *rest, last = each.axes
        few = max(n for n in range(1, FEW_TERMS + 1) if last.extent % n == 0)
        across = [Loop(axis.name, axis.extent, AxisKind.REDUCE, axis.name) for axis in rest]
        across.append(Loop(last.name, last.extent // few, AxisKind.REDUCE, last.name))
        inside = Loop(last.name, few, AxisKind.REDUCE, last.name, mark=Mark.UNROLL)
        outer, rows, inner, lanes = (
            _Variables(loops, fresh)
            for loops in (across, self.loops[:-1], [inside], self.loops[-1:])
        )
        first = times(outer.leaves[last.name], few)
        terms = {**outer.leaves, last.name: plus(first, inner.leaves[last.name])}
        stmt = added(each, {**rows.leaves, **lanes.leaves}, terms)
        return outer.around(rows.around(inner.around(lanes.around(stmt))))

    def _zero(self, each: StepSum, leaves: Leaves) -> Stmt:
        result = self.load(each.buffer.name, leaves)
        return Store(result.buffer, result.indices, each.combiner.identity(result.buffer.dtype))


class _Variables:
    """Loops with variables of their own; one of a single iteration is left out."""

    def __init__(self, loops: Sequence[Loop], fresh: Callable[[Loop], Var]) -> None:
        self._loops = loops
        self.leaves: dict[str, Expr] = {
            loop.name: const(0) if as_int(loop.extent) == 1 else fresh(loop) for loop in loops
        }

    def around(self, body: Stmt) -> Stmt:
        """Return the loops around `body`."""
        for loop in reversed(self._loops):
            body = loop_of(loop, self.leaves[loop.name], body, is_unrolled=False)
        return body


def tile_of_steps(state: State, name: str, unrolled: frozenset[str], scope: Scope) -> StepTile:
    """Return the tile whose reductions the steps of the scan `name` compute, if it has any.

    Its loops are those inside of the steps that are innermost and have no stages inside, as many as
    the results of `TILE_BYTES` belong to.
    """
    stage = state.stage(name)
    loops = stage.iterators
    if not stage.op.step_sums:
        return StepTile((), len(loops), (), scope)
    inside = state.stages_inside(name)
    held = {each.attach.iterator for each in inside if isinstance(each.attach, At)}
    start, least = len(loops), last_step(loops) + 1
    size = sum(each.buffer.bytes for each in stage.op.step_sums)
    while start > least:
        loop = loops[start - 1]
        size *= as_int(loop.extent)
        is_marked = loop.mark in (Mark.VECTORIZE, Mark.UNROLL) or loop.name in unrolled
        is_plain = loop.mark is Mark.NONE and size <= TILE_BYTES
        if not (is_marked or is_plain) or loop.name in held or loop.kind is not AxisKind.SPACE:
            break
        start -= 1
    several = tuple(loop for loop in loops[start:] if as_int(loop.extent) > 1)
    return StepTile(stage.op.step_sums, start, several, scope)
