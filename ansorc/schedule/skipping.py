"""Skip iterations: of a stage, those that do not matter, and of others those past the end.

What matters is found by `ansorc/schedule/needed.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce

from ansorc.ir.arith.interval import Ranges, prove
from ansorc.ir.arith.scalar import conjunction
from ansorc.ir.expr import BinaryOp as Op
from ansorc.ir.expr import CompareOp, Expr, Load, binary, compare, const
from ansorc.ir.node import walk
from ansorc.ir.passes.accesses import is_inside
from ansorc.ir.stmt import If, Stmt
from ansorc.schedule.in_place import is_for_device
from ansorc.schedule.loops import sequence, under
from ansorc.schedule.needed import Need, find_limits
from ansorc.schedule.placed import Placed, axis_values_of
from ansorc.schedule.stage import At, Part, Stage
from ansorc.schedule.state import State
from ansorc.schedule.values import as_int, plus, times


def before_end(
    state: State, placed: Placed, inside: Sequence[Stage], nests: Sequence[Stmt], ranges: Ranges
) -> list[Stmt]:
    """Return the `nests` of the stages `inside` a loop, skipped where the loops run past the end.

    They do if a split of an attached stage does not divide. There the nests would read elements of
    others, computed further out, that these do not hold. Threads of a GPU wait for each other, so
    they skip nothing.
    """
    attach = inside[0].attach if inside else None
    if not isinstance(attach, At) or not isinstance(placed.stage.attach, At):
        return list(nests)
    depth = placed.stage.position(attach.iterator)
    assert depth is not None
    inner = {loop.name: const(0) for loop in placed.stage.iterators[depth + 1 :]}
    guards = axis_values_of(placed, placed.leaves | inner)[1]
    tests = [guard.condition for guard in guards if prove(guard.condition, ranges) is not True]
    if not tests or is_for_device(state.stages) or not _read_from_outside(state, inside):
        return list(nests)
    return [under(tests, sequence(*nests))]


def _read_from_outside(state: State, inside: Sequence[Stage]) -> bool:
    """Return whether stages in the loops of `inside` read what is held for loops further out."""
    found, waiting = {stage.name for stage in inside}, list(inside)
    while waiting:
        held = state.stages_inside(waiting.pop().name)
        found |= {stage.name for stage in held}
        waiting += held
    sources = (state.source(b.name) for name in found for b in state.stage(name).op.reads)
    return any(s is not None and isinstance(s.attach, At) and s.name not in found for s in sources)


def where_needed(
    placed: Placed, start: int, stmt: Stmt, needs: Sequence[Need], ranges: Ranges
) -> Stmt:
    """Return `stmt`, the loops from `start` on, skipped where none of them matters."""
    inner = placed.stage.iterators[start:]
    parts = [part for iterator in inner for part in placed.stage.parts[iterator.name]]
    if not needs or not all(part.is_whole for part in parts):
        return stmt
    leaves = placed.leaves | {it.name: const(0) for it in inner}
    possible = [_possible(placed, parts, leaves, need, ranges) for need in needs]
    tests = [t for t in possible if t is not None and prove(t, ranges) is not True]
    return If(conjunction(tests), stmt) if tests else stmt


def _possible(
    placed: Placed, inner: Sequence[Part], leaves: Mapping[str, Expr], need: Need, ranges: Ranges
) -> Expr | None:
    """Return a test that holds if any iteration of the parts `inner` may matter, or None.

    The bound may be a few elements of an input; it is only read where these exist.
    """
    values = axis_values_of(placed, leaves)[0]
    total: Expr = const(0)
    for axis, factor in need.total.terms.items():
        total = plus(total, times(values[axis], factor))
    least = (min(need.total.coefficient(p.axis), 0) * as_int(p.stride) * (as_int(p.extent) - 1)
             for p in inner)  # fmt: skip
    total = plus(total, const(need.total.constant + sum(least)))
    limits = find_limits(need.most, values, [part for part in inner if part.extent != 1])
    loads = [node for limit in limits for node in walk(limit) if isinstance(node, Load)]
    is_there = all(is_inside(load.buffer, load.indices, ranges) for load in loads)
    if not limits or not is_there:
        return None
    return compare(CompareOp.LE, total, reduce(partial(binary, Op.MAX), limits))
