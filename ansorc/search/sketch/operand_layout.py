"""Layouts of operands: constants laid out before the first call, panels packed in kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ansorc.errors import ScheduleError
from ansorc.ir.arith.affine import affine
from ansorc.ir.expr import Load
from ansorc.schedule.extent import Hole
from ansorc.schedule.stage import IteratorKind, Stage
from ansorc.schedule.steps import CacheRead, ComputeAt, Panel, Reorder, RewriteLayout, Split
from ansorc.search.sketch.predicates import CACHE_SCOPE
from ansorc.search.sketch.rule import PartialSketch, vector_axis
from ansorc.search.sketch.sketch import RegisterTile, Sketch


def laid_out(sketch: Sketch) -> Sketch:
    """Return `sketch` with the layout of every constant that a tile reads rewritten.

    A constant that is not read by one stage alone, along its axes, stays as it is. (Paper, section
    4.2; there it is done to every sampled program.)
    """
    state = sketch.state
    words = [sketch.name] if sketch.name else []
    for tile in sketch.register_tiles:
        for buffer in state.stage(tile.stage).op.reads:
            if not buffer.constant:
                continue
            try:
                state = state.then(RewriteLayout(tile.stage, buffer.name))
            except ScheduleError:
                continue  # another stage reads it too, or by indices that do not step along axes
            words.append(f"lay out {buffer.name}")
    return replace(sketch, name=", ".join(words), steps=state.steps)


def packed(sketch: Sketch) -> Iterator[Sketch]:
    """Yield `sketch` with the vector operand of one of its tiles packed, for each such operand.

        for i0, j0, k0:                          for i0, j0, k0:
            for i1, j1, k1, i2, j2:      ->          for j0, k, j1: B.local[j0, k, j1] = B
                C += A * B                           for i1, j1, k1, i2, j2: C += A * B.local

    The copy is made in the outermost reduce level, and used by all tiles inside it. It is held in
    panels as wide as the register tile. A constant whose layout is rewritten is packed already.
    """
    partial = PartialSketch.of(sketch)
    for tile in sketch.register_tiles:
        stage = partial.stage(tile.stage)
        place = "" if "no_cache_read" in dict(stage.op.hints) else _panel_loop(stage)
        operands = [o for o in vector_operands(stage) if place and o not in partial.state.rewritten]
        for operand in operands:
            try:
                read = partial.then(CacheRead(operand, CACHE_SCOPE, (stage.name,)))
                (copy,) = read.state.beyond(partial.state)
                filled = read.then(ComputeAt(copy.name, stage.name, place))
            except ScheduleError:
                continue  # the operand is computed inside this stage's own loops
            yield _in_panels(filled, copy.name, tile).with_trace(f"pack {operand}").sketch()


def _in_panels(partial: PartialSketch, copy: str, tile: RegisterTile) -> PartialSketch:
    """Return the sketch with `copy` held and filled in panels as wide as the register tile."""
    name = tile.variables[tile.vector]
    variable = next((v for v in partial.variables if v.name == name), None)
    if variable is None:
        return partial
    *others, along = (iterator.name for iterator in partial.stage(copy).iterators)
    width = Hole(name, (variable.levels - 1,))
    split = Split(copy, along, (width,))
    outer, inner = split.made
    return partial.then(split, Reorder(copy, (outer, *others, inner)), Panel(copy, inner))


def vector_operands(stage: Stage) -> list[str]:
    """Return the tensors whose rows the vectors of `stage` run along and which it reads again.

    Their last index moves with the contiguous axis, and some longer axis is in none of the indices.
    """
    contiguous = vector_axis(stage.op)
    if contiguous is None:
        return []
    name = stage.op.axes[contiguous].name
    found: dict[str, bool] = {}
    for load in stage.op.nodes():
        if not isinstance(load, Load) or not load.indices:
            continue
        forms = [affine(index) for index in load.indices]
        used = {term for form in forms if form is not None for term in form.terms}
        last = forms[-1]
        is_reused = any(a.extent > 1 and a.name not in used for a in stage.op.axes)
        runs_along = last is not None and last.coefficient(name) == 1
        fits = is_reused and runs_along and all(form is not None for form in forms)
        found[load.buffer.name] = found.get(load.buffer.name, True) and fits
    return [tensor for tensor, fits in found.items() if fits]


def _panel_loop(stage: Stage) -> str:
    """The last loop of the outermost reduce level; "" for a stage without one."""
    places = [n for n, it in enumerate(stage.iterators) if it.kind is IteratorKind.REDUCE]
    if not places:
        return ""
    last = places[0]
    while last + 1 in places:
        last += 1
    return stage.iterators[last].name
