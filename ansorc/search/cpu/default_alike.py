"""Tile lengths of another program that lays its constants out alike: what a default may keep.

Two computations that differ in an extent or two, such as one network for two batch sizes, read the
same constants. If they are to read them in one layout, what walks over the constants must be tiled
alike; the rest is free.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ansorc.ir.arith.affine import affine
from ansorc.schedule.extent import Hole
from ansorc.schedule.names import Steps
from ansorc.schedule.stage import At
from ansorc.schedule.steps import ComputeInline, Fuse, Parallelize, Pragma, Split, Unroll, Vectorize
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.genes import table_of


def find_kept_columns(sketch: Sketch, steps: Steps) -> Mapping[int, int] | None:
    """Return the genes of `sketch` that lay constants out as the program `steps` does, by column.

    None if `steps` is a program of another structure, or of lengths that the sketch has not.
    """
    chosen = _holes_of(sketch, steps)
    if chosen is None:
        return None
    genes: dict[int, int] = {}
    axes = _constant_axes(sketch)
    for column, variable in enumerate(sketch.variables):
        if (variable.stage, variable.axis) not in axes:
            continue
        rows = table_of(sketch, variable).rows
        fits = np.ones(len(rows), dtype=np.bool_)
        for levels, length in chosen.get(variable.name, {}).items():
            fits &= np.prod(rows[:, list(levels)], axis=1) == length
        if not fits.any():
            return None
        genes[column] = int(np.argmax(fits))
    return genes


def _holes_of(sketch: Sketch, steps: Steps) -> dict[str, dict[tuple[int, ...], int]] | None:
    """Return the lengths in `steps` where `sketch` has holes, by variable and levels.

    Return None if the steps differ in anything else.
    """
    stages = _readers(sketch)
    mine, others = (
        [step for step in listed if step.stage in stages and not isinstance(step, _MARKS)]
        for listed in (sketch.steps, steps)
    )
    if len(mine) != len(others):
        return None
    lengths: dict[str, dict[tuple[int, ...], int]] = {}
    for open_step, other in zip(mine, others, strict=True):
        if not isinstance(open_step, Split) or not isinstance(other, Split):
            if open_step != other:
                return None
            continue
        if (open_step.stage, open_step.iterator, len(open_step.lengths)) != (
            other.stage, other.iterator, len(other.lengths),
        ):  # fmt: skip
            return None
        for length, value in zip(open_step.lengths, other.lengths, strict=True):
            if isinstance(length, Hole) and isinstance(value, int):
                lengths.setdefault(length.variable, {})[length.levels] = value
    return lengths


_MARKS = (ComputeInline, Fuse, Parallelize, Pragma, Unroll, Vectorize)
"""Steps that change the order in which no constant is read."""


def _readers(sketch: Sketch) -> set[str]:
    """Return the stages that read constants, and those in whose loops they are computed."""
    state = sketch.state
    readers = {stage for stage, _ in _constant_axes(sketch)}
    waiting = list(readers)
    while waiting:
        attach = state.stage(waiting.pop()).attach
        if isinstance(attach, At) and attach.stage not in readers:
            readers.add(attach.stage)
            waiting.append(attach.stage)
    return readers


def _constant_axes(sketch: Sketch) -> set[tuple[str, str]]:
    """Return the axes that walk over constants, as pairs of stage and axis."""
    axes: set[tuple[str, str]] = set()
    for stage in sketch.state.stages:
        for load in stage.op.loads:
            forms = map(affine, load.indices if load.buffer.constant else ())
            axes |= {(stage.name, axis) for form in forms if form for axis in form.terms}
    return axes
