"""Layouts of operands: constants laid out before the first call, panels packed in kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ansorc.errors import ScheduleError
from ansorc.ir.arith.affine import affine
from ansorc.ir.expr import Load
from ansorc.schedule.extent import Hole
from ansorc.schedule.stage import AxisKind, Stage
from ansorc.schedule.steps import CacheRead, ComputeAt, Panel, Reorder, RewriteLayout, Split
from ansorc.search.sketch.predicates import CACHE_SCOPE
from ansorc.search.sketch.rule import PartialSketch, vector_axis
from ansorc.search.sketch.sketch import RegisterTile, Sketch


def rewrite_layouts(sketch: Sketch) -> Sketch:
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


def pack_operand(sketch: Sketch) -> Iterator[Sketch]:
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
        loop = "" if "no_cache_read" in dict(stage.op.hints) else _panel_loop(stage)
        operands = vector_operands(stage) if loop else {}
        for operand, dimension in operands.items():
            if operand in partial.state.rewritten:
                continue
            try:
                read = partial.then(CacheRead(operand, CACHE_SCOPE, (stage.name,)))
                (copy,) = read.state.beyond(partial.state)
                filled = read.then(ComputeAt(copy.name, stage.name, loop))
            except ScheduleError:
                continue  # the operand is computed inside this stage's own loops
            made = _in_panels(filled, copy.name, tile, dimension)
            yield made.with_trace(f"pack {operand}").sketch()


def _in_panels(
    partial: PartialSketch, copy: str, tile: RegisterTile, dimension: int
) -> PartialSketch:
    """Return the sketch with `copy` held and filled in panels as wide as the register tile."""
    name = tile.variables[tile.vector]
    variable = next((v for v in partial.variables if v.name == name), None)
    if variable is None:
        return partial
    others = [iterator.name for iterator in partial.stage(copy).iterators]
    along = others.pop(dimension)
    width = Hole(name, (variable.levels - 1,))
    split = Split(copy, along, (width,))
    outer, inner = split.made
    return partial.then(split, Reorder(copy, (outer, *others, inner)), Panel(copy, inner))


def vector_operands(stage: Stage) -> dict[str, int]:
    """Return the tensors that the vectors of `stage` run along in one dimension, and which.

    Each is read again: some longer axis is in none of its indices. Its elements adjoin in that
    dimension, or else along a reduce axis.
    """
    contiguous = vector_axis(stage.op)
    if contiguous is None:
        return {}
    name = stage.op.axes[contiguous].name
    reduce = [axis.name for axis in stage.op.reduce_axes]
    dimensions: dict[str, set[int | None]] = {}
    for load in (node for node in stage.op.nodes() if isinstance(node, Load) and node.indices):
        forms = [affine(index) for index in load.indices]
        known = [{} if form is None else form.terms for form in forms]
        along = [n for n, terms in enumerate(known) if name in terms]
        is_reused = any(a.extent > 1 and not any(a.name in t for t in known) for a in stage.op.axes)
        fits = None not in forms and len(along) == 1 and known[along[0]][name] == 1
        adjoins = name in known[-1] or any(known[-1].get(each) == 1 for each in reduce)
        fits = fits and is_reused and adjoins
        dimensions.setdefault(load.buffer.name, set()).add(along[0] if fits else None)
    pairs = ((tensor, *places) for tensor, places in dimensions.items() if len(places) == 1)
    return {tensor: dimension for tensor, dimension in pairs if dimension is not None}


def _panel_loop(stage: Stage) -> str:
    """Return the last loop of the outermost reduce level; "" for a stage without one."""
    places = [n for n, it in enumerate(stage.iterators) if it.kind is AxisKind.REDUCE]
    if not places:
        return ""
    last = places[0]
    while last + 1 in places:
        last += 1
    return stage.iterators[last].name
