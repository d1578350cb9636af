"""State: a tensor program with its loop structure, and Step: one gene that changes it.

A State is fully determined by its DAG, its steps and the tile lengths chosen for their holes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator as Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn, Self

from ansorc.errors import ScheduleError
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.extent import IntArray, Tiles, text
from ansorc.schedule.stage import At, Iterator, Mark, Root, Stage


@dataclass(frozen=True)
class Step(ABC):
    """One gene: a change to the loops that keeps what is computed.

    Steps name stages and iterators by name, so a record is readable and genes of two programs can
    be combined.
    """

    stage: str

    @abstractmethod
    def apply(self, state: State) -> State:
        """Return the changed state; raise ScheduleError where the step does not fit."""

    def refuse(self, state: State, reason: str) -> NoReturn:
        """Raise the ScheduleError of this step."""
        raise ScheduleError(self, state, reason)

    def require(self, state: State, reason: str, *, condition: bool) -> None:
        """Refuse with `reason` unless `condition` holds."""
        if not condition:
            self.refuse(state, reason)

    def stage_of(self, state: State, name: str | None = None) -> Stage:
        """Return the stage called `name` (default: this step's); refuse if there is none."""
        wanted = self.stage if name is None else name
        found = state.find(wanted)
        if found is None:
            names = ", ".join(f"'{stage.name}'" for stage in state.stages)
            self.refuse(state, f"there is no stage '{wanted}'; the stages are {names}")
        if found.is_inlined:
            self.refuse(state, f"stage '{wanted}' is inlined and has no loops")
        return found

    def place_of(self, state: State, stage: Stage, iterator: str) -> int:
        """Return the position of `iterator` in `stage`; refuse if it has none."""
        place = stage.position(iterator)
        if place is None:
            names = ", ".join(f"'{it.name}'" for it in stage.iterators)
            self.refuse(
                state,
                f"stage '{stage.name}' has no iterator '{iterator}'; it has {names or 'none'}",
            )
        return place

    def unmarked(self, state: State, iterator: Iterator, verb: str) -> None:
        """Refuse if `iterator` already carries a mark."""
        if iterator.mark is not Mark.NONE:
            self.refuse(
                state,
                f"'{iterator.name}' is already marked {iterator.mark.value}; {verb} before that",
            )


@dataclass(frozen=True, eq=False)
class State:
    """The stages of a program, producers first, after `steps`; immutable.

    With holes (lengths that `tiles` does not choose) it is a sketch; with arrays in `tiles` it is
    a whole population of programs at once.
    """

    dag: ComputeDAG
    stages: tuple[Stage, ...]
    steps: tuple[Step, ...] = ()
    tiles: Tiles = field(default_factory=dict[str, IntArray])
    rewritten: tuple[str, ...] = ()
    """The constant inputs whose layout follows the loops of their reader."""

    def then(self, step: Step) -> Self:
        """Return the state after `step`; raise ScheduleError where it does not fit."""
        after = step.apply(self)
        steps = (*self.steps, step)
        return replace(self, stages=after.stages, steps=steps, rewritten=after.rewritten)

    def find(self, name: str) -> Stage | None:
        """Return the stage called `name`, or None."""
        return next((stage for stage in self.stages if stage.name == name), None)

    def stage(self, name: str) -> Stage:
        """Return the stage called `name`; raise KeyError if there is none."""
        found = self.find(name)
        if found is None:
            raise KeyError(name)
        return found

    def unused_name(self, wanted: str) -> str:
        """Return `wanted`, with a number behind it if a stage or input has that name already."""
        taken = {stage.name for stage in self.stages} | {b.name for b in self.dag.inputs}
        name, count = wanted, 1
        while name in taken:
            name, count = f"{wanted}.{count}", count + 1
        return name

    def with_stage(self, new: Stage, *, old: str | None = None) -> State:
        """Return the state with the stage called `old` (default: the same name) replaced."""
        name = new.name if old is None else old
        return replace(self, stages=tuple(new if s.name == name else s for s in self.stages))

    def readers(self, name: str) -> tuple[Stage, ...]:
        """Return the stages, inlined ones left out, whose body loads the tensor `name`."""
        return tuple(stage for stage in self.stages if not stage.is_inlined and _reads(stage, name))

    def attached(self, name: str, iterator: str | None = None) -> tuple[Stage, ...]:
        """Return the stages computed directly inside loops of `name` (at `iterator`, if given)."""
        return tuple(
            stage
            for stage in self.stages
            if isinstance(stage.attach, At)
            and stage.attach.stage == name
            and iterator in (None, stage.attach.iterator)
        )

    def chain(self, stage: Stage) -> list[tuple[Stage, int]]:
        """Return the loops around `stage` as (stage, number of its loops), outermost first."""
        found: list[tuple[Stage, int]] = []
        while isinstance(stage.attach, At):
            outer = self.stage(stage.attach.stage)
            place = outer.position(stage.attach.iterator)
            assert place is not None
            found.insert(0, (outer, place + 1))
            stage = outer
        return found

    def around(self, stage: Stage) -> tuple[Iterator, ...]:
        """Return the iterators of other stages that enclose `stage`, outermost first."""
        return tuple(it for outer, count in self.chain(stage) for it in outer.iterators[:count])

    def __str__(self) -> str:
        lines = [f"{tensor} laid out in the order of its reads" for tensor in self.rewritten]
        for stage in self.stages:
            if isinstance(stage.attach, Root):
                lines.extend(_nest_lines(self, stage, 0))
        return "\n".join(lines)


def _reads(stage: Stage, name: str) -> bool:
    return any(buffer.name == name for buffer in stage.op.reads)


def _nest_lines(state: State, stage: Stage, depth: int) -> Sequence[str]:
    for iterator in stage.iterators:
        mark = f"bind {iterator.thread}" if iterator.mark is Mark.BIND else iterator.mark.value
        yield f"{'  ' * depth}{mark} {iterator.name} in 0..{text(iterator.extent)}"
        depth += 1
        for inner in state.attached(stage.name, iterator.name):
            yield from _nest_lines(state, inner, depth)
    sign = "=" if stage.op.combiner is None else f"{stage.op.combiner.value}="
    yield f"{'  ' * depth}{stage.name} {sign} ..."
