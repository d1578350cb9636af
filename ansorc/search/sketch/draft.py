"""Draft: a sketch on its way through the derivation rules."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansorc.lang.compute_op import ComputeOp
from ansorc.schedule.stage import Stage
from ansorc.schedule.state import State, Step
from ansorc.search.sketch.sketch import Application, RegisterTile, Sketch, TileVariable
from ansorc.target import Target


@dataclass(frozen=True, eq=False)
class Draft:
    """A state with holes, what its holes are, and the stages that no rule has visited yet."""

    state: State
    target: Target
    pending: tuple[str, ...] = ()
    """The stages still to be visited; the last one is next (consumers before producers)."""
    variables: tuple[TileVariable, ...] = ()
    register_tiles: tuple[RegisterTile, ...] = ()
    trace: tuple[str, ...] = ()
    """What the rules did, in words."""
    derivation: tuple[Application, ...] = ()

    @staticmethod
    def of(sketch: Sketch) -> Draft:
        """Return `sketch` as a draft without pending stages, to be changed further."""
        return Draft(
            sketch.state, sketch.target, (), sketch.variables,
            sketch.register_tiles, (sketch.name,) if sketch.name else (), sketch.derivation,
        )  # fmt: skip

    def then(self, *steps: Step) -> Draft:
        """Return the draft after `steps`; raise ScheduleError where one does not fit."""
        state = self.state
        for step in steps:
            state = state.then(step)
        return replace(self, state=state)

    def saying(self, words: str) -> Draft:
        """Return the draft with `words` added to its trace."""
        return replace(self, trace=(*self.trace, words))

    def visiting(self, stage: str) -> Draft:
        """Return the draft with `stage` to be visited next."""
        return replace(self, pending=(*self.pending, stage))

    def stage(self, name: str) -> Stage:
        """Return the stage called `name`."""
        return self.state.stage(name)

    def lanes(self, op: ComputeOp) -> int:
        """Return how many elements the machine's vectors hold of the widest type `op` touches."""
        widest = max(buffer.dtype.bytes for buffer in (*op.buffers, *op.reads))
        return max(1, self.target.vector_bytes // widest)

    def sketch(self) -> Sketch:
        """Return the draft as a finished sketch without choices."""
        return Sketch(
            self.state.dag, self.target, ", ".join(self.trace), self.state.steps,
            self.variables, self.register_tiles, derivation=self.derivation,
        )  # fmt: skip


def vector_axis(op: ComputeOp) -> int | None:
    """Return the place of the axis that is contiguous in memory: the last longer than 1."""
    long = [place for place, axis in enumerate(op.axes) if axis.extent > 1]
    return long[-1] if long else None
