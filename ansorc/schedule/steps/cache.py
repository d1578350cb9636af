"""CacheWrite and CacheRead: compute or keep a tensor in a buffer of its own near its use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansorc.errors import Spot
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Load, Var
from ansorc.lang.compute_op import Axis, ComputeOp, Output
from ansorc.schedule.bounds import settle
from ansorc.schedule.stage import Making, Origin, Root, Stage, initial_stage
from ansorc.schedule.state import Renaming, State, Step

SCOPES = ("local", "shared", "global")


@dataclass(frozen=True)
class CacheWrite(Step):
    """Compute a tensor into `<stage>.<scope>`, and copy it from there.

    for i: for k: C[i] += A[i, k]   ->   for i: for k: C.local[i] += A[i, k]
                                         for i: C[i] = C.local[i]
    """

    keeps_arrays = False

    scope: str

    def apply(self, state: State) -> State:
        """Return the state with the computing stage put before the copying one."""
        stage = self.stage_of(state)
        _check_scope(self, state, self.scope)
        self.require_untouched(state, stage, "use cache_write")
        inside = [(inner.name, "") for inner in state.stages_inside(stage.name)]
        self.require(
            state, "stages are computed inside its loops; use cache_write before that",
            *inside, condition=not inside,
        )  # fmt: skip
        self.require(
            state, f"'{self.stage}' is computed inside another stage; use cache_write before that",
            condition=isinstance(stage.attach, Root),
        )  # fmt: skip
        op = stage.op
        names = [state.fresh_name(f"{buffer.name}.{self.scope}") for buffer in op.buffers]
        made = op.part if op.overwrites else op
        cached = [replace(b, name=name) for b, name in zip(made.buffers, names, strict=True)]
        work = made.with_buffers(cached)
        copy = replace(_copy_op(op.buffers, op.axes, cached), overwrites=op.overwrites)
        origin = Origin(stage.origin.node, Making.CACHE_WRITE, stage.name)
        new = (
            replace(initial_stage(work, origin, is_output=False), scope=self.scope),
            initial_stage(copy, stage.origin, is_output=stage.is_output),
        )
        position = state.stages.index(stage)
        stages = (*state.stages[:position], *new, *state.stages[position + 1 :])
        return settle(replace(state, stages=stages), self, state)


@dataclass(frozen=True)
class CacheRead(Step):
    """Copy the tensor called `stage` into `<stage>.<scope>`, which `readers` then read.

        for i: C[i] = A[i] + 1   ->   for i: A.local[i] = A[i]
                                      for i: C[i] = A.local[i] + 1

    If the copy is computed at a loop of a reader, it packs the region that the loop needs.
    """

    keeps_arrays = False

    scope: str
    readers: tuple[str, ...]

    def rename(self, names: Renaming) -> CacheRead:
        """Return the step with the tensor and its readers renamed as in `names.target`."""
        readers = tuple(names.stage(self, reader) for reader in self.readers)
        return replace(self, stage=names.tensor(self.stage), readers=readers)

    def apply(self, state: State) -> State:
        """Return the state with the copying stage put before the first reader."""
        _check_scope(self, state, self.scope, *((name, "") for name in self.readers))
        self.require(state, "name one reader or more", condition=bool(self.readers))
        readers = [self.stage_of(state, name) for name in self.readers]
        source = self._source(state, readers)
        name = state.fresh_name(f"{self.stage}.{self.scope}")
        sizes = source.sizes or (None,) * len(source.shape)
        axes = tuple(
            Axis(f"ax{position}", extent, size=size)
            for position, (extent, size) in enumerate(zip(source.shape, sizes, strict=True))
        )
        buffer = Buffer(name, source.shape, source.dtype, sizes=source.sizes)
        copy = _copy_op([buffer], axes, [source])
        changed = state
        for reader in readers:
            changed = changed.with_stage(replace(reader, op=reader.op.reading(source, buffer)))
        position = min(state.stages.index(reader) for reader in readers)
        origin = Origin(readers[0].origin.node, Making.CACHE_READ, self.stage)
        new = replace(initial_stage(copy, origin, is_output=False), scope=self.scope)
        stages = (*changed.stages[:position], new, *changed.stages[position:])
        return settle(replace(changed, stages=stages), self, state)

    def _source(self, state: State, readers: list[Stage]) -> Buffer:
        known = [b for stage in state.stages if not stage.is_inlined for b in stage.op.buffers]
        source = next((b for b in (*state.inputs, *known) if b.name == self.stage), None)
        if source is None:
            self.refuse(
                state, f"there is no tensor '{self.stage}' to read",
                *((reader.name, "") for reader in readers),
            )  # fmt: skip
        for reader in readers:
            if all(buffer.name != self.stage for buffer in reader.op.reads):
                self.refuse(
                    state, f"'{reader.name}' does not read '{self.stage}'", (reader.name, "")
                )
        return source


def _check_scope(step: Step, state: State, scope: str, *spots: Spot) -> None:
    known = ", ".join(f"'{name}'" for name in SCOPES)
    step.require(
        state, f"there is no memory scope '{scope}'; use {known}", *spots,
        condition=scope in SCOPES,
    )  # fmt: skip


def _copy_op(
    buffers: Sequence[Buffer], axes: tuple[Axis, ...], sources: Sequence[Buffer]
) -> ComputeOp:
    """Return the computation of each of `buffers` as a copy of one of `sources`."""
    indices = tuple(Var(axis.name) for axis in axes)
    first, *more = (
        Output(buffer, Load(source, indices))
        for buffer, source in zip(buffers, sources, strict=True)
    )
    return ComputeOp(
        name=first.buffer.name, buffer=first.buffer, axes=axes, reduce_axes=(), combiner=None,
        body=first.body, more=tuple(more),
    )  # fmt: skip
