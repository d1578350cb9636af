"""The camera pipe of `camera.py` as Halide has it, to be scheduled by its autoschedulers."""

# Halide's Python package has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import halide as hl

from bench.pipelines.camera import MARGIN, MATRIX, STRENGTH, WHITE
from bench.pipelines.halide_definitions import Inputs, at_edge, c, define, total, x, y

Place = tuple[int, int]
"""Rows down and columns along."""


def _mean(a: Any, b: Any) -> Any:
    return (a + b + hl.i16(1)) >> 1


def _distance(a: Any, b: Any) -> Any:
    return hl.max(a, b) - hl.min(a, b)


def _at(plane: Any, place: Place) -> Any:
    return plane[x + place[1], y + place[0]]


def camera_pipe(inputs: Inputs) -> Any:
    raw = at_edge(inputs[0])  # a schedule may compute more than the image

    def point(along: int, down: int) -> Any:
        return raw[x + MARGIN + along, y + MARGIN + down]

    most = hl.max(hl.max(point(-2, 0), point(2, 0)), hl.max(point(0, -2), point(0, 2)))
    calm = define("calm", (x, y), hl.i16(hl.min(point(0, 0), most)))
    planes = _colours(calm)
    bright = [
        hl.clamp(
            (total([hl.i32(planes[d][x, y]) * row[d] for d in range(3)]) + row[3]) >> 8, 0, WHITE
        )
        for row in MATRIX
    ]
    v = hl.Var("v")
    bent = hl.u8((v * v * (3 * WHITE - 2 * v) // (WHITE * WHITE)) >> 2)
    curve = define("curve", (v,), bent)
    place = hl.select(c == 0, bright[0], c == 1, bright[1], bright[2])
    curved = define("curved", (x, y, c), curve[hl.clamp(place, 0, WHITE)])
    down = define("blurred_down", (x, y, c), _blurred([curved[x, y + d, c] for d in (-1, 0, 1)]))
    across = define("blurred_across", (x, y, c), _blurred([down[x + d, y, c] for d in (-1, 0, 1)]))
    here = hl.i16(curved[x, y, c])
    edge = (here - hl.i16(across[x, y, c])) * hl.i16(STRENGTH)
    sharp = hl.clamp(here + (edge >> 5), hl.i16(0), hl.i16(255))
    return define("sharpened", (x, y, c), hl.u8(sharp))


def _blurred(parts: Sequence[Any]) -> Any:
    before, here, after = (hl.i16(part) for part in parts)
    return hl.u8((before + hl.i16(2) * here + after + hl.i16(2)) >> 2)


def _colours(calm: Any) -> tuple[Any, Any, Any]:
    gr, r, b, gb = (
        define(name, (x, y), calm[2 * x + number % 2, 2 * y + number // 2])
        for number, name in enumerate(("gr", "r", "b", "gb"))
    )

    def green(name: str, across: tuple[Any, Any], along: tuple[Any, Any]) -> Any:
        is_across = _distance(*across) < _distance(*along)
        return define(name, (x, y), hl.select(is_across, _mean(*across), _mean(*along)))

    here = (0, 0)
    g_r = green("g_r", (_at(gr, here), _at(gr, (0, 1))), (_at(gb, here), _at(gb, (-1, 0))))
    g_b = green("g_b", (_at(gb, here), _at(gb, (0, -1))), (_at(gr, here), _at(gr, (1, 0))))

    def beside(at: Any, plane: Any, greens: Any, ends: tuple[Place, Place]) -> Any:
        points, other = ([_at(p, end) for end in ends] for p in (plane, greens))
        return at[x, y] - _mean(*other) + _mean(*points)

    def crossed(at: Any, plane: Any, greens: Any, ways: tuple[tuple[Place, Place], ...]) -> Any:
        first, second = (beside(at, plane, greens, ends) for ends in ways)
        apart = [_distance(*(_at(plane, end) for end in ends)) for ends in ways]
        return hl.select(apart[0] < apart[1], first, second)

    values = {
        "r_gr": beside(gr, r, g_r, ((0, -1), here)),
        "b_gr": beside(gr, b, g_b, ((-1, 0), here)),
        "r_gb": beside(gb, r, g_r, (here, (1, 0))),
        "b_gb": beside(gb, b, g_b, (here, (0, 1))),
        "r_b": crossed(g_b, r, g_r, (((1, -1), here), ((0, -1), (1, 0)))),
        "b_r": crossed(g_r, b, g_b, (((-1, 1), here), ((-1, 0), (0, 1)))),
    }
    made = {name: define(name, (x, y), value) for name, value in values.items()}
    return (
        _interleaved("red", (made["r_gr"], r), (made["r_b"], made["r_gb"])),
        _interleaved("green", (gr, g_r), (g_b, gb)),
        _interleaved("blue", (made["b_gr"], made["b_r"]), (b, made["b_gb"])),
    )


def _interleaved(name: str, even: tuple[Any, Any], odd: tuple[Any, Any]) -> Any:
    upper, lower = (
        hl.select(x % 2 == 0, left[x // 2, y // 2], right[x // 2, y // 2])
        for left, right in (even, odd)
    )
    return define(name, (x, y), hl.select(y % 2 == 0, upper, lower))
