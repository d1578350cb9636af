"""Make whole programs of sketches: places for all stages, shaped loops, marks and choices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from math import prod
from typing import TypeAlias

from ansorc.errors import ScheduleError
from ansorc.ir.expr import Load, Select
from ansorc.lang.access import reads_of, simple_access
from ansorc.schedule.bounds import region
from ansorc.schedule.inlining import sizes_of
from ansorc.schedule.stage import At, AxisKind, Loop, Making, Root, Stage
from ansorc.schedule.state import State, Step
from ansorc.schedule.steps import ComputeAt, ComputeInline
from ansorc.search.sketch.loops import (
    annotate,
    annotate_last,
    find_transposed_axis,
    follows_range,
    parallel_loops,
    reorder_loops,
)
from ansorc.search.sketch.predicates import CHUNKS_PER_CORE, is_parallel_rfactor
from ansorc.search.sketch.rule import PartialSketch
from ansorc.search.sketch.short_rows import find_short_rows
from ansorc.search.sketch.sketch import Choice, ParallelLoops, Sketch, UnrollLimit
from ansorc.search.sketch.sliding_windows import SLIDING_DEPTHS, SlidingWindows, bytes_kept
from ansorc.search.sketch.windows import DEPTHS, Grouping, is_pipeline, repeats_work

LoopRef = tuple[str, str]
"""A loop: the stage and the name of its iterator."""

MAX_LOOPS = 4
"""Loops tried for one stage, the innermost ones."""
MOST_INLINED = 4096
"""Nodes that the readers of a stage may repeat: a stencil in another one has more."""
MOST_PLACED = 24
"""Stages of a pipeline for which several ways to place them are made, and strips of rows."""
MAX_DEPTH = 8
"""Stages inside each other's loops, at most."""


def placements(partial: PartialSketch, name: str) -> list[PartialSketch]:
    """Return the sketch with stage `name` in each sensible place, the most promising first.

    A stage whose loops a rule has shaped, partial results made in parallel, and an output stay
    where they are.
    """
    stage = partial.stage(name)
    is_fixed = not stage.is_untouched or is_parallel_rfactor(partial, name)
    if stage.is_output or is_fixed or not partial.state.readers(name):
        return [partial]
    tiled = {tile.stage for tile in partial.register_tiles}
    may_repeat = any(
        reader.name in tiled or reader.origin.making is Making.CACHE_READ
        for reader in partial.state.readers(name)
    )
    placed: list[PartialSketch] = []
    for location in _places(partial, stage):
        try:
            candidate = place_at(partial, name, location)
        except ScheduleError:
            continue  # a loop that does not hold all readers, or an inlining that is not legal
        made = candidate.stage(name)
        is_again = _is_repeated(candidate.state, made) or repeats_work(candidate.state, made)
        if (may_repeat and stage.op.scan is None) or not is_again:
            placed.append(candidate)
    return placed


def _is_repeated(state: State, stage: Stage) -> bool:
    """Return whether some loop around an attached stage computes the same results again and again.

    Such as the channels of a group around the sum of the group. Tiles and panels may do so, to have
    their data at hand.
    """
    needed = {axis.name for axis in stage.op.axes}
    while isinstance(stage.attach, At):
        target = state.stage(stage.attach.stage)
        count = 1 + [loop.name for loop in target.iterators].index(stage.attach.iterator)
        boxes = zip(stage.op.axes, region(state, stage.name, target, count), strict=True)
        lows = [box.low for axis, box in boxes if axis.name in needed and box.low is not None]
        moves = {anchor: divisor for low in lows for anchor, divisor in low.terms}
        for loop in (loop for loop in target.iterators[:count] if loop.extent != 1):
            steps = [(p.stride, moves[p.axis]) for p in target.parts[loop.name] if p.axis in moves]
            # in steps of a multiple of the divisor, another quotient is reached each time
            if all(by != 1 and (not isinstance(n, int) or n % by) for n, by in steps):
                return True
        needed, stage = set(moves), target
    return False


def place_at(partial: PartialSketch, name: str, location: LoopRef | str) -> PartialSketch:
    """Return the sketch with `name` at a loop, or "root" or "inline"."""
    if location == "root":
        return partial.with_trace(f"{name} at root")
    if isinstance(location, str):
        return partial.then(ComputeInline(name)).with_trace(f"inline {name}")
    return partial.then(ComputeAt(name, *location)).with_trace(
        f"{name} at {location[0]}.{location[1]}"
    )


