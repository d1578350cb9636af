"""The kernels of a sketch as sketches of their own.

Kernels run one after another, and nothing that one of them does changes the time of another. So
each is searched by itself, and those that several sketches have in common once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ansorc.schedule.extent import Hole, HoleProduct, TileLength
from ansorc.schedule.stage import Stage
from ansorc.schedule.state import Step
from ansorc.schedule.steps import (
    CacheRead,
    CacheWrite,
    ComputeInline,
    Redefine,
    RFactor,
    Split,
)
from ansorc.search.gpu.kernels import kernels_of
from ansorc.search.sketch.sketch import Sketch


def kernel_sketches(sketch: Sketch) -> tuple[Sketch, ...]:
    """Return a sketch for each kernel of `sketch`, in the order in which they are launched.

    It has the steps that make the stages of the kernel what they are in `sketch`, and their genes.
    """
    kernels = kernels_of(sketch.state)
    if len(kernels) == 1:
        return (sketch,)
    slicing = _Slicing(sketch)
    return tuple(slicing.kernel(kernel.stages) for kernel in kernels)


@dataclass(frozen=True, eq=False)
class _Slicing:
    """Finds the steps of a sketch that some of its stages need."""

    sketch: Sketch

    def kernel(self, stages: Sequence[Stage]) -> Sketch:
        """Return the sketch of a kernel that computes `stages`."""
        sketch, names = self.sketch, tuple(stage.name for stage in stages)
        steps = self._steps(stages)
        holes = {name for step in steps for name in _variables_in(step)}
        return Sketch(
            sketch.dag, sketch.target, f"{sketch.name}: {names[-1]}", steps,
            tuple(variable for variable in sketch.variables if variable.name in holes),
            tuple(tile for tile in sketch.register_tiles if tile.stage in names),
            tuple(choice for choice in sketch.choices if choice.stage in names),
            sketch.derivation, names,
        )  # fmt: skip

    @cached_property
    def _made_stages(self) -> tuple[str, ...]:
        """The stage that each step makes, as `State.fresh_name` calls it; empty for none."""
        dag = self.sketch.dag
        taken = {buffer.name for buffer in dag.inputs} | {
            b.name for op in dag.ops for b in op.buffers
        }
        made: list[str] = []
        for step in self.sketch.steps:
            name = wanted = _wanted_name(step)
            count = 1
            while name in taken:
                name, count = f"{wanted}.{count}", count + 1
            taken |= {name} if name else set()
            made.append(name)
        return tuple(made)

    def _steps(self, stages: Sequence[Stage]) -> tuple[Step, ...]:
        """Return the steps without which `stages` would be others, in their order."""
        needs = _Needs({stage.name for stage in stages}, self._inlined_in(stages))
        kept = [
            step
            for step, made in zip(
                reversed(self.sketch.steps), reversed(self._made_stages), strict=True
            )
            if needs.take(step, made)
        ]
        return tuple(reversed(kept))

    def _inlined_in(self, stages: Sequence[Stage]) -> set[str]:
        """Return the computations that are inlined in `stages`, one in another or directly."""
        dag = self.sketch.dag
        inlined = {step.stage for step in self.sketch.steps if isinstance(step, ComputeInline)}
        makers = {buffer.name: op for op in dag.ops for buffer in op.buffers}
        ops = {op.name: op for op in dag.ops}
        waiting, seen = [stage.origin.node for stage in stages], set[str]()
        while waiting:
            for buffer in ops[waiting.pop()].reads:
                maker = makers.get(buffer.name)
                if maker is not None and maker.name in inlined and maker.name not in seen:
                    seen.add(maker.name)
                    waiting.append(maker.name)
        return seen


@dataclass
class _Needs:
    """What the steps that are looked at next, from the last to the first, are needed for."""

    stages: set[str]
    """Stages that must come to be as they are."""
    inlined: set[str]
    """Stages that are inlined in these."""
    present: set[str] = field(default_factory=set[str])
    """Stages that must only be there, for a step that names them or for the names of later ones."""

    def take(self, step: Step, made: str) -> bool:
        """Return whether `step`, which makes the stage `made`, is needed; note what it needs."""
        if isinstance(step, ComputeInline):
            return step.stage in self.inlined
        if isinstance(step, Redefine):
            return self._take_stages_of(step.stage)
        if not made:
            return step.stage in self.stages
        if isinstance(step, CacheRead):
            return self._take_copy(step, made)
        if {made, step.stage} & self.stages or made in self.present:
            self.stages = (self.stages - {made}) | {step.stage}
            self.present |= _earlier_names(step, made)
            return True
        return False

    def _take_stages_of(self, stage: str) -> bool:
        """Return whether another definition of `stage` makes a stage that is needed."""
        made = {name for name in self.stages if name == stage or name.startswith(f"{stage}.")}
        self.stages = (self.stages - made) | ({stage} if made else set())
        return bool(made)

    def _take_copy(self, step: CacheRead, made: str) -> bool:
        is_needed = made in self.stages | self.present or self.stages & {*step.readers}
        if is_needed:
            self.stages -= {made}
            self.present |= {*step.readers} | _earlier_names(step, made)
        return bool(is_needed)


def _wanted_name(step: Step) -> str:
    """Return the name that the stage which `step` makes should have; empty if it makes none."""
    match step:
        case CacheRead() | CacheWrite():
            return f"{step.stage}.{step.scope}"
        case RFactor():
            return f"{step.stage}.rf"
        case _:
            return ""


def _earlier_names(step: Step, made: str) -> set[str]:
    """Return the names before `made` that stages have of which the same was wanted."""
    wanted = _wanted_name(step)
    count = 0 if made == wanted else int(made.removeprefix(f"{wanted}."))
    return {wanted if number == 0 else f"{wanted}.{number}" for number in range(count)}


def _variables_in(step: Step) -> Iterator[str]:
    """Yield the tile variables that a step has lengths of."""
    for length in step.lengths if isinstance(step, Split) else ():
        yield from _variables_of(length)


def _variables_of(length: TileLength) -> Iterator[str]:
    if isinstance(length, Hole):
        yield length.variable
    elif isinstance(length, HoleProduct):
        yield from (hole.variable for hole in length.holes)
