"""The filters of `filters.py` as Halide has them, to be scheduled by its autoschedulers."""

# Halide's Python package has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

import halide as hl

from bench.pipelines.definitions import COLUMNS, ROWS
from bench.pipelines.filters import BLEND, LEVELS, WEIGHTS
from bench.pipelines.halide_definitions import Inputs, c, define, total, x, y

v = hl.Var("v")


def hist(inputs: Inputs) -> Any:
    image = inputs[0]

    def wide(channel: int) -> Any:
        return hl.i32(image[x, y, channel])

    bright = define("bright", (x, y), hl.u8(total([wide(d) * WEIGHTS[d] for d in range(3)]) >> 8))
    across, along = hl.RDom([(0, COLUMNS)], "across"), hl.RDom([(0, ROWS)], "along")
    rows, counts, below = hl.Func("row_counts"), hl.Func("counts"), hl.Func("below")
    rows[v, y] = 0
    rows[hl.i32(bright[across.x, y]), y] += 1
    counts[v] = 0
    counts[v] += rows[v, along.x]
    values = hl.RDom([(1, LEVELS - 1)], "values")
    below[v] = counts[0]
    below[values.x] = below[values.x - 1] + counts[values.x]
    table = define("table", (v,), hl.i32(hl.i64(below[v]) * (LEVELS - 1) // (ROWS * COLUMNS)))
    old = hl.i32(bright[x, y])
    new = table[hl.clamp(old, 0, LEVELS - 1)]
    red, blue = ((wide(0) - old) * 183) >> 8, ((wide(2) - old) * 144) >> 8
    moved = (red * 359) >> 8, -((blue * 88 + red * 183) >> 8), (blue * 454) >> 8
    change = hl.select(c == 0, moved[0], c == 1, moved[1], moved[2])
    return define("equalised", (x, y, c), hl.u8(hl.clamp(new + change, 0, 255)))


def iir_blur(inputs: Inputs) -> Any:
    first = _there_and_back(inputs[0], COLUMNS, ROWS, "columns")
    return _there_and_back(first, ROWS, COLUMNS, "rows")


def _there_and_back(image: Any, columns: int, rows: int, name: str) -> Any:
    """Filter down and up the columns; return the result transposed."""
    keep, part = hl.f32(1 - BLEND), hl.f32(BLEND)
    steps, function = hl.RDom([(1, rows - 1)], f"{name}_steps"), hl.Func(name)
    function[x, y, c] = hl.undef(hl.Float(32))
    function[x, 0, c] = image[x, 0, c]
    function[x, steps.x, c] = keep * function[x, steps.x - 1, c] + part * image[x, steps.x, c]
    back = rows - 1 - steps.x
    function[x, back, c] = keep * function[x, back + 1, c] + part * function[x, back, c]
    return define(f"{name}_turned", (x, y, c), function[y, x, c])
