"""Sketch: the structure of a program, with tile lengths and a few choices left open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.extent import Tiles
from ansorc.schedule.names import Names
from ansorc.schedule.schedule import Schedule, replay
from ansorc.schedule.state import State, Step
from ansorc.schedule.steps import Fuse, Parallelize, Pragma
from ansorc.target import Target


@dataclass(frozen=True)
class TileVariable:
    """How one axis is tiled: a tuple (l_0, …, l_levels-1), outermost first, product `extent`.

    The product is larger where l_levels-1 is one of `ragged`.
    """

    name: str
    """`stage.axis`, e.g. `C.local.i`."""
    extent: int
    levels: int
    innermost_limit: int
    """The largest l_levels-1."""
    lanes: int = 0
    """Lanes of the native vectors that run over the innermost level; 0 where none do."""
    ragged: tuple[int, ...] = ()
    """Innermost lengths that may be chosen though they do not divide the extent."""
    whole: int | None = None
    """The level that holds the whole axis, if a hint says so: nothing is left to choose."""
    stage: str = ""
    """The stage whose axis it is; "" is the first one that it divides."""
    axis: str = ""
    """The axis of that stage."""
    limits: tuple[int, ...] = ()
    """For GPUs: the largest length of each inner level, none of which has to divide the extent."""
    is_exact: bool = False
    """Whether they are to divide it, though, where it has divisors."""


@dataclass(frozen=True)
class RegisterTile:
    """The innermost level of a tiled stage: all of it is computed in registers at once."""

    stage: str
    variables: tuple[str, ...]
    """The tile variables of its axes; their innermost lengths multiply to the tile."""
    iterators: tuple[str, ...]
    """The innermost loops, one for each variable."""
    vector: int
    """Which of them is vectorised, in the lanes of its variable; the others are unrolled."""


@dataclass(frozen=True)
class Application:
    """One step of a derivation: a rule was applied to a stage."""

    rule: str
    stage: str
    step_count: int
    """The length of `Sketch.steps` up to there: `replay` of so many gives the state after it."""
    is_own: bool = False
    """Whether the rule is one of a user's."""


@dataclass(frozen=True)
class ParallelLoops:
    """A choice: how many of the outermost loops of a root stage are fused and run in parallel."""

    stage: str
    iterators: tuple[str, ...]
    """The loops that may be parallel, outermost first."""
    chunk: int = 0
    """Iterations that a thread takes at a time, where they differ in cost; 0: equal shares."""

    @property
    def name(self) -> str:
        """The name of the column: `parallel:stage`."""
        return f"parallel:{self.stage}"

    @property
    def values(self) -> tuple[int, ...]:
        """0 for none, up to all of the loops."""
        return tuple(range(len(self.iterators) + 1))

    def steps(self, value: int) -> tuple[Step, ...]:
        """Return the steps that make the first `value` loops parallel."""
        chosen = self.iterators[:value]
        sharing = ("dynamic", self.chunk) if self.chunk else ("static", 1)
        if len(chosen) < 2:
            return tuple(Parallelize(self.stage, iterator, *sharing) for iterator in chosen)
        fuse = Fuse(self.stage, chosen)
        return (fuse, Parallelize(self.stage, fuse.made, *sharing))


@dataclass(frozen=True)
class UnrollLimit:
    """A choice: up to how many copies of its body the inner loops of a stage are unrolled."""

    stage: str
    values: tuple[int, ...]

    @property
    def name(self) -> str:
        """The name of the column: `unroll:stage`."""
        return f"unroll:{self.stage}"

    def steps(self, value: int) -> tuple[Step, ...]:
        """Return the step that sets the limit; none for 0, which is what a stage begins with."""
        if value == 0:
            return ()
        return (Pragma(self.stage, "auto_unroll_max_step", value),)


Choice: TypeAlias = ParallelLoops | UnrollLimit


@dataclass(frozen=True, eq=False)
class Sketch:
    """A program with holes.

    `steps` hold the whole loop structure, with Holes for the lengths of `variables` and with the
    marks that are the same in all its programs. The values of `choices` add the rest.
    """

    dag: ComputeDAG
    target: Target
    name: str
    """The rules that made it, in order, e.g. `cache write C, tile C.local fused at 1`."""
    steps: tuple[Step, ...]
    variables: tuple[TileVariable, ...] = ()
    register_tiles: tuple[RegisterTile, ...] = ()
    choices: tuple[Choice, ...] = ()
    derivation: tuple[Application, ...] = ()
    """The rules that were applied, from the outputs to the inputs."""
    stages: tuple[str, ...] = ()
    """The stages of a sketch that is a part of another one; empty: it is whole."""

    @cached_property
    def state(self) -> State:
        """The State after `steps`, without lengths for the holes."""
        return self.replay({})

    def replay(self, tiles: Tiles) -> Schedule:
        """Return the State after `steps` with the lengths that `tiles` has for the holes."""
        return self.without_others(replay(self.dag, self.steps, tiles))

    def without_others(self, state: Schedule) -> Schedule:
        """Return the State after `steps` without the stages that are not of this part."""
        if not self.stages:
            return state
        return replace(state, stages=tuple(s for s in state.stages if s.name in self.stages))

    @cached_property
    def names(self) -> Names:
        """Translates the steps of its programs to canonical names, for records."""
        return Names(self.dag)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the genes: first the tile variables, then the choices."""
        return tuple(gene.name for gene in (*self.variables, *self.choices))

    def annotate(self, values: Mapping[str, int]) -> tuple[Step, ...]:
        """Return the steps that come after `steps` for the choices made, by choice name."""
        return tuple(s for choice in self.choices for s in choice.steps(values[choice.name]))
