"""RFactor: turn one loop of a reduction into a space loop of a partial result."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansorc.ir.expr import Expr, Load, Select, Var, const
from ansorc.ir.substitute import substitute
from ansorc.lang.compute_op import Axis, ComputeOp, Output, Place, sizes_of
from ansorc.schedule.bounds import settle
from ansorc.schedule.stage import (
    AxisKind,
    Loop,
    Making,
    Mark,
    Origin,
    Stage,
    initial_stage,
)
from ansorc.schedule.state import State, Step
from ansorc.schedule.values import as_int, iterator_values


@dataclass(frozen=True)
class RFactor(Step):
    """Reduce each share of a reduction on its own, then reduce the partial results.

        for i: for k.0: for k.1:           for i: for k.0: for k.1:
            C[i] += A[i, k]         ->         C.rf[i, k.0] += A[i, k]
                                           for i: for k.0: C[i] += C.rf[i, k.0]

    `k.0` is a space iterator of `C.rf`, so it can be parallel or vectorized. It becomes dimension
    `axis` of `C.rf` (-1: the last). Iterations beyond the end of a split reduction add nothing.
    The terms are added in another order.
    """

    iterator: str
    axis: int = -1

    def apply(self, state: State) -> State:
        """Return the state with `<stage>.rf` put before the stage."""
        stage = self.stage_of(state)
        position = self.position_of(state, stage, self.iterator)
        self._check(state, stage, position)
        partial = self._partial(state, stage)
        final = self._final(stage, partial)
        where = state.stages.index(stage)
        origin = Origin(stage.origin.node, Making.RFACTOR, stage.name, self.axis)
        new = (
            initial_stage(partial, origin, is_output=False),
            initial_stage(final, stage.origin, is_output=stage.is_output),
        )
        stages = (*state.stages[:where], *new, *state.stages[where + 1 :])
        return settle(replace(state, stages=stages), self, state)

    def _check(self, state: State, stage: Stage, position: int) -> None:
        self.require(
            state, f"'{self.iterator}' is not a loop of a reduction", (stage.name, self.iterator),
            condition=stage.iterators[position].kind is AxisKind.REDUCE,
        )  # fmt: skip
        last = len(stage.op.axes)
        self.require(
            state, f"the partial result has no dimension {self.axis}; use 0 to {last}, or -1",
            condition=-1 <= self.axis <= last,
        )  # fmt: skip
        changed = [
            (stage.name, it.name)
            for it in stage.changed_loops()
            if it.mark is not Mark.NONE or it.kind is AxisKind.SPACE
        ]
        held = [(inner.name, "") for inner in state.stages_inside(stage.name)]
        ragged = stage.op.ragged_axis
        self.require(
            state, f"'{stage.name}' reduces over ranges that are data, whose terms make no partial "
            "results of one shape", condition=ragged is None,
        )  # fmt: skip
        reduce = [it.name for it in stage.iterators if it.kind is AxisKind.REDUCE]
        self.require(
            state, f"'{self.iterator}' is the only loop over terms that are scattered, so nothing "
            "would be left to add up in a copy; split it first", (stage.name, self.iterator),
            condition=not stage.op.places or len(reduce) > 1,
        )  # fmt: skip
        is_plain = stage.region == _shape(stage) and not stage.alignments and stage.scope == ""
        is_plain &= not stage.initial
        self.require(
            state, "only the reduce loops may have been changed before; use rfactor first",
            *changed, *held, condition=is_plain and not changed and not held,
        )  # fmt: skip

    def _partial(self, state: State, stage: Stage) -> ComputeOp:
        op = stage.op
        leaves: dict[str, Expr] = {it.name: Var(it.name) for it in stage.iterators}
        try:
            values, guards = iterator_values(stage, leaves)
            reduce = [self._axis(it) for it in stage.iterators if it.kind is AxisKind.REDUCE]
        except ValueError:
            self.refuse(
                state, "the lengths of the reduction are not chosen yet",
                *((stage.name, it.name) for it in stage.iterators if it.extent is None),
            )  # fmt: skip
        terms = {axis.name: values[axis.name] for axis in op.reduce_axes}
        bodies = [substitute(body, terms) for body in op.bodies]
        indices = [substitute(place.index, terms) for place in op.places]
        for guard in guards:
            pairs = zip(bodies, op.identities, strict=True)
            bodies = [Select(guard.condition, body, identity) for body, identity in pairs]
            indices = [Select(guard.condition, index, const(0)) for index in indices]
        pairs = zip(op.places, indices, strict=True)
        places = tuple(Place(place.axis, index) for place, index in pairs)
        factored = next(axis for axis in reduce if axis.name == self.iterator)
        before = len(op.axes) if self.axis < 0 else self.axis
        axes = (*op.axes[:before], factored, *op.axes[before:])
        shape = tuple(axis.extent for axis in axes)
        names = [state.fresh_name(f"{buffer.name}.rf") for buffer in op.buffers]
        first, *more = (
            Output(replace(buffer, name=name, shape=shape, sizes=sizes_of(axes)), body)
            for buffer, name, body in zip(op.buffers, names, bodies, strict=True)
        )
        rest = tuple(axis for axis in reduce if axis.name != self.iterator)
        return replace(
            op, name=first.buffer.name, buffer=first.buffer, axes=axes, reduce_axes=rest,
            combiner=op.combiner if rest else None, body=first.body, more=tuple(more),
            places=places,
        )  # fmt: skip

    def _axis(self, iterator: Loop) -> Axis:
        return Axis(iterator.name, as_int(iterator.extent), size=iterator.size)

    def _final(self, stage: Stage, partial: ComputeOp) -> ComputeOp:
        indices = tuple(Var(axis.name) for axis in partial.axes)
        factored = next(axis for axis in partial.axes if axis.name == self.iterator)
        first, *more = (
            Output(mine, Load(theirs, indices))
            for mine, theirs in zip(stage.op.buffers, partial.buffers, strict=True)
        )
        return replace(
            stage.op, reduce_axes=(factored,), body=first.body, more=tuple(more), places=()
        )


def _shape(stage: Stage) -> tuple[int, ...]:
    return tuple(axis.extent for axis in stage.op.axes)
