"""The applications of `pyramids.py` as Halide has them, to be scheduled by its autoschedulers."""

# Halide's Python package has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import halide as hl

from bench.pipelines import pyramids
from bench.pipelines.definitions import COLUMNS, ROWS
from bench.pipelines.halide_definitions import Cut, Inputs, at_edge, c, define, k, total, x, y, z

s = hl.Var("s")
Sizes = list[tuple[int, int]]
"""Columns and rows of each level of a pyramid."""


def _sizes(columns: int, rows: int) -> Sizes:
    sizes = [(columns, rows)]
    for _ in range(1, pyramids.LEVELS):
        columns, rows = -(-columns // 2), -(-rows // 2)
        sizes.append((columns, rows))
    return sizes


def _pyramid(image: Any, sizes: Sizes, rest: Sequence[Any], name: str) -> list[Any]:
    """Return the levels of a pyramid of images with the further dimensions `rest`."""
    levels, taps = [image], [hl.f32(tap) for tap in (0.125, 0.375, 0.375, 0.125)]
    for level in range(1, pyramids.LEVELS):
        (wide, high), (narrow, _) = sizes[level - 1 : level + 1]
        before = Cut(levels[-1], wide, high)
        across = define(
            f"{name}_across{level}", (x, y, *rest),
            total([before[(2 * x + d - 1, y, *rest)] * taps[d] for d in range(4)]),
        )  # fmt: skip
        cut = Cut(across, narrow, high)
        value = total([cut[(x, 2 * y + d - 1, *rest)] * taps[d] for d in range(4)])
        levels.append(define(f"{name}{level}", (x, y, *rest), value))
    return levels


def _doubled(image: Any, sizes: Sizes, level: int, rest: Sequence[Any], name: str) -> Any:
    """Return level `level` of a pyramid from an image of the next one."""
    (wide, _), (narrow, low) = sizes[level : level + 2]
    near, far = hl.f32(0.75), hl.f32(0.25)
    cut = Cut(image, narrow, low)
    across = define(
        f"{name}_across", (x, y, *rest),
        cut[(x // 2, y, *rest)] * near + cut[(x // 2 - 1 + 2 * (x % 2), y, *rest)] * far,
    )  # fmt: skip
    tall = Cut(across, wide, low)
    value = tall[(x, y // 2, *rest)] * near + tall[(x, y // 2 - 1 + 2 * (y % 2), *rest)] * far
    return define(name, (x, y, *rest), value)


def local_laplacian(inputs: Inputs) -> Any:
    image, sizes = inputs[0], _sizes(COLUMNS, ROWS)
    tones, last = pyramids.TONES, pyramids.STEPS * (pyramids.TONES - 1)
    gray = define(
        "gray", (x, y), total([image[x, y, d] * hl.f32(pyramids.WEIGHTS[d]) for d in range(3)])
    )
    distance = hl.f32(x) / hl.f32(pyramids.STEPS)
    value = distance * hl.exp(-distance * distance / hl.f32(2)) / hl.f32(tones - 1)
    table = define("table", (x,), value)
    place = hl.clamp(hl.i32(gray[x, y] * hl.f32(last)), 0, last)
    remapped = define("remapped", (x, y, k), gray[x, y] + table[place - pyramids.STEPS * k])
    bent = _pyramid(remapped, sizes, (k,), "bent")
    bright = _pyramid(gray, sizes, (), "bright")
    result = None
    for level in reversed(range(pyramids.LEVELS)):
        details = bent[level]
        if level + 1 < pyramids.LEVELS:
            smooth = _doubled(bent[level + 1], sizes, level, (k,), f"smooth{level}")
            details = define(f"details{level}", (x, y, k), details[x, y, k] - smooth[x, y, k])
        place = bright[level][x, y] * hl.f32(tones - 1)
        tone = hl.clamp(hl.i32(place), 0, tones - 2)
        share = place - hl.f32(tone)
        blended = define(
            f"blended{level}", (x, y),
            (hl.f32(1) - share) * details[x, y, tone] + share * details[x, y, tone + 1],
        )  # fmt: skip
        if result is None:
            result = blended
            continue
        grown = _doubled(result, sizes, level, (), f"grown{level}")
        result = define(f"output{level}", (x, y), grown[x, y] + blended[x, y])
    assert result is not None
    small = hl.f32(0.01)
    value = result[x, y] * (image[x, y, c] + small) / (gray[x, y] + small)
    return define("enhanced", (x, y, c), value)


def lens_blur(inputs: Inputs) -> Any:
    columns, rows = 320, 192
    depth = _depths(inputs, _sizes(columns, rows))
    radius = define(
        "radius", (x, y),
        hl.abs(hl.f32(depth[x, y]) - hl.f32(pyramids.FOCUS)) * hl.f32(pyramids.SPREAD),
    )  # fmt: skip
    window = (-pyramids.REACH, 2 * pyramids.REACH + 1)
    d, e = hl.RDom([window], "d"), hl.RDom([window], "e")
    tall, widest = hl.Func("tall"), hl.Func("widest")
    tall[x, y] = hl.f32(0)
    tall[x, y] = hl.max(tall[x, y], radius[x, hl.clamp(y + d.x, 0, rows - 1)])
    widest[x, y] = hl.f32(0)
    widest[x, y] = hl.max(widest[x, y], tall[hl.clamp(x + e.x, 0, columns - 1), y])
    return _gather_light(inputs[0], radius, widest, (columns, rows))


def _depths(inputs: Inputs, sizes: Sizes) -> Any:
    left, right = inputs[0], at_edge(inputs[1])
    differences = [
        hl.min(
            hl.abs(left[x, y, d] - right[x + 2 * z, y, d]),
            hl.abs(left[x, y, d] - right[x + 2 * z + 1, y, d]),
        )
        for d in range(3)
    ]
    cost = define("cost", (x, y, z), total(differences) * total(differences))
    slices, count = hl.RDom([(0, pyramids.SLICES)], "slices"), hl.f32(pyramids.SLICES)
    sums, squares = hl.Func("sums"), hl.Func("squares")
    sums[x, y] = hl.f32(0)
    sums[x, y] += cost[x, y, slices.x]
    squares[x, y] = hl.f32(0)
    squares[x, y] += cost[x, y, slices.x] * cost[x, y, slices.x]
    mean = sums[x, y] / count
    confidence = squares[x, y] / count - mean * mean
    weighed = define(
        "weighed", (x, y, z, c), hl.select(c == 0, cost[x, y, z] * confidence, confidence)
    )
    pushed = _pyramid(weighed, sizes, (z, c), "pushed")
    pulled = pushed[-1]
    for level in reversed(range(pyramids.LEVELS - 1)):
        coarse = _doubled(pulled, sizes, level, (z, c), f"larger{level}")
        mixed = (coarse[x, y, z, c] + pushed[level][x, y, z, c]) * hl.f32(0.5)
        pulled = define(f"pulled{level}", (x, y, z, c), mixed)
    filtered = define("filtered", (x, y, z), pulled[x, y, z, 0] / pulled[x, y, z, 1])
    return define("depth", (x, y), hl.argmin(filtered[x, y, slices.x])[0])


def _gather_light(image: Any, radius: Any, widest: Any, size: tuple[int, int]) -> Any:
    length = hl.sqrt((hl.f32(s) + hl.f32(0.5)) / hl.f32(pyramids.SAMPLES))
    angle = hl.f32(s) * hl.f32(2.4)
    across = define("across", (s,), length * hl.cos(angle))
    down = define("down", (s,), length * hl.sin(angle))

    def moved(table: Any, sample: Any) -> Any:
        return hl.i32(hl.floor(table[sample] * widest[x, y] + hl.f32(0.5)))

    def place(sample: Any) -> tuple[Any, Any]:
        dx, dy = moved(across, sample), moved(down, sample)
        return hl.clamp(x + dx, 0, size[0] - 1), hl.clamp(y + dy, 0, size[1] - 1)

    there, dx, dy = radius[place(s)], moved(across, s), moved(down, s)
    is_near = hl.f32(dy * dy + dx * dx) <= there * there
    weight = define("weight", (x, y, s), hl.select(is_near, hl.f32(1), hl.f32(0)))
    samples = hl.RDom([(0, pyramids.SAMPLES)], "samples")
    light, weights = hl.Func("light"), hl.Func("weights")
    light[x, y, c] = hl.f32(0)
    light[x, y, c] += weight[x, y, samples.x] * image[(*place(samples.x), c)]
    weights[x, y] = hl.f32(0)
    weights[x, y] += weight[x, y, samples.x]
    value = (light[x, y, c] + image[x, y, c]) / (weights[x, y] + hl.f32(1))
    return define("blurred", (x, y, c), value)
