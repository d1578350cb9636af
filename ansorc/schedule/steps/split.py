"""Split: divide one iterator into nested ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansorc.ir import dim
from ansorc.schedule.bounds import settle
from ansorc.schedule.extent import TileLength, divide_up, divides, multiply, resolve
from ansorc.schedule.stage import At, Loop, SplitRelation
from ansorc.schedule.state import State, Step
from ansorc.schedule.values import as_int

MOST_LANES = 64
"""Elements of one byte in the widest vector."""
MOST_OF_LENGTH = 4
"""How many times as long as a loop its inner parts may be: threads of a block may be more."""


@dataclass(frozen=True)
class Split(Step):
    """Divide one iterator into `len(lengths) + 1` nested ones.

        for i in 0..24:               for i.0 in 0..3:
            body             ->           for i.1 in 0..8:
                                              body[i := i.0 * 8 + i.1]

    `lengths` are the inner extents, outermost first. The outermost new iterator covers the rest,
    rounded up; a guard skips iterations beyond the end. A Hole makes the state a sketch.
    """

    iterator: str
    lengths: tuple[TileLength, ...]

    @property
    def made(self) -> tuple[str, ...]:
        """The names of the new iterators, outermost first."""
        return tuple(f"{self.iterator}.{part}" for part in range(len(self.lengths) + 1))

    def require_worthwhile(self, state: State) -> None:
        """Refuse lengths by which the outermost new loop would run once, and mostly beyond the end.

        A search may ask for it; who writes a schedule by hand has mistaken a number. A length of a
        vector's lanes is right for a short loop, too.
        """
        stage = self.stage_of(state)
        extent = stage.iterators[self.position_of(state, stage, self.iterator)].extent
        inner = multiply(resolve(length, state.tiles) for length in self.lengths)
        if isinstance(extent, int) and isinstance(inner, int):
            most = max(MOST_OF_LENGTH * extent, MOST_LANES)
            self.require(
                state, f"the lengths make {inner} iterations, but '{self.iterator}' runs {extent} "
                f"times; give lengths whose product is at most {extent}",
                (self.stage, self.iterator), condition=inner <= most,
            )  # fmt: skip

    def apply(self, state: State) -> State:
        """Return the state with the iterator split; stages attached to it go to the last part."""
        stage = self.stage_of(state)
        position = self.position_of(state, stage, self.iterator)
        iterator = stage.iterators[position]
        self.require_unmarked(state, iterator, "split it")
        self.require_even(state, stage, iterator, "split")
        is_positive = all(not isinstance(n, int) or n >= 1 for n in self.lengths)
        self.require(
            state, "give at least one length, each 1 or more", (self.stage, self.iterator),
            condition=bool(self.lengths) and is_positive,
        )  # fmt: skip
        lengths = [resolve(length, state.tiles) for length in self.lengths]
        inner = multiply(lengths)
        extents = [divide_up(iterator.extent, inner), *lengths]
        children = tuple(
            Loop(name, extent, iterator.kind, iterator.axis, level)
            for level, (name, extent) in enumerate(zip(self.made, extents, strict=True))
        )
        is_exact = divides(inner, iterator.extent)
        if iterator.size is not None:
            inner = as_int(inner)
            outer = dim.divide_up(iterator.size, inner)
            children = (_with_length(children[0], outer), *children[1:])
            is_exact = iterator.size % inner == 0
        relation = SplitRelation(iterator, children, is_exact)
        after = replace(
            stage.with_iterator(position, *children), relations=(*stage.relations, relation)
        )
        changed = state.with_stage(after)
        for attached in state.stages_inside(stage.name, iterator.name):
            moved = replace(attached, attach=At(stage.name, children[-1].name))
            changed = changed.with_stage(moved)
        return settle(changed, self, state, within=stage.name)


def _with_length(loop: Loop, length: dim.SizeLike) -> Loop:
    """Return `loop` with an extent that the caller gives, if it does."""
    if isinstance(length, int):
        return replace(loop, extent=length)
    return replace(loop, extent=dim.most_of(length), size=length)
