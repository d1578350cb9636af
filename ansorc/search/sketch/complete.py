"""Make whole programs of sketches: places for all stages, shaped loops, marks and choices."""

from __future__ import annotations

from dataclasses import replace

from ansorc.schedule.schedule import replay
from ansorc.schedule.stage import Root
from ansorc.search.sketch.draft import Draft
from ansorc.search.sketch.location import placements
from ansorc.search.sketch.loops import marked, parallel_loops, shaped
from ansorc.search.sketch.sketch import Choice, ParallelLoops, Sketch, UnrollLimit

UNROLL_LIMITS = (0, 16, 64, 512)


def completed(
    sketch: Sketch, max_locations: int, unroll_limits: tuple[int, ...] = UNROLL_LIMITS
) -> tuple[Sketch, ...]:
    """Return `sketch` once for each of at most `max_locations` ways to place its plain stages.

    The structure of each result is whole: only lengths and choices are open. The most promising
    places come first.
    """
    state = replay(sketch.dag, sketch.steps)
    drafts = [(0, Draft(
        state, sketch.target, (), sketch.variables, sketch.register_tiles,
        (sketch.name,) if sketch.name else (),
    ))]  # fmt: skip
    for name in [stage.name for stage in reversed(state.stages)]:
        if state.stage(name).is_inlined:
            continue
        drafts = [
            (rank + place, shaped(placed, name))
            for rank, draft in drafts
            for place, placed in enumerate(placements(draft, name))
        ]
        drafts = sorted(drafts, key=_rank)[:max_locations]
    return tuple(_annotated(draft, unroll_limits) for _, draft in drafts)


def _rank(entry: tuple[int, Draft]) -> int:
    return entry[0]


def _annotated(draft: Draft, unroll_limits: tuple[int, ...]) -> Sketch:
    draft = marked(draft)
    choices: list[Choice] = []
    for stage in draft.state.stages:
        if isinstance(stage.attach, Root):
            loops = parallel_loops(draft, stage)
            choices += [ParallelLoops(stage.name, loops)] if loops else []
        if not stage.is_inlined and stage.op.reduce_axes:
            choices.append(UnrollLimit(stage.name, unroll_limits))
    return replace(draft.sketch(), choices=tuple(choices))
