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


def kept_columns(sketch: Sketch, steps: Steps) -> Mapping[int, int] | None:
    """Return the genes of `sketch` that lay constants out as the program `steps` does, by column.

    None if `steps` is a program of another structure, or of lengths that the sketch has not.
    """
    chosen = _holes_of(sketch, steps)
    if chosen is None:
        return None
    found: dict[int, int] = {}
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
        found[column] = int(np.argmax(fits))
    return found


def _holes_of(sketch: Sketch, steps: Steps) -> dict[str, dict[tuple[int, ...], int]] | None:
    """The lengths that `steps` has where `sketch` has holes, by variable and levels."""
    stages = _readers(sketch)
    mine, others = (
        [one for one in listed if one.stage in stages and not isinstance(one, _MARKS)]
        for listed in (sketch.steps, steps)
    )
    if len(mine) != len(others):
        return None
    found: dict[str, dict[tuple[int, ...], int]] = {}
    for own, other in zip(mine, others, strict=True):
        if not isinstance(own, Split) or not isinstance(other, Split):
            if own != other:
                return None
            continue
        if (own.stage, own.iterator, len(own.lengths)) != (
            other.stage, other.iterator, len(other.lengths),
        ):  # fmt: skip
            return None
        for length, value in zip(own.lengths, other.lengths, strict=True):
            if isinstance(length, Hole) and isinstance(value, int):
                found.setdefault(length.variable, {})[length.levels] = value
    return found


_MARKS = (ComputeInline, Fuse, Parallelize, Pragma, Unroll, Vectorize)
"""Steps that change the order in which no constant is read."""


def _readers(sketch: Sketch) -> set[str]:
    """The stages that read constants, and those in whose loops they are computed."""
    state = sketch.state
    found = {stage for stage, _ in _constant_axes(sketch)}
    waiting = list(found)
    while waiting:
        attach = state.stage(waiting.pop()).attach
        if isinstance(attach, At) and attach.stage not in found:
            found.add(attach.stage)
            waiting.append(attach.stage)
    return found


def _constant_axes(sketch: Sketch) -> set[tuple[str, str]]:
    """The axes that walk over constants, each with the stage that it is of."""
    found: set[tuple[str, str]] = set()
    for stage in sketch.state.stages:
        for load in stage.op.loads:
            forms = map(affine, load.indices if load.buffer.constant else ())
            found |= {(stage.name, axis) for form in forms if form for axis in form.terms}
    return found