def _places(partial: PartialSketch, stage: Stage) -> list[LoopRef | str]:
    """Return all places in order of preference.

    Whole tensors serve the many passes of a tiled reader well. What a reader uses once is best
    computed just before, while it is in a cache; what is only moved is best read where it lies.
    """
    outermost_first: list[LoopRef | str] = [*_loops_around(partial, stage)]
    loops = outermost_first[::-1][:MAX_LOOPS]
    inline: list[LoopRef | str] = ["inline"] if _may_be_inlined(partial, stage) else []
    tiled = {tile.stage for tile in partial.register_tiles}
    if any(reader.name in tiled for reader in partial.state.readers(stage.name)):
        return ["root", *loops, *inline]
    if _is_moved_once(partial, stage):
        (reader,) = partial.state.readers(stage.name)
        if (
            isinstance(reader.op.body, Select)
            and find_transposed_axis(partial, stage.op) is not None
        ):
            return ["root", *loops, *inline]  # in blocks; then the border may be read in place
        return [*inline, *loops, "root"]
    return [*loops, "root", *inline]


def _may_be_inlined(partial: PartialSketch, stage: Stage) -> bool:
    """Return whether a stage has plain elements, and its readers would not repeat too much."""
    if stage.op.combiner is not None or stage.op.scan is not None:
        return False
    reads = sum(len(set(reads_of(r.op, stage.op))) for r in partial.state.readers(stage.name))
    return reads <= 1 or reads * sum(sizes_of(stage.op)) <= MOST_INLINED


def _is_moved_once(partial: PartialSketch, stage: Stage) -> bool:
    """Return whether a stage only moves elements, each of which its only reader uses once.

    A border is such a stage.
    """
    (reader, *others) = partial.state.readers(stage.name)
    accesses = [simple_access(reader.op, access) for access in reads_of(reader.op, stage.op)]
    is_once = len(accesses) == 1 and accesses[0] is not None and not accesses[0].has_repeated_axis
    is_plain = not others and not reader.op.reduce_axes
    return is_plain and is_once and isinstance(stage.op.body, Load)


def _loops_around(partial: PartialSketch, stage: Stage) -> Iterable[LoopRef]:
    """Return the loops around all readers of `stage` that end a tile level, outermost first."""
    readers = partial.state.readers(stage.name)
    if any(len(partial.state.chain(reader)) >= MAX_DEPTH for reader in readers):
        return ()
    paths = [list(_path(partial, reader)) for reader in readers]
    shared = set(paths[0]).intersection(*paths[1:])
    return (loop for loop in paths[-1] if loop in shared)


def _path(partial: PartialSketch, reader: Stage) -> Iterable[LoopRef]:
    """Yield the loops around `reader` and its own outer loops that end a tile level."""
    for outer, count in partial.state.chain(reader):
        yield from _level_ends(partial, outer, outer.iterators[:count])
    yield from _level_ends(partial, reader, _outer_loops(partial, reader))


def _outer_loops(partial: PartialSketch, reader: Stage) -> tuple[Loop, ...]:
    """Return the loops inside which something may be computed: not those of the innermost tiles.

    A tiled stage is entered up to its outermost reduce level (its two innermost levels are left
    out if it has none), any other up to its first reduce loop or its last loop, which is to be
    vectorised.
    """
    kinds = [iterator.kind for iterator in reader.iterators]
    tile = next((tile for tile in partial.register_tiles if tile.stage == reader.name), None)
    count = 0
    while count < len(kinds) and kinds[count] is AxisKind.SPACE:
        count += 1
    if tile is None:
        inner = max(1, len(find_short_rows(partial, reader)))
        outer = reader.iterators[: min(count, len(kinds) - inner)]
        return tuple(takewhile(lambda it: it.level == 0, outer))
    if not reader.op.reduce_axes:
        first = next(it for it in reader.iterators if it.name == tile.iterators[0])
        return tuple(it for it in reader.iterators if it.level < first.level - 1)
    while count < len(kinds) and kinds[count] is AxisKind.REDUCE:
        count += 1
    return reader.iterators[:count]


def _level_ends(partial: PartialSketch, stage: Stage, loops: tuple[Loop, ...]) -> Iterable[LoopRef]:
    """Yield the loops after which a new tile level begins; all of a stage without levels."""
    tiled = {tile.stage for tile in partial.register_tiles}
    is_shaped = any(variable.stage == stage.name for variable in partial.variables)
    has_levels = stage.name in tiled or (bool(stage.relations) and not is_shaped)
    real = [iterator for iterator in loops if iterator.extent != 1]
    for number, iterator in enumerate(real):
        is_last = number + 1 == len(real)
        if is_last or not has_levels or _starts_level(iterator, real[number + 1]):
            yield stage.name, iterator.name


def _starts_level(before: Loop, after: Loop) -> bool:
    return before.kind is not after.kind or after.level > before.level


UNROLL_LIMITS = (0, 16, 64, 512)

RankedSketch: TypeAlias = tuple[int, PartialSketch]
"""A sketch, and the sum of the numbers of its places, best 0."""


@dataclass(frozen=True)
class Placement:
    """How the stages that are not tiled are placed and marked."""

    placed: Callable[[list[RankedSketch], str, int], list[RankedSketch]]
    """(sketches, a stage, how many at most) → sketches with the stage placed."""
    marked_last: Callable[[PartialSketch, Stage], PartialSketch]
    """Marks the last loop of a stage."""


