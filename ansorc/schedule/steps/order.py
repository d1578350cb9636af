"""Fuse and Reorder: join iterators into one, or change which is inside which."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from functools import reduce
from operator import mul

from ansorc.ir.dim import Size, SizeLike
from ansorc.schedule.bounds import settle
from ansorc.schedule.extent import multiply
from ansorc.schedule.scan_state import misplaced_loops
from ansorc.schedule.stage import At, AxisKind, FuseRelation, Loop, Mark
from ansorc.schedule.state import State, Step
from ansorc.schedule.thread_places import require_initial_fits


@dataclass(frozen=True)
class Fuse(Step):
    """Join neighbouring iterators of one kind into one that runs over all their combinations.

    for i in 0..4:                for i@j in 0..32:
        for j in 0..8:    ->          body[i := i@j // 8, j := i@j % 8]
            body
    """

    iterators: tuple[str, ...]

    @property
    def made(self) -> str:
        """The name of the new iterator."""
        return "@".join(self.iterators)

    def apply(self, state: State) -> State:
        """Return the state with the iterators fused, in the place of the first."""
        stage = self.stage_of(state)
        places = [self.position_of(state, stage, name) for name in self.iterators]
        spots = [(self.stage, name) for name in self.iterators]
        self.require(state, "give two iterators or more", *spots, condition=len(places) >= 2)
        first = places[0]
        self.require(
            state,
            "the iterators are not direct neighbours, outermost first; reorder before fusing",
            *spots,
            condition=places == list(range(first, first + len(places))),
        )  # fmt: skip
        joined = stage.iterators[first : first + len(places)]
        for iterator in joined:
            self.require_unmarked(state, iterator, "fuse it")
            self.require_even(state, stage, iterator, "fused")
        self.require(
            state, _unlike_words({iterator.kind for iterator in joined}), *spots,
            condition=len({iterator.kind for iterator in joined}) == 1,
        )  # fmt: skip
        for iterator in joined[:-1]:
            for inner in state.stages_inside(stage.name, iterator.name):
                words = f"'{inner.name}' is computed at '{iterator.name}', between the two loops"
                self.refuse(
                    state, words, (stage.name, iterator.name),
                )  # fmt: skip
        later = [it.name for it in joined[1:] if it.name == stage.initial]
        self.require(
            state, f"'{stage.name}' stores its identities before '{stage.initial}', between the "
            "loops; fuse them before that", *((stage.name, name) for name in later),
            condition=not later,
        )  # fmt: skip
        child = Loop(
            self.made,
            multiply(it.extent for it in joined),
            joined[0].kind,
            size=_joint_size(joined),
        )
        iterators = (*stage.iterators[:first], child, *stage.iterators[first + len(places) :])
        relations = (*stage.relations, FuseRelation(joined, child))
        initial = child.name if stage.initial == joined[0].name else stage.initial
        changed = state.with_stage(
            replace(stage, iterators=iterators, relations=relations, initial=initial)
        )
        for attached in state.stages_inside(stage.name, joined[-1].name):
            moved = replace(attached, attach=At(stage.name, child.name))
            changed = changed.with_stage(moved)
        return settle(changed, self, state, within=stage.name)


@dataclass(frozen=True)
class Reorder(Step):
    """Put the named iterators, among the places they hold now, in the given order.

        for i in 0..4:                for j in 0..8:
            for j in 0..8:    ->          for i in 0..4:
                body                          body

    A reduction may be reordered freely: its terms are then added in another order. The parts of the
    axis of a scan keep their order.
    """

    order: tuple[str, ...]

    def apply(self, state: State) -> State:
        """Return the state with the iterators in the new order."""
        stage = self.stage_of(state)
        places = [self.position_of(state, stage, name) for name in self.order]
        twice = [(self.stage, name) for name in self.order if self.order.count(name) > 1]
        self.require(state, "an iterator is named twice", *twice, condition=not twice)
        iterators = list(stage.iterators)
        for slot, position in zip(sorted(places), places, strict=True):
            iterators[slot] = stage.iterators[position]
        self._require_steps_in_order(state, stage.iterators, iterators)
        for iterator in iterators[:-1]:
            self.require(
                state, f"'{iterator.name}' is tensorized and stays innermost",
                condition=iterator.mark is not Mark.TENSORIZE,
            )  # fmt: skip
        after = replace(stage, iterators=tuple(iterators))
        inside = after.loops_in_range()
        self.require(
            state, "a range that is data follows "
            f"{', '.join(repr(it.name) for it in inside)}, which would be inside its loop",
            *((stage.name, it.name) for it in inside), condition=not inside,
        )  # fmt: skip
        changed = state.with_stage(after)
        require_initial_fits(self, state, changed)
        return settle(changed, self, state, within=stage.name)

    def _require_steps_in_order(
        self, state: State, before: Sequence[Loop], after: Sequence[Loop]
    ) -> None:
        steps, now = ([it.name for it in loops if it.kind is AxisKind.SCAN]
                      for loops in (before, after))  # fmt: skip
        self.require(
            state, f"the steps of the scan '{self.stage}' would come in another order; keep the "
            f"loops along it in theirs, from the outside {', '.join(steps)}",
            *((self.stage, name) for name in steps), condition=steps == now,
        )  # fmt: skip
        outer = misplaced_loops(self.stage_of(state), after)
        self.require(
            state, f"each step of '{self.stage}' reads states of all places along "
            f"{', '.join(outer)}, so these loops stay inside of its steps",
            *((self.stage, name) for name in outer), condition=not outer,
        )  # fmt: skip


def _joint_size(joined: Sequence[Loop]) -> Size | None:
    """Return the extent of fused loops, if the caller gives that of one of them."""
    if all(loop.size is None for loop in joined):
        return None
    total: SizeLike = reduce(mul, (loop.length for loop in joined))
    return total if isinstance(total, Size) else None


def _unlike_words(kinds: Set[AxisKind]) -> str:
    if AxisKind.SCAN in kinds:
        return "loops along a scan cannot be fused with others"
    return "space and reduce iterators cannot be fused with each other"
