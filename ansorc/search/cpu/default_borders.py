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
from ansorc.search.features.statement import StageAnalysis
from ansorc.target import Target

MOST_TESTS = 0.1
"""Tests for each operation at most, copies and vectors counted as one each. Measured with up to
0.05, a first layer of 7x7, which gains by it."""
CERTAIN = 0.8
"""Another program is taken if it needs less than this share of the preferred one's cycles."""


def settle_borders(
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
    best, least = (in_place, float("inf")) if inlined is steps else (inlined, least)
    for tried in (in_place, other):
        if (cycles := _cycles(dag, target, tried)) < CERTAIN * least:
            best, least = tried, cycles
    return best


def _cycles(dag: ComputeDAG, target: Target, steps: Steps, without: Container[str] = ()) -> float:
    """Return the estimated cycles of all stages but those `without`, on one core."""
    nests = LoopNests(replay(dag, steps), 1)
    counted = [s for s in nests.state.stages if not s.is_inlined and s.name not in without]
    estimates = [StageAnalysis(nests, nests.nest(stage), target).estimate for stage in counted]
    return sum(each.total_cycles.item() for each in estimates)


def _read_in_place(dag: ComputeDAG, target: Target, steps: Steps) -> Steps:
    """Return `steps` with each stage that puts a border around elements inlined in its reader.

    The tiles stay as they are. The tests left are counted in the loops: with many, `steps` stay.
    """
    state = replay(dag, steps)
    names = [op.name for op in dag.ops if is_border(dag, op) and _may_go(steps, op.name)]
    borders = [name for name in names if not _is_gathered(state, name)]
    if not borders:
        return steps
    inlined = _inline(steps, borders)
    loops = prepare(lower(replay(dag, inlined)), target)
    tests, operations = _count_executed(loops.body)
    return inlined if tests <= MOST_TESTS * operations else steps


def is_border(dag: ComputeDAG, op: ComputeOp) -> bool:
    """Return whether `op` only moves elements, some of them from nowhere, for one reduction."""
    readers = [other for other in dag.ops if any(b in other.reads for b in op.buffers)]
    has_one = len(readers) == 1 and bool(readers[0].reduce_axes)
    is_inside = not any(buffer in dag.outputs for buffer in op.buffers)
    moves = not op.reduce_axes and all(map(_is_moved, op.parts))
    return has_one and is_inside and moves and any(isinstance(b, Select) for b in op.bodies)


def _may_go(steps: Steps, name: str) -> bool:
    """Return whether `name` can be inlined.

    It is not inlined yet, nothing is made of it, and nothing is computed in its loops.
    """
    return not any(
        isinstance(step, CacheRead | CacheWrite | ComputeInline | RFactor)
        if step.stage == name
        else name in vars(step).values()
        for step in steps
    )


def _is_gathered(state: State, name: str) -> bool:
    """Return whether inlining the border makes vectors of its reader gather.

    This is so where the border transposes: without it a vector lies across memory.
    """
    border = state.stage(name).op
    for reader in state.readers(name):
        lanes = [it.axis for it in reader.iterators if it.mark is Mark.VECTORIZE]
        for dimension, axis in enumerate(border.axes):
            along = any(
                step_along(access[dimension], each)
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
    """Return whether `value` is a load or a constant, maybe chosen by conditions."""
    if isinstance(value, Select):
        return _is_moved(value.then) and _is_moved(value.otherwise)
    return isinstance(value, Load | Const)


def _inline(steps: Steps, names: list[str]) -> Steps:
    """Return the steps with the stages `names` inlined, after the redefinitions."""
    first = tuple(step for step in steps if isinstance(step, Redefine))
    rest = tuple(s for s in steps if not isinstance(s, Redefine) and s.stage not in names)
    return (*first, *map(ComputeInline, names), *rest)


def _count_executed(stmt: Stmt) -> tuple[int, int]:
    """Return how many tests and operations `stmt` executes; of an If, the larger arm's."""
    match stmt:
        case For(_, extent, _, body):
            tests, operations = _count_executed(body)
            return extent * tests, extent * operations
        case If():
            arms = [_count_executed(arm) for arm in substatements(stmt)]
            return 1 + max(arm[0] for arm in arms), max(arm[1] for arm in arms)
        case Store(_, _, value):
            parts = list(walk(value))
            tests = sum(isinstance(part, Select) for part in parts)
            return tests, sum(isinstance(part, Binary | Call) for part in parts)
        case _:
            counts = [_count_executed(part) for part in substatements(stmt)]
            return sum(tests for tests, _ in counts), sum(operations for _, operations in counts)
