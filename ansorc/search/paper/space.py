"""The space of the paper, and that of templates written by hand, as rules and places.

The paper computes a stage in any loop of its only reader that its program may take. A template has
one structure for an operator: no local copies, no reductions in shares, no packed operands, and
each stage in one place (Figure 7 of the paper).
"""

from __future__ import annotations

from collections.abc import Iterator

from ansorc.errors import ScheduleError
from ansorc.lang.access import has_data_reuse
from ansorc.schedule.stage import At, AxisKind, Loop, Mark, Root, Stage
from ansorc.schedule.steps import Vectorize
from ansorc.search.sketch.complete import LoopRef, Placement, RankedSketch, place_at
from ansorc.search.sketch.rfactor import AddOpenRfactor
from ansorc.search.sketch.rule import PartialSketch, SketchRule
from ansorc.search.sketch.rules import (
    AddCacheWrite,
    AlwaysInline,
    MultiLevelTiling,
    MultiLevelTilingWithFusion,
    Skip,
)
from ansorc.search.sketch.simplify_const_indices import SimplifyConstIndices
from ansorc.search.sketch.tiling import SSRSRS, Tiling


def paper_rules(tiling: Tiling = SSRSRS) -> tuple[SketchRule, ...]:
    """Return the rules of the paper's Table 1 and nothing beyond, in the order of `cpu_rules`."""
    return (
        AlwaysInline(most_repeated=None),
        SimplifyConstIndices(),
        AddOpenRfactor(),
        AddCacheWrite(),
        MultiLevelTilingWithFusion(tiling),
        MultiLevelTiling(tiling),
        Skip(),
    )


def rules_of_limited_space(tiling: Tiling) -> tuple[SketchRule, ...]:
    """Return the rules for a CPU less those that change the computation, with one place to fuse."""
    return (
        AlwaysInline(most_repeated=None),
        SimplifyConstIndices(),
        MultiLevelTilingWithFusion(tiling, levels=(1,)),
        MultiLevelTiling(tiling),
        Skip(),
    )


def _evenly_placed(partials: list[RankedSketch], name: str, most: int) -> list[RankedSketch]:
    """With the stage `name` placed, every n-th of them: no place is better than another."""
    placements = [
        (rank, placed) for rank, partial in partials for placed in _placements(partial, name)
    ]
    return placements[:: -(-len(placements) // most)]


def _placements(partial: PartialSketch, name: str) -> list[PartialSketch]:
    """Return the sketch with stage `name` at root and in each loop where the paper may compute it.

    A tiled stage, one that is worth tiling and an output stay where they are. No place is better
    than another. (Of its implementation, a draw of "inline" changes nothing for a stage at root.)
    """
    stage = partial.stage(name)
    if stage.is_output or not stage.is_untouched or has_data_reuse(stage.op):
        return [partial]
    placements = [place_at(partial, name, "root")]
    for loop in dict.fromkeys(_loops_around(partial, stage)):
        try:
            placements.append(place_at(partial, name, loop))
        except ScheduleError:
            continue  # a loop that does not hold all readers
    return placements


def _loops_around(partial: PartialSketch, stage: Stage) -> Iterator[LoopRef]:
    """The loops of the reader, and those of the stage that it is computed in."""
    reader = _reader(partial, stage)
    if reader is None:
        return
    tiled = {tile.stage for tile in partial.register_tiles}
    for loop in _outer_loops(reader, is_tiled=reader.name in tiled):
        yield reader.name, loop.name
        if partial.state.stages_inside(reader.name, loop.name):
            break
    if isinstance(reader.attach, At):
        outer = partial.stage(reader.attach.stage)
        for loop in outer.iterators:
            is_held = bool(partial.state.stages_inside(outer.name, loop.name))
            if loop.kind is AxisKind.REDUCE or loop.mark is Mark.UNROLL or is_held:
                break
            if loop.extent != 1:
                yield outer.name, loop.name


def _reader(partial: PartialSketch, stage: Stage) -> Stage | None:
    """The only reader, or the stage in which all readers are computed."""
    readers = partial.state.readers(stage.name)
    if len(readers) == 1:
        return readers[0]
    hosts = {r.attach.stage if isinstance(r.attach, At) else r.name for r in readers}
    if len(hosts) != 1 or not all(isinstance(r.attach, At | Root) for r in readers):
        return None
    return partial.stage(hosts.pop())


def _outer_loops(reader: Stage, *, is_tiled: bool) -> Iterator[Loop]:
    """The loops up to the inner tile: to the first reduce loop of a stage that is not tiled."""
    has_reduce = False
    for loop in reader.iterators:
        is_reduce = loop.kind is AxisKind.REDUCE
        has_reduce |= is_reduce
        is_inside = is_reduce and not is_tiled
        if is_inside or (has_reduce and not is_reduce) or loop.mark is Mark.UNROLL:
            return
        if loop.extent != 1:
            yield loop


def _vectorize_last(partial: PartialSketch, stage: Stage) -> PartialSketch:
    """Return the sketch with the last loop of a stage vectorised if it is a space loop."""
    last = stage.iterators[-1] if stage.iterators else None
    if last is None or last.mark is not Mark.NONE or last.kind is not AxisKind.SPACE:
        return partial
    is_held = bool(partial.state.stages_inside(stage.name, last.name))
    return partial if is_held else partial.then(Vectorize(stage.name, last.name))


PAPER_PLACEMENT = Placement(_evenly_placed, _vectorize_last)
"""The places of the paper, of which an even choice is made, and no loop shaped for vectors."""
