"""Make whole programs of sketches: places for all stages, shaped loops, marks and choices."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator as Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ansorc.errors import ScheduleError
from ansorc.schedule.stage import Iterator, IteratorKind, Root, Stage
from ansorc.schedule.steps import ComputeAt, ComputeInline
from ansorc.search.sketch.loops import marked, marked_last, parallel_loops, shaped
from ansorc.search.sketch.predicates import is_parallel_partial
from ansorc.search.sketch.rule import Draft
from ansorc.search.sketch.sketch import Choice, ParallelLoops, Sketch, UnrollLimit

Spot = tuple[str, str]
"""A loop: the stage and the name of its iterator."""

MAX_SPOTS = 4
"""Loops tried for one stage, the innermost ones."""


def placements(draft: Draft, name: str) -> list[Draft]:
    """Return the draft with stage `name` in each sensible place, the most promising first.

    A stage whose loops a rule has shaped, partial results made in parallel, and an output stay
    where they are.
    """
    stage = draft.stage(name)
    is_fixed = not stage.is_untouched or is_parallel_partial(draft, name)
    if stage.is_output or is_fixed or not draft.state.readers(name):
        return [draft]
    found: list[Draft] = []
    for place in _places(draft, stage):
        try:
            found.append(place_at(draft, name, place))
        except ScheduleError:
            continue  # a loop that does not hold all readers, or an inlining that is not legal
    return found


def place_at(draft: Draft, name: str, place: Spot | str) -> Draft:
    """Return the draft with `name` at a loop, or "root" or "inline"."""
    if place == "root":
        return draft.saying(f"{name} at root")
    if isinstance(place, str):
        return draft.then(ComputeInline(name)).saying(f"inline {name}")
    return draft.then(ComputeAt(name, *place)).saying(f"{name} at {place[0]}.{place[1]}")


def _places(draft: Draft, stage: Stage) -> list[Spot | str]:
    """All places in order of preference.

    Whole tensors serve the many passes of a tiled reader well. What a reader uses once is best
    computed just before, while it is in a cache.
    """
    outermost_first: list[Spot | str] = [*_spots(draft, stage)]
    spots = outermost_first[::-1][:MAX_SPOTS]
    inline: list[Spot | str] = ["inline"] if stage.op.combiner is None else []
    tiled = {tile.stage for tile in draft.register_tiles}
    if any(reader.name in tiled for reader in draft.state.readers(stage.name)):
        return ["root", *spots, *inline]
    return [*spots, "root", *inline]


def _spots(draft: Draft, stage: Stage) -> Sequence[Spot]:
    """The loops around all readers of `stage` that end a tile level, outermost first."""
    readers = draft.state.readers(stage.name)
    paths = [list(_path(draft, reader)) for reader in readers]
    shared = set(paths[0]).intersection(*paths[1:])
    return (spot for spot in paths[-1] if spot in shared)


def _path(draft: Draft, reader: Stage) -> Sequence[Spot]:
    for outer, count in draft.state.chain(reader):
        yield from _level_ends(outer, outer.iterators[:count])
    yield from _level_ends(reader, _outer_loops(draft, reader))


def _outer_loops(draft: Draft, reader: Stage) -> tuple[Iterator, ...]:
    """The loops inside which something may be computed: not those of the innermost tiles.

    A tiled stage is entered up to its outermost reduce level (its two innermost levels are left
    out if it has none), any other up to its first reduce loop or its last loop, which is to be
    vectorised.
    """
    kinds = [iterator.kind for iterator in reader.iterators]
    tile = next((tile for tile in draft.register_tiles if tile.stage == reader.name), None)
    count = 0
    while count < len(kinds) and kinds[count] is IteratorKind.SPACE:
        count += 1
    if tile is None:
        return reader.iterators[: min(count, len(kinds) - 1)]
    if not reader.op.reduce_axes:
        first = next(it for it in reader.iterators if it.name == tile.iterators[0])
        return tuple(it for it in reader.iterators if it.level < first.level - 1)
    while count < len(kinds) and kinds[count] is IteratorKind.REDUCE:
        count += 1
    return reader.iterators[:count]


def _level_ends(stage: Stage, loops: tuple[Iterator, ...]) -> Sequence[Spot]:
    """The loops after which a new tile level begins; all of a stage that has no levels."""
    real = [iterator for iterator in loops if iterator.extent != 1]
    for place, iterator in enumerate(real):
        is_last = place + 1 == len(real)
        if is_last or not stage.relations or _starts_level(iterator, real[place + 1]):
            yield stage.name, iterator.name


def _starts_level(before: Iterator, after: Iterator) -> bool:
    return before.kind is not after.kind or after.level > before.level


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
