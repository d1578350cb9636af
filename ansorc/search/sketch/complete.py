"""Make whole programs of sketches: places for all stages, shaped loops, marks and choices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from ansorc.schedule.stage import Root, Stage
from ansorc.search.sketch.draft import Draft
from ansorc.search.sketch.location import placements
from ansorc.search.sketch.loops import marked, marked_last, parallel_loops, shaped
from ansorc.search.sketch.sketch import Choice, ParallelLoops, Sketch, UnrollLimit

UNROLL_LIMITS = (0, 16, 64, 512)

RankedDraft: TypeAlias = tuple[int, Draft]
"""A draft, and the sum of the numbers of its places, best 0."""


@dataclass(frozen=True)
class Placement:
    """How the stages that are not tiled are placed and marked."""

    placed: Callable[[list[RankedDraft], str, int], list[RankedDraft]]
    """(drafts, a stage, how many at most) → drafts with the stage placed."""
    marked_last: Callable[[Draft, Stage], Draft]
    """Marks the last loop of a stage."""


def completed(
    sketch: Sketch,
    max_locations: int,
    unroll_limits: tuple[int, ...] = UNROLL_LIMITS,
    placement: Placement | None = None,
) -> tuple[Sketch, ...]:
    """Return `sketch` once for each of at most `max_locations` ways to place its plain stages.

    The structure of each result is whole: only lengths and choices are open. By the usual
    `placement` the most promising places come first, and loops are shaped for vectors.
    """
    first = Draft.of(sketch)
    placement = placement or BEST_PLACES
    drafts: list[RankedDraft] = [(0, first)]
    for stage in reversed(first.state.stages):
        if not stage.is_inlined:
            drafts = placement.placed(drafts, stage.name, max_locations)
    return tuple(
        _annotated(marked(draft, placement.marked_last), unroll_limits) for _, draft in drafts
    )


def _best_placed(drafts: list[RankedDraft], name: str, most: int) -> list[RankedDraft]:
    """The most promising drafts with the stage `name` placed and its loops made ready."""
    found = [
        (rank + place, shaped(placed, name))
        for rank, draft in drafts
        for place, placed in enumerate(placements(draft, name))
    ]
    return sorted(found, key=_rank)[:most]


def _rank(entry: RankedDraft) -> int:
    return entry[0]


def _annotated(draft: Draft, unroll_limits: tuple[int, ...]) -> Sketch:
    choices: list[Choice] = []
    for stage in draft.state.stages:
        if isinstance(stage.attach, Root):
            loops = parallel_loops(draft, stage)
            choices += [ParallelLoops(stage.name, loops)] if loops else []
        if not stage.is_inlined and stage.op.reduce_axes:
            choices.append(UnrollLimit(stage.name, unroll_limits))
    return replace(draft.sketch(), choices=tuple(choices))


BEST_PLACES = Placement(_best_placed, marked_last)
"""The most promising places first."""
