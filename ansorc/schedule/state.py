"""State: a tensor program with its loop structure, and Step: one gene that changes it.

A State is fully determined by its DAG, its steps and the tile lengths chosen for their holes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import ClassVar, NoReturn, Self, TypeAlias

from ansorc.errors import ArgumentError, ScheduleError, Spot
from ansorc.ir import notebook
from ansorc.ir.buffer import Buffer
from ansorc.ir.transform import Transform, transform_buffer
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.extent import IntArray, Tiles
from ansorc.schedule.in_place import Writing, find_writings
from ansorc.schedule.picture import details, loop_lines, picture
from ansorc.schedule.stage import At, Loop, Mark, Origin, Stage


@dataclass(frozen=True)
class Step(ABC):
    """One gene: a change to the loops that keeps what is computed.

    Steps name stages and iterators by name, so a record is readable and genes of two programs can
    be combined.
    """

    stage: str
    keeps_arrays: ClassVar[bool] = True
    """Whether the stage stays a whole array of its own, as it was."""

    @abstractmethod
    def apply(self, state: State) -> State:
        """Return the changed state; raise ScheduleError where the step does not fit."""

    def fields(self) -> dict[str, object]:
        """Return the fields by name, without those that have their default value."""
        pairs = ((field, getattr(self, field.name)) for field in fields(self))
        return {field.name: value for field, value in pairs if value != field.default}

    def rename(self, names: Renaming) -> Self:
        """Return the step with its stage and iterators renamed as in `names.target`.

        Raise ScheduleError if `names.source` does not have them.
        """
        changes: dict[str, object] = {"stage": names.stage(self, self.stage)}
        for name in ("iterator", "iterators", "order"):
            value = getattr(self, name, None)
            if value is not None:
                changes[name] = names.loops(self, self.stage, value)
        return replace(self, **changes)

    def concerns(self, loop: str) -> bool:
        """Return whether the step names or made the iterator `loop`; "" means the whole stage."""
        if not loop:
            return not any(hasattr(self, name) for name in ("iterator", "iterators", "order"))
        values = (getattr(self, name, ()) for name in ("iterator", "iterators", "made"))
        return any(loop in ((value,) if isinstance(value, str) else value) for value in values)

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.fields().items())
        return f"{type(self).__name__}({given})"

    def refuse(self, state: State, reason: str, *spots: Spot) -> NoReturn:
        """Raise the ScheduleError of this step, with `spots` (default: its stage) marked."""
        raise ScheduleError(self, state, reason, spots or ((self.stage, ""),))

    def require(self, state: State, reason: str, *spots: Spot, condition: bool) -> None:
        """Refuse with `reason`, and `spots` marked, unless `condition` holds."""
        if not condition:
            self.refuse(state, reason, *spots)

    def stage_of(self, state: State, name: str | None = None) -> Stage:
        """Return the stage called `name` (default: this step's); refuse if there is none."""
        wanted = self.stage if name is None else name
        named = state.find(wanted)
        if named is None:
            names = ", ".join(f"'{stage.name}'" for stage in state.stages)
            self.refuse(state, f"there is no stage '{wanted}'; the stages are {names}")
        if named.is_inlined:
            self.refuse(state, f"stage '{wanted}' is inlined and has no loops", (wanted, ""))
        if named.op.c_call is not None:
            self.refuse(
                state, f"'{wanted}' is computed as a whole by the C function "
                f"'{named.op.c_call.function.name}', so no step changes it; schedule its readers "
                "and what it reads", (wanted, ""),
            )  # fmt: skip
        return named

    def position_of(self, state: State, stage: Stage, iterator: str) -> int:
        """Return the position of `iterator` in `stage`; refuse if it has none."""
        position = stage.position(iterator)
        if position is None:
            names = ", ".join(f"'{it.name}'" for it in stage.iterators)
            self.refuse(
                state,
                f"stage '{stage.name}' has no iterator '{iterator}'; it has {names or 'none'}",
                (stage.name, ""),
            )
        return position

    def require_untouched(self, state: State, stage: Stage, verb: str) -> None:
        """Refuse if a step has divided, joined or marked the loops of `stage`."""
        changed = ((stage.name, iterator.name) for iterator in stage.changed_loops())
        self.require(
            state,
            f"the loops of '{stage.name}' were already changed; {verb} before that",
            *changed,
            condition=not stage.is_shaped,
        )

    def require_even(self, state: State, stage: Stage, iterator: Loop, verb: str) -> None:
        """Refuse if `iterator` runs over a range that is data."""
        self.require(
            state, f"'{iterator.name}' runs over a range that is data, of another length for each "
            f"row, so it cannot be {verb}", (stage.name, iterator.name),
            condition=not stage.is_ragged(iterator),
        )  # fmt: skip

    def require_unmarked(self, state: State, iterator: Loop, verb: str) -> None:
        """Refuse if `iterator` of this step's stage already carries a mark."""
        self._require_no_mark(
            state, iterator, f"is already marked {iterator.mark.value}; {verb} before that"
        )

    def require_markable(self, state: State, iterator: Loop) -> None:
        """Refuse to mark `iterator` of this step's stage if it is marked already."""
        words = f"is already marked {iterator.mark.value}, and a loop has one mark"
        self._require_no_mark(state, iterator, words)

    def _require_no_mark(self, state: State, iterator: Loop, words: str) -> None:
        if iterator.mark is not Mark.NONE:
            self.refuse(state, f"'{iterator.name}' {words}", (self.stage, iterator.name))


RegionKey: TypeAlias = tuple[str, str, int, bool]
"""A stage, the stage in whose first loops it is read, how many these are, and `is_shared`."""
Regions: TypeAlias = dict[RegionKey, object]
_OF_STAGES = ("regions", "_by_name", "_read_by", "_made_by")
"""What a state knows of its stages alone."""


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
    transformed: tuple[tuple[str, tuple[Transform, ...]], ...] = ()
    """The constant inputs that are transformed before they are laid out, and how."""

    def then(self, step: Step) -> Self:
        """Return the state after `step`; raise ScheduleError where it does not fit."""
        _refuse_beside_c_calls(step, self)
        after = step.apply(self)
        steps = (*self.steps, step)
        made = replace(
            self, stages=after.stages, steps=steps, rewritten=after.rewritten,
            transformed=after.transformed,
        )  # fmt: skip
        vars(made).update({key: vars(after)[key] for key in _OF_STAGES if key in vars(after)})
        return made

    def find(self, name: str) -> Stage | None:
        """Return the stage called `name`, or None."""
        return self._by_name.get(name)

    @cached_property
    def regions(self) -> Regions:
        """A cache of results of `ansorc.schedule.bounds.region` for this state.

        A step that changes one stage keeps what does not depend on it, so a program of many stages
        does not compute all regions again for each step.
        """
        return {}

    @cached_property
    def writings(self) -> dict[str, Writing]:
        """Where the results of stages that update inputs are stored."""
        return find_writings(self.stages)

    @cached_property
    def _by_name(self) -> Mapping[str, Stage]:
        return {stage.name: stage for stage in self.stages}

    def stage(self, name: str) -> Stage:
        """Return the stage called `name`; raise ArgumentError if there is none."""
        is_text = isinstance(name, str)  # pyright: ignore[reportUnnecessaryIsInstance]
        named = self.find(name) if is_text else None
        if named is None:
            known = ", ".join(f"'{stage.name}'" for stage in self.stages)
            raise ArgumentError(f"there is no stage {name!r}; the stages are {known}")
        return named

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        """The inputs as the stages read them, some transformed."""
        transforms = dict(self.transformed)
        return tuple(transform_buffer(b, transforms.get(b.name, ())) for b in self.dag.inputs)

    def fresh_name(self, wanted: str) -> str:
        """Return `wanted`, with a number appended if a stage or input already has that name."""
        taken = {buffer.name for stage in self.stages for buffer in stage.op.buffers}
        taken |= {buffer.name for buffer in self.dag.inputs}
        name, count = wanted, 1
        while name in taken:
            name, count = f"{wanted}.{count}", count + 1
        return name

    def beyond(self, earlier: State) -> tuple[Stage, ...]:
        """Return the stages that `earlier` did not have, producers first."""
        known = {stage.name for stage in earlier.stages}
        return tuple(stage for stage in self.stages if stage.name not in known)

    def origins(self, stage: Stage) -> Iterator[Origin]:
        """Yield the origin of `stage`, then of the stage that it was derived from, and so on."""
        current: Stage | None = stage
        while current is not None:
            yield current.origin
            current = self.find(current.origin.source)

    def with_stage(self, new: Stage, *, old: str | None = None) -> State:
        """Return the state with the stage called `old` (default: the same name) replaced."""
        name = new.name if old is None else old
        made = replace(self, stages=tuple(new if s.name == name else s for s in self.stages))
        known = self.find(name)
        if known is not None and known.op is new.op and known.is_inlined == new.is_inlined:
            kept = vars(made)
            kept |= {key: vars(self)[key] for key in ("_read_by", "_made_by") if key in vars(self)}
            kept["_by_name"] = {**self._by_name, name: new}
            if regions := vars(self).get("regions"):
                kept["regions"] = self._regions_beside(regions, name)
        return made

    def _regions_beside(self, regions: Mapping[RegionKey, object], name: str) -> Regions:
        """Return the regions that do not depend on the stage `name`.

        Those that do are its own, those of all that is computed for it, and those in its loops.
        """
        affected, waiting = {name}, [name]
        while waiting:
            for buffer in self.stage(waiting.pop()).op.reads:
                source = self._made_by.get(buffer.name)
                if source is not None and source not in affected:
                    affected.add(source)
                    waiting.append(source)
        return {
            key: found
            for key, found in regions.items()
            if key[0] not in affected and key[1] not in affected
        }

    def readers(self, name: str) -> tuple[Stage, ...]:
        """Return the stages, without inlined ones, that read the result of the stage `name`.

        If no stage has that name, return the stages that read the tensor `name`.
        """
        source = self.find(name)
        if source is None or len(source.op.buffers) == 1:
            read = self._read_by.get(name if source is None else source.op.buffer.name, ())
            return tuple(self._by_name[reader] for reader in read)
        names = {s for b in source.op.buffers for s in self._read_by.get(b.name, ())}
        return tuple(stage for stage in self.stages if stage.name in names)

    @cached_property
    def _read_by(self) -> Mapping[str, tuple[str, ...]]:
        """The stages that read each tensor, without inlined ones."""
        readers: dict[str, list[str]] = {}
        for stage in self.stages:
            for buffer in () if stage.is_inlined else stage.op.reads:
                readers.setdefault(buffer.name, []).append(stage.name)
        return {name: tuple(stages) for name, stages in readers.items()}

    @cached_property
    def _made_by(self) -> Mapping[str, str]:
        """The stage that computes each tensor."""
        return {buffer.name: stage.name for stage in self.stages for buffer in stage.op.buffers}

    def source(self, tensor: str) -> Stage | None:
        """Return the stage that computes `tensor`, or None."""
        return next((s for s in self.stages if any(b.name == tensor for b in s.op.buffers)), None)

    def stages_inside(self, name: str, iterator: str | None = None) -> tuple[Stage, ...]:
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
        loops: list[tuple[Stage, int]] = []
        while isinstance(stage.attach, At):
            outer = self.stage(stage.attach.stage)
            position = outer.position(stage.attach.iterator)
            assert position is not None
            loops.insert(0, (outer, position + 1))
            stage = outer
        return loops

    def root(self, stage: Stage) -> Stage:
        """Return the outermost stage in whose loops `stage` is computed, maybe itself."""
        while isinstance(stage.attach, At):
            stage = self.stage(stage.attach.stage)
        return stage

    def around(self, stage: Stage) -> tuple[tuple[Stage, Loop], ...]:
        """Return the iterators of other stages that enclose `stage`, outermost first."""
        return tuple(
            (outer, iterator)
            for outer, count in self.chain(stage)
            for iterator in outer.iterators[:count]
        )

    def picture(self, spots: Sequence[Spot]) -> str:
        """Return the loops with `spots` marked; inlined stages are shown only if marked."""
        return picture(self.stages, spots)

    def details(self) -> str:
        """Return the loops with the value of each stage, and what is held in memory where."""
        return "\n".join((*self._notes(), *details(self.stages)))

    def __str__(self) -> str:
        return "\n".join((*self._notes(), *(text for text, _ in loop_lines(self.stages))))

    def _notes(self) -> list[str]:
        notes = [f"{tensor} transformed before" for tensor, _ in self.transformed]
        notes += [f"{tensor} laid out in the order of its reads" for tensor in self.rewritten]
        for name, writing in self.writings.items():
            op = self.stage(name).op
            for load, buffer in zip(op.overwrites, op.buffers, strict=True):
                notes.append(f"{load.buffer.name} updated by {buffer.name}, {writing.value}")
        return notes

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.dag!r}: {len(self.steps)} steps>"

    def _repr_html_(self) -> str:
        """Return the loops as HTML; hovering over a line shows the steps that made it."""
        lines = [(text, self._history(*spot)) for text, spot in loop_lines(self.stages)]
        return notebook.frame(f"{len(self.steps)} steps", notebook.code(lines))

    def _history(self, stage: str, loop: str) -> str:
        """Return the stage and the steps that name or made its loop `loop` ("": the body)."""
        steps = [str(step) for step in self.steps if step.stage == stage and step.concerns(loop)]
        return "\n".join((f"stage {stage}" + (f", loop {loop}" if loop else ""), *steps))