def place_stages(
    sketch: Sketch,
    max_locations: int,
    unroll_limits: tuple[int, ...] = UNROLL_LIMITS,
    placement: Placement | None = None,
) -> tuple[Sketch, ...]:
    """Return `sketch` once for each of at most `max_locations` ways to place its plain stages.

    The structure of each result is whole: only lengths and choices are open. By the usual
    `placement` the most promising places come first, and loops are shaped for vectors. Pipelines
    come in groups of stages before that; long ones have only one other way.
    """
    first = PartialSketch.of(sketch)
    placement = placement or BEST_PLACES
    in_groups = placement is BEST_PLACES and is_pipeline(first)
    most = 1 if in_groups and _has_many_stages(first.state) else max_locations
    partials: list[RankedSketch] = [(0, first)]
    for stage in reversed(first.state.stages):
        if not stage.is_inlined:
            partials = placement.placed(partials, stage.name, most)
    made = [partial for _, partial in partials]
    if in_groups:
        made = [*_group_stages(first), *made]
    return tuple(
        _annotate(annotate(partial, placement.marked_last), unroll_limits) for partial in made
    )


def is_long(sketch: Sketch) -> bool:
    """Return whether a pipeline has so many stages that few ways to compute it are compared."""
    return _has_many_stages(sketch.state) and is_pipeline(PartialSketch.of(sketch))


def _has_many_stages(state: State) -> bool:
    return sum(not stage.is_inlined for stage in state.stages) > MOST_PLACED


def _group_stages(first: PartialSketch) -> Iterator[PartialSketch]:
    """Yield the sketch of a pipeline in groups of stages, none to deep ones; then in strips."""
    made = set[tuple[Step, ...]]()
    for partial in (*(_placed_in(Grouping(n), first) for n in DEPTHS), *_in_strips(first)):
        if partial.state.steps not in made:
            made.add(partial.state.steps)
            yield partial


def _in_strips(first: PartialSketch) -> Iterator[PartialSketch]:
    """Yield the sketch of a pipeline in strips of whole rows, or of a part of long ones.

    Only those in which something is kept.
    """
    most = first.target.cache_bytes[1] // 2
    for depth in () if _has_many_stages(first.state) else SLIDING_DEPTHS:
        partial = _placed_in(SlidingWindows(depth), first)
        if bytes_kept(partial) > most:
            partial = _placed_in(SlidingWindows(depth, has_columns=True), first)
        if any(stage.ring is not None for stage in partial.state.stages):
            yield partial


def slides(sketch: Sketch) -> bool:
    """Return whether some stage of a pipeline may keep its rows in strips."""
    first = PartialSketch.of(sketch)
    return is_pipeline(first) and any(True for _ in _in_strips(first))


def _placed_in(grouping: Grouping, partial: PartialSketch) -> PartialSketch:
    names = [stage.name for stage in reversed(partial.state.stages) if not stage.is_inlined]
    for name in names:
        if partial.stage(name).is_untouched:
            partial = grouping.place(partial, name)
    partial = grouping.finish(partial)
    for name in names:
        partial = reorder_loops(partial, name)
    return partial


def _best_placed(partials: list[RankedSketch], name: str, most: int) -> list[RankedSketch]:
    """Return the most promising sketches with the stage `name` placed and its loops shaped."""
    ranked = [
        (rank + position, reorder_loops(placed, name))
        for rank, partial in partials
        for position, placed in enumerate(placements(partial, name))
    ]
    return sorted(ranked, key=_rank)[:most]


def _rank(entry: RankedSketch) -> int:
    return entry[0]


def _annotate(partial: PartialSketch, unroll_limits: tuple[int, ...]) -> Sketch:
    """Return the finished sketch with choices of parallel loops and of unrolling."""
    choices: list[Choice] = []
    for stage in partial.state.stages:
        if isinstance(stage.attach, Root):
            loops = parallel_loops(partial, stage)
            chunk = _chunk_of_rows(partial, stage)
            choices += [ParallelLoops(stage.name, loops, chunk)] if loops else []
        if not stage.is_inlined and (stage.op.reduce_axes or stage.op.scan is not None):
            choices.append(UnrollLimit(stage.name, unroll_limits))
    return partial.sketch(tuple(choices))


def _chunk_of_rows(partial: PartialSketch, stage: Stage) -> int:
    """Return how many rows of ranges that are data a thread takes at a time; else 0.

    The rows that a stage computes may differ in length, so none has a share from the beginning.
    Iterations of an outer loop around all rows are alike.
    """
    for each in (stage, *partial.state.stages_inside(stage.name)):
        if each.op.ragged_axis is not None:
            outer = stage.iterators[0].axis
            if each is stage and not follows_range(each.op, outer):
                return 0
            rows = prod(a.extent for a in each.op.axes if follows_range(each.op, a.name))
            return max(1, rows // (CHUNKS_PER_CORE * partial.target.cores))
    return 0


BEST_PLACES = Placement(_best_placed, annotate_last)
"""The most promising places first."""
