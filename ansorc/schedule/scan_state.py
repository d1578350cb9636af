"""The states of a scan: they are held while the loops along its axis run, in registers if they fit.

for t: X[i, t] = f(X[i, t - 1], A[i, t])    ->    alloc X.state
                                                  X.state = init
                                                  for t:
                                                      X.state = f(X.state, A[i, t])
                                                      X[i, t] = X.state
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import Expr, Indices, Load, const
from ansorc.ir.node import Node, rewrite
from ansorc.ir.stmt import Allocate, Seq, Stmt, Store
from ansorc.lang.compute_op import StateBuffer
from ansorc.schedule.stage import AxisKind, Loop, Stage
from ansorc.schedule.values import as_int, iterator_values


@dataclass(frozen=True)
class ScanStates:
    """The states of what the loops from the first one along the axis of a scan compute."""

    stage: Stage
    depth: int
    """The number of loops outside of the first one along the scan's axis."""
    buffers: tuple[Buffer, ...]
    inside: tuple[str, ...]
    """The axes along which there are several states."""
    scattered: frozenset[str]
    """Those of them that the loops inside do not move evenly."""

    def indices(self, leaves: Mapping[str, Expr]) -> tuple[Expr, ...]:
        """Return the place of a state for the values `leaves` of the loops."""
        outer = {loop.name for loop in self.stage.iterators[: self.depth]}
        inner = {name: const(0) if name in outer else leaf for name, leaf in leaves.items()}
        values, _ = iterator_values(self.stage, inner)
        whole, _ = iterator_values(self.stage, leaves)
        return tuple(whole[n] if n in self.scattered else values[n] for n in self.inside)

    def loads(self, leaves: Mapping[str, Expr]) -> list[Load]:
        """Return the loads of the states at a place."""
        indices = self.indices(leaves)
        return [Load(buffer, indices) for buffer in self.buffers]

    def put_in(self, values: Sequence[Expr], leaves: Mapping[str, Expr]) -> list[Expr]:
        """Return `values`, of the loops `leaves`, with states where they read the step before.

        Along mixed axes all states are held, so the index is that of the read.
        """
        op, own = self.stage.op, dict(zip(self.inside, self.indices(leaves), strict=True))

        def rule(node: Node) -> Node | None:
            if not isinstance(node, Load) or not isinstance(node.buffer, StateBuffer):
                return None
            places = {a.name: i for a, i in zip(op.axes, node.indices, strict=True)}
            indices = (places[n] if n in op.mixed_axes else own[n] for n in self.inside)
            return Load(self.buffers[node.buffer.output], tuple(indices))

        return [rewrite(value, rule) for value in values]


def first_step(stage: Stage) -> int | None:
    """Return the place of the first loop along the axis of a scan; None if it is no scan."""
    kinds = [loop.kind for loop in stage.iterators]
    return kinds.index(AxisKind.SCAN) if AxisKind.SCAN in kinds else None


def states_of(stage: Stage, depth: int, scope: Scope) -> ScanStates:
    """Return the states of a scan whose first loop along its axis is the one at `depth`."""
    op = stage.op
    widths = dict.fromkeys((axis.name for axis in op.axes), 1)
    scattered = set[str]()
    for loop in stage.iterators[depth:]:
        for part in stage.parts[loop.name]:
            if part.is_whole:
                widths[part.axis] += as_int(part.stride) * (as_int(part.extent) - 1)
            else:
                scattered.add(part.axis)
    for axis, extent in zip(op.axes, stage.region, strict=True):
        if axis.name in scattered:
            widths[axis.name] = as_int(extent)
    inside = tuple(
        axis.name for axis in op.axes if axis.name != op.scan_axis and widths[axis.name] > 1
    )
    shape = tuple(widths[name] for name in inside)
    buffers = tuple(Buffer(f"{b.name}.state", shape, b.dtype, scope) for b in op.buffers)
    return ScanStates(stage, depth, buffers, inside, frozenset(scattered))


def advance(
    states: ScanStates,
    leaves: Mapping[str, Expr],
    results: tuple[Sequence[Buffer], tuple[Expr, ...]],
    values: Sequence[Expr],
) -> Stmt:
    """Return one step: the states become `values`, and are stored in `results`, at their place.

    If there are several states, all are computed into scalars before any is stored. Where other
    places read the states, these are renewed after the step (`renew`).
    """
    buffers, place = results
    if states.stage.op.mixed_axes:
        made = tuple(Store(b, place, v) for b, v in zip(buffers, values, strict=True))
        return made[0] if len(made) == 1 else Seq(made)
    held = [Buffer(f"{b.name}.next", (), b.dtype, Scope.LOCAL) for b in buffers]
    stmts: list[Stmt] = []
    if len(buffers) > 1:
        stmts += [Store(scalar, (), value) for scalar, value in zip(held, values, strict=True)]
        values = [Load(scalar, ()) for scalar in held]
    for state, value in zip(states.loads(leaves), values, strict=True):
        stmts.append(Store(state.buffer, state.indices, value))
    for buffer, state in zip(buffers, states.loads(leaves), strict=True):
        stmts.append(Store(buffer, place, state))
    stmt: Stmt = Seq(tuple(stmts))
    for scalar in reversed(held) if len(buffers) > 1 else ():
        stmt = Allocate(scalar, stmt)
    return stmt


def renew(
    states: ScanStates, leaves: Mapping[str, Expr], results: tuple[Sequence[Buffer], Indices]
) -> list[Stmt]:
    """Return the stores of a step's `results` as the states for the next one, at a place."""
    buffers, place = results
    pairs = zip(states.loads(leaves), buffers, strict=True)
    return [Store(state.buffer, state.indices, Load(buffer, place)) for state, buffer in pairs]


def last_step(loops: Sequence[Loop]) -> int:
    """Return the place of the last of `loops` that runs along the axis of a scan."""
    kinds = [loop.kind for loop in loops]
    return len(kinds) - 1 - kinds[::-1].index(AxisKind.SCAN)


def misplaced_loops(stage: Stage, loops: Sequence[Loop]) -> list[str]:
    """Return which of `loops` would compute some states of a step only, before the next one."""
    kinds = [loop.kind for loop in loops]
    if not stage.op.mixed_axes or AxisKind.SCAN not in kinds:
        return []
    return [
        loop.name
        for loop in loops[: last_step(loops)]
        if any(part.axis in stage.op.mixed_axes for part in stage.parts[loop.name])
    ]