@dataclass(frozen=True, eq=False)
class Renaming:
    """Two states of one structure, `target` under other names than `source`."""

    source: State
    target: State

    def stage(self, step: Step, name: str) -> str:
        """Return the new name of the stage `name`; `step` refuses an unknown one."""
        stage = step.stage_of(self.source, name)
        return self.target.stages[self.source.stages.index(stage)].name

    def loops(self, step: Step, stage: str, names: str | tuple[str, ...]) -> str | tuple[str, ...]:
        """Return the new name of an iterator of `stage`, or of each of several."""
        if not isinstance(names, str):
            return tuple(str(self.loops(step, stage, name)) for name in names)
        renamed = step.stage_of(self.source, stage)
        there = self.target.stages[self.source.stages.index(renamed)]
        return there.iterators[step.position_of(self.source, renamed, names)].name

    def axis(self, step: Step, stage: str, name: str) -> str:
        """Return the new name of an axis of `stage`; `name` itself if it is not an axis."""
        source = step.stage_of(self.source, stage)
        there = self.target.stages[self.source.stages.index(source)]
        axes = zip(source.op.axes, there.op.axes, strict=True)
        return next((new.name for axis, new in axes if axis.name == name), name)

    def tensor(self, name: str) -> str:
        """Return the new name of an input or computed tensor; `name` itself if unknown."""
        pairs = [(self.source.dag.inputs, self.target.dag.inputs)]
        stages = zip(self.source.stages, self.target.stages, strict=True)
        pairs += [(stage.op.buffers, there.op.buffers) for stage, there in stages]
        names = (
            new.name
            for buffers, there in pairs
            for buffer, new in zip(buffers, there, strict=True)
            if buffer.name == name
        )
        return next(names, name)


def _refuse_beside_c_calls(step: Step, state: State) -> None:
    """Refuse a step that changes, or takes away, an array that a C function gets."""
    if step.keeps_arrays:
        return
    for reader in state.stages:
        call = reader.op.c_call
        if call is not None and any(buffer.name == step.stage for buffer in reader.op.reads):
            step.refuse(
                state, f"the C function '{call.function.name}' of '{reader.name}' gets the array "
                f"of '{step.stage}', which this step would change or take away",
                (reader.name, ""),
            )  # fmt: skip
