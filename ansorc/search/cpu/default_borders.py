"""Borders of the untuned default: passes of their own, or tests in the loops that read them."""

from __future__ import annotations

from collections.abc import Callable, Container

from ansorc.codegen.build import prepare
from ansorc.ir.arith.affine import step_along
from ansorc.ir.expr import Binary, Call, Const, Expr, Load, Select
from ansorc.ir.node import walk
from ansorc.ir.stmt import For, If, Stmt, Store, substatements
from ansorc.lang.access import reads_of
from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import lower, replay
from ansorc.schedule.names import Steps
from ansorc.schedule.stage import Mark
from ansorc.schedule.state import State
from ansorc.schedule.steps import CacheRead, CacheWrite, ComputeInline, Redefine, RFactor
from ansorc.search.features.loop_nest import LoopNests
from ansorc.search.features.statement import Statement
from ansorc.target import Target

MOST_TESTS = 0.1
"""Tests for each operation at most, copies and vectors counted as one each. Measured with up to
0.05, a first layer of 7x7, which gains by it."""
CERTAIN = 0.8
"""The cycles with which a program is taken instead of the preferred one, in those of that one."""


def settled_borders(
    dag: ComputeDAG, target: Target, steps: Steps, counting: Callable[[], Steps]
) -> Steps:
    """Return `steps`, which seem best if borders take no time, with borders read in place.

    Where that hid reads of memory, or leaves too many tests, what is best `counting` borders is
    tried as well: read in place, and as it is.
    """
    inlined = _read_in_place(dag, target, steps)
    names = {op.name for op in dag.ops if is_border(dag, op)}
    least = _cycles(dag, target, inlined)
    if inlined is not steps and CERTAIN * least < _cycles(dag, target, steps, names):
        return inlined
    other = counting()
    in_place = _read_in_place(dag, target, other)
    found, least = (in_place, float("inf")) if inlined is steps else (inlined, least)
    for tried in (in_place, other):
        if (cycles := _cycles(dag, target, tried)) < CERTAIN * least:
            found, least = tried, cycles
    return found


def _cycles(dag: ComputeDAG, target: Target, steps: Steps, without: Container[str] = ()) -> float:
    """The cycles of all stages on one core, as estimated, but of those `without`."""
    nests = LoopNests(replay(dag, steps), 1)
    counted = [s for s in nests.state.stages if not s.is_inlined and s.name not in without]
    found = [Statement(nests, nests.nest(stage), target).estimate for stage in counted]
    return sum(each.total_cycles.item() for each in found)


def _read_in_place(dag: ComputeDAG, target: Target, steps: Steps) -> Steps:
    """Return `steps` with each stage that puts a border around elements inlined in its reader.

    The tiles stay as they are. The tests left are counted in the loops: with many, `steps` stay.
    """
    state = replay(dag, steps)
    names = [op.name for op in dag.ops if is_border(dag, op) and _may_go(steps, op.name)]
    borders = [name for name in names if not _is_gathered(state, name)]
    if not borders:
        return steps
    inlined = _inlined(steps, borders)
    loops = prepare(lower(replay(dag, inlined)), target)
    tests, operations = _executed(loops.body)
    return inlined if tests <= MOST_TESTS * operations else steps


def is_border(dag: ComputeDAG, op: ComputeOp) -> bool:
    """Return whether `op` only moves elements, some of them from nowhere, for one reduction."""
    readers = [other for other in dag.ops if any(b in other.reads for b in op.buffers)]
    has_one = len(readers) == 1 and bool(readers[0].reduce_axes)
    is_inside = not any(buffer in dag.outputs for buffer in op.buffers)
    moves = not op.reduce_axes and all(map(_is_moved, op.parts))
    return has_one and is_inside and moves and any(isinstance(b, Select) for b in op.bodies)


def _may_go(steps: Steps, name: str) -> bool:
    """Whether `name` is no part of its reader yet, and nothing is made of it or computed in it."""
    return not any(
        isinstance(step, CacheRead | CacheWrite | ComputeInline | RFactor)
        if step.stage == name
        else name in vars(step).values()
        for step in steps
    )


def _is_gathered(state: State, name: str) -> bool:
    """Whether vectors of the border's reader would lie across memory without it: it transposes."""
    border = state.stage(name).op
    for reader in state.readers(name):
        lanes = [it.axis for it in reader.iterators if it.mark is Mark.VECTORIZE]
        for place, axis in enumerate(border.axes):
            along = any(
                step_along(access[place], each)
                for access in reads_of(reader.op, border)
                for each in lanes
            )
            if along and any(
                step_along(load.indices[-1], axis.name) != 1
                for load in border.loads
                if any(step_along(index, axis.name) for index in load.indices)
            ):
                return True
    return False


def _is_moved(value: Expr) -> bool:
    if isinstance(value, Select):
        return _is_moved(value.then) and _is_moved(value.otherwise)
    return isinstance(value, Load | Const)


def _inlined(steps: Steps, names: list[str]) -> Steps:
    """The steps without those of the stages `names`, which are inlined after redefinitions."""
    first = tuple(step for step in steps if isinstance(step, Redefine))
    rest = tuple(s for s in steps if not isinstance(s, Redefine) and s.stage not in names)
    return (*first, *map(ComputeInline, names), *rest)


def _executed(stmt: Stmt) -> tuple[int, int]:
    """The tests and the operations that `stmt` executes, the larger arm of each If counted."""
    match stmt:
        case For(_, extent, _, body):
            tests, operations = _executed(body)
            return extent * tests, extent * operations
        case If():
            arms = [_executed(arm) for arm in substatements(stmt)]
            return 1 + max(arm[0] for arm in arms), max(arm[1] for arm in arms)
        case Store(_, _, value):
            parts = list(walk(value))
            tests = sum(isinstance(part, Select) for part in parts)
            return tests, sum(isinstance(part, Binary | Call) for part in parts)
        case _:
            found = [_executed(part) for part in substatements(stmt)]
            return sum(tests for tests, _ in found), sum(operations for _, operations in found)
