"""ReverseComputeAt: compute a reader inside the loops of what it reads."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansorc.ir.expr import Var
from ansorc.schedule.stage import (
    At,
    AxisKind,
    FuseRelation,
    Loop,
    Mark,
    Root,
    SplitRelation,
    Stage,
    fresh_iterators,
)
from ansorc.schedule.state import State
from ansorc.schedule.steps.location import AtLoop, attach

_INSIDE = (Mark.VECTORIZE, Mark.TENSORIZE, Mark.MATRIX)


@dataclass(frozen=True)
class ReverseComputeAt(AtLoop):
    """Compute the reader of `target` inside a loop of it: what the values there suffice for.

        parallel i.0:                       parallel i.0:
            for i.1: P[i] = …         ->        for i.1: P[i] = …
        for i: C[i] = f(P[i])                   for i.1: C[i] = f(P[i])

    The reader gets a copy of the loops of `target` down to that one, with their marks; the rest of
    the loops of `target` run inside, over what one iteration needs. So this is `compute_at` for
    loops that were divided at the producer. The reader must be the only one, and must read
    `target` at its own place along all axes that these loops move.
    """

    def apply(self, state: State) -> State:
        """Return the state with the reader around its source."""
        stage, target = self.stage_of(state), self.stage_of(state, self.target)
        position = self.position_of(state, target, self.iterator)
        outer, inner = target.iterators[: position + 1], target.iterators[position + 1 :]
        self._check_reader(state, stage, target)
        self._check_target(state, target, outer, inner)
        moved = {part.axis for loop in outer for part in target.parts[loop.name]}
        reader, names = _with_loops(stage, target, outer, self._axes(state, stage, target, moved))
        names |= {loop.name: loop.axis for loop in inner}
        source = replace(target, relations=(), iterators=fresh_iterators(target.op, target.region))
        changed = state.with_stage(reader).with_stage(source)
        for loop in target.iterators:
            owner = reader if loop in outer else source
            for inside in state.stages_inside(target.name, loop.name):
                moved_in = replace(inside, attach=At(owner.name, names[loop.name]))
                changed = changed.with_stage(moved_in)
        where = source, reader, names[self.iterator]
        return attach(self, changed, where, before=state)

    def _check_reader(self, state: State, stage: Stage, target: Stage) -> None:
        readers = state.readers(target.name)
        self.require(
            state, f"'{self.stage}' does not read '{self.target}'", (self.stage, ""),
            (self.target, ""), condition=stage in readers,
        )  # fmt: skip
        others = [reader.name for reader in readers if reader is not stage]
        self.require(
            state, f"'{' and '.join(others)}' reads '{self.target}', too, and would be outside its "
            "loops; use compute_at", *((name, "") for name in others), condition=not others,
        )  # fmt: skip
        self.require_untouched(state, stage, "use reverse_compute_at")
        held = [(inner.name, "") for inner in state.stages_inside(stage.name)]
        self.require(
            state, f"'{self.stage}' is computed inside another stage, or stages inside it; use "
            "reverse_compute_at before that", *(held or [(self.stage, "")]),
            condition=isinstance(stage.attach, Root) and not held,
        )  # fmt: skip

    def _check_target(
        self, state: State, target: Stage, outer: tuple[Loop, ...], inner: tuple[Loop, ...]
    ) -> None:
        self.require(
            state, f"'{target.name}' is an output and must be computed whole", (target.name, ""),
            condition=not target.is_output,
        )  # fmt: skip
        self.require(
            state, f"'{target.name}' is computed inside another stage; use compute_at",
            (target.name, ""), condition=isinstance(target.attach, Root),
        )  # fmt: skip
        for loop in outer:
            self.require(
                state, f"'{target.name}' has no whole results inside '{loop.name}', which is no "
                "loop over results; choose a loop outside it", (target.name, loop.name),
                condition=loop.kind is AxisKind.SPACE,
            )  # fmt: skip
            self.require(
                state, f"'{loop.name}' is {loop.mark.value}d; choose a loop outside it",
                (target.name, loop.name), condition=loop.mark not in _INSIDE,
            )  # fmt: skip
        changed = [(target.name, loop.name) for loop in inner if not _is_last(target, loop)]
        order = [loop.axis for loop in fresh_iterators(target.op, target.region)]
        kept = [loop.axis for loop in inner]
        is_plain = not (target.alignments or target.panel or target.initial)
        is_plain &= kept == [axis for axis in order if axis in kept]
        self.require(
            state, f"the loops of '{target.name}' inside '{self.iterator}' were already changed; "
            "use reverse_compute_at before that", *(changed or [(target.name, "")]),
            condition=is_plain and not changed,
        )  # fmt: skip

    def _axes(self, state: State, stage: Stage, target: Stage, moved: set[str]) -> dict[str, str]:
        """Return the axis of the reader that each of the `moved` axes of `target` is read at."""
        chained = {stage.op.scan_axis, *stage.op.mixed_axes} if stage.op.scan is not None else ()
        lengths = {a.name: a.extent for a in stage.op.loop_axes if a.name not in chained}
        found: dict[str, str] = {}
        loads = [load for load in stage.op.loads if load.buffer in target.op.buffers]
        for position, axis in enumerate(target.op.axes):
            indices = {load.indices[position] for load in loads}
            if axis.name not in moved:
                continue
            own = [each.name for each in indices if isinstance(each, Var)]
            is_own = len(own) == len(indices) == 1 and lengths.get(own[0]) == axis.extent
            self.require(
                state, f"'{self.stage}' reads '{self.target}' along '{axis.name}' elsewhere than "
                "at its own place, so an iteration does not have all that it reads; use "
                "compute_at, which computes what neighbours share again",
                condition=is_own and own[0] not in found.values(),
            )  # fmt: skip
            found[axis.name] = own[0]
        return found


def _is_last(stage: Stage, loop: Loop) -> bool:
    """Return whether an iterator is whole, or the last part of a whole axis, and has no mark."""
    parts = stage.parts[loop.name]
    is_one = len(parts) == 1 and parts[0].is_whole and parts[0].stride == 1
    return is_one and bool(loop.axis) and loop.mark is Mark.NONE


def _with_loops(
    stage: Stage, target: Stage, outer: tuple[Loop, ...], axes: dict[str, str]
) -> tuple[Stage, dict[str, str]]:
    """Return the untouched `stage` with copies of the loops `outer` of `target`, and their names.

    `axes` gives the axis of `stage` for each axis of `target` that they move.
    """
    own = {loop.axis: loop for loop in stage.iterators}
    copies = {axis: own[mine] for axis, mine in axes.items()}
    relations: list[SplitRelation | FuseRelation] = []
    left = dict(own)
    for relation in _ancestors(target, outer):
        if isinstance(relation, SplitRelation):
            copied, made = _copy_split(relation, copies[relation.parent.name])
            names = [child.name for child in relation.children]
            left = {a: made[-1] if copied.parent is loop else loop for a, loop in left.items()}
        else:
            parents = tuple(copies[parent.name] for parent in relation.parents)
            child = replace(relation.child, name="@".join(parent.name for parent in parents))
            copied, made, names = FuseRelation(parents, child), (child,), [relation.child.name]
        relations.append(copied)
        copies |= dict(zip(names, made, strict=True))
    around = tuple(
        replace(copies[loop.name], mark=loop.mark, thread=loop.thread, chunk=loop.chunk)
        for loop in outer
    )
    taken = {loop.name for loop in around} | {
        parent.name for r in relations if isinstance(r, FuseRelation) for parent in r.parents
    }
    rest = tuple(left[loop.axis] for loop in stage.iterators if left[loop.axis].name not in taken)
    names = {old.name: new.name for old, new in zip(outer, around, strict=True)}
    return replace(stage, iterators=(*around, *rest), relations=tuple(relations)), names


def _copy_split(relation: SplitRelation, parent: Loop) -> tuple[SplitRelation, tuple[Loop, ...]]:
    """Return the same split of `parent`, and its parts."""
    children = tuple(
        Loop(f"{parent.name}.{level}", child.extent, parent.kind, parent.axis, child.level)
        for level, child in enumerate(relation.children)
    )
    return SplitRelation(parent, children, relation.is_exact), children


def _ancestors(stage: Stage, loops: tuple[Loop, ...]) -> list[SplitRelation | FuseRelation]:
    """Return the relations that the iterators `loops` come from, in the order they were made."""
    wanted = {loop.name for loop in loops}
    found: list[SplitRelation | FuseRelation] = []
    for relation in reversed(stage.relations):
        is_split = isinstance(relation, SplitRelation)
        made = relation.children if is_split else (relation.child,)
        if any(loop.name in wanted for loop in made):
            wanted |= {loop.name for loop in ((relation.parent,) if is_split else relation.parents)}
            found.insert(0, relation)
    return found
