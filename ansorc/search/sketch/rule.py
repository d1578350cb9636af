"""The derivation of sketches: `PartialSketch`, and `SketchRule`, one way to derive further.

Both are after the paper: a partially generated sketch, and the rules of its Table 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from ansorc.lang.compute_op import ComputeOp
from ansorc.schedule.stage import Stage
from ansorc.schedule.state import State, Step
from ansorc.search.sketch.sketch import Application, Choice, RegisterTile, Sketch, TileVariable
from ansorc.target import Target


@dataclass(frozen=True, eq=False)
class PartialSketch:
    """A state with holes, what its holes are, and the stages that no rule has visited yet."""

    state: State
    target: Target
    pending: tuple[str, ...] = ()
    """The stages still to be visited; the last one is next (consumers before producers)."""
    variables: tuple[TileVariable, ...] = ()
    register_tiles: tuple[RegisterTile, ...] = ()
    trace: tuple[str, ...] = ()
    """The rules' actions, in words."""
    derivation: tuple[Application, ...] = ()

    @staticmethod
    def of(sketch: Sketch) -> PartialSketch:
        """Return `sketch` as one without pending stages, to be changed further."""
        return PartialSketch(
            sketch.state, sketch.target, (), sketch.variables,
            sketch.register_tiles, (sketch.name,) if sketch.name else (), sketch.derivation,
        )  # fmt: skip

    def then(self, *steps: Step) -> PartialSketch:
        """Return the sketch after `steps`; raise ScheduleError where one does not fit."""
        state = self.state
        for step in steps:
            state = state.then(step)
        return replace(self, state=state)

    def with_trace(self, words: str) -> PartialSketch:
        """Return the sketch with `words` added to its trace."""
        return replace(self, trace=(*self.trace, words))

    def with_pending(self, stage: str) -> PartialSketch:
        """Return the sketch with `stage` to be visited next."""
        return replace(self, pending=(*self.pending, stage))

    def stage(self, name: str) -> Stage:
        """Return the stage called `name`."""
        return self.state.stage(name)

    def lanes(self, op: ComputeOp) -> int:
        """Return how many elements the machine's vectors hold of the widest type `op` touches."""
        widest = max(buffer.dtype.bytes for buffer in (*op.buffers, *op.reads))
        return max(1, self.target.vector_bytes // widest)

    def sketch(self, choices: tuple[Choice, ...] = ()) -> Sketch:
        """Return it as a finished sketch with `choices`; its steps are not replayed again."""
        sketch = Sketch(
            self.state.dag, self.target, ", ".join(self.trace), self.state.steps,
            self.variables, self.register_tiles, choices, self.derivation,
        )  # fmt: skip
        vars(sketch)["state"] = self.state
        return sketch


def vector_axis(op: ComputeOp) -> int | None:
    """Return the place of the axis that is contiguous in memory: the last longer than 1.

    None if terms are scattered along it: no loop runs over it.
    """
    long = [number for number, axis in enumerate(op.axes) if axis.extent > 1]
    return long[-1] if long and op.axes[long[-1]] in op.loop_axes else None


class Verdict(Enum):
    """The answer of a rule to a stage."""

    SKIP = "skip"
    """The rule does not apply."""
    APPLY = "apply"
    """It applies, and the rules after it are asked as well."""
    APPLY_AND_STOP = "apply and stop"
    """It applies, and no rule after it is asked."""


class SketchRule(Protocol):
    """A derivation rule: a frozen dataclass whose fields are its numbers.

    A field or property `name` is what it is called; without one, the name of its class is.
    """

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether the rule applies to `stage`, which no rule has changed yet."""
        ...

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketches that it makes; `partial.with_pending(…)` asks for another visit."""
        ...


def rule_name(rule: SketchRule) -> str:
    """Return what `rule` is called in derivations and notes."""
    return str(getattr(rule, "name", type(rule).__name__))
