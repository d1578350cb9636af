"""Make whole programs of sketches: places for all stages, shaped loops, marks and choices."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from ansorc.schedule.stage import Root
from ansorc.search.sketch.draft import Draft
from ansorc.search.sketch.location import placements
from ansorc.search.sketch.loops import marked, marked_last, parallel_loops, shaped
from ansorc.search.sketch.paper_location import paper_marked_last, paper_placements
from ansorc.search.sketch.sketch import Choice, ParallelLoops, Sketch, UnrollLimit

UNROLL_LIMITS = (0, 16, 64, 512)

Ranked: TypeAlias = tuple[int, Draft]
"""A draft, and the sum of the numbers of its places, best 0."""


def completed(
    sketch: Sketch,
    max_locations: int,
    unroll_limits: tuple[int, ...] = UNROLL_LIMITS,
    *,
    is_paper: bool = False,
) -> tuple[Sketch, ...]:
    """Return `sketch` once for each of at most `max_locations` ways to place its plain stages.

    The structure of each result is whole: only lengths and choices are open. The most promising
    places come first. With `is_paper` the places are those of the paper, of which an even choice is
    made if there are more, and no loop is shaped for vectors.
    """
    first = Draft.of(sketch)
    placed = _evenly_placed if is_paper else _best_placed
    drafts: list[Ranked] = [(0, first)]
    for stage in reversed(first.state.stages):
        if not stage.is_inlined:
            drafts = placed(drafts, stage.name, max_locations)
    mark = paper_marked_last if is_paper else marked_last
    return tuple(_annotated(marked(draft, mark), unroll_limits) for _, draft in drafts)


def _best_placed(drafts: list[Ranked], name: str, most: int) -> list[Ranked]:
    """The most promising drafts with the stage `name` placed and its loops made ready."""
    found = [
        (rank + place, shaped(placed, name))
        for rank, draft in drafts
        for place, placed in enumerate(placements(draft, name))
    ]
    return sorted(found, key=_rank)[:most]


def _evenly_placed(drafts: list[Ranked], name: str, most: int) -> list[Ranked]:
    """Drafts with the stage `name` placed, every n-th of them."""
    found = [(rank, placed) for rank, draft in drafts for placed in paper_placements(draft, name)]
    return found[:: -(-len(found) // most)]


def _rank(entry: Ranked) -> int:
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
