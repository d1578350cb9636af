"""The same applications as Halide has them, to be scheduled by its autoschedulers."""

# Halide's Python package has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import halide as hl

from bench.pipelines.definitions import COLUMNS, LEVELS, ROWS, STENCILS, gaussian

Inputs = Sequence[Any]
"""One `ImageParam` for each input."""
x, y, z, c, n, k = (hl.Var(name) for name in ("x", "y", "z", "c", "n", "k"))


def total(terms: Sequence[Any]) -> Any:
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return result


def define(name: str, places: Sequence[Any], value: Any) -> Any:
    function = hl.Func(name)
    function[tuple(places)] = value
    return function


def at_edge(image: Any) -> Any:
    """Return the image with its edge repeated along the first two dimensions."""
    bounds = [hl.Range(image.dim(d).min(), image.dim(d).extent()) for d in range(2)]
    rest = [hl.Range() for _ in range(image.dimensions() - 2)]
    return hl.BoundaryConditions.repeat_edge(image, bounds + rest)


def blur(inputs: Inputs) -> Any:
    image = at_edge(inputs[0])
    across = define("across", (x, y), total([image[x + d, y] for d in (-1, 0, 1)]) / 3.0)
    return define("down", (x, y), total([across[x, y + d] for d in (-1, 0, 1)]) / 3.0)


def _gray(image: Any) -> Any:
    weights = (0.299, 0.587, 0.114)
    value = total([image[x, y, channel] * hl.f32(weights[channel]) for channel in range(3)])
    return define("gray", (x, y), value)


def unsharp(inputs: Inputs) -> Any:
    gray, taps = _gray(at_edge(inputs[0])), [hl.f32(tap) for tap in gaussian(1.5)]
    down = define("down", (x, y), total([gray[x, y] * taps[0]] + [
        (gray[x, y - d] + gray[x, y + d]) * taps[d] for d in (1, 2, 3)
    ]))  # fmt: skip
    across = define("across", (x, y), total([down[x, y] * taps[0]] + [
        (down[x - d, y] + down[x + d, y]) * taps[d] for d in (1, 2, 3)
    ]))  # fmt: skip
    ratio = define("ratio", (x, y), (2.0 * gray[x, y] - across[x, y]) / gray[x, y])
    return define("sharpened", (x, y, c), ratio[x, y] * inputs[0][x, y, c])


def harris(inputs: Inputs) -> Any:
    gray, taps = _gray(at_edge(inputs[0])), ((-1, 0, 1), (-2, 0, 2), (-1, 0, 1))
    down = define("down", (x, y), total([
        gray[x + i - 1, y + j - 1] * hl.f32(taps[i][j] / 12)
        for j in range(3) for i in range(3) if taps[i][j]
    ]))  # fmt: skip
    across = define("across", (x, y), total([
        gray[x + i - 1, y + j - 1] * hl.f32(taps[j][i] / 12)
        for j in range(3) for i in range(3) if taps[j][i]
    ]))  # fmt: skip

    def summed(a: Any, b: Any, name: str) -> Any:
        product = define(f"{name}_product", (x, y), a[x, y] * b[x, y])
        parts = [product[x + i, y + j] for j in (-1, 0, 1) for i in (-1, 0, 1)]
        return define(name, (x, y), total(parts))

    xx, yy = summed(across, across, "xx"), summed(down, down, "yy")
    xy = summed(across, down, "xy")
    determinant = xx[x, y] * yy[x, y] - xy[x, y] * xy[x, y]
    trace = xx[x, y] + yy[x, y]
    return define("corners", (x, y), determinant - hl.f32(0.04) * trace * trace)


def stencil_chain(inputs: Inputs) -> Any:
    stage = at_edge(inputs[0])
    for number in range(STENCILS):
        terms = [
            stage[x + i - 2, y + j - 2] * hl.u16((i + 1) * (j + 1))
            for j in range(5) for i in range(5)
        ]  # fmt: skip
        stage = define(f"stencil{number}", (x, y), total(terms))
    return stage


def bilateral_grid(inputs: Inputs) -> Any:
    image, size = at_edge(inputs[0]), 8
    domain = hl.RDom([(0, size), (0, size)], "r")
    value = hl.clamp(image[x * size + domain.x - size // 2, y * size + domain.y - size // 2],
                     hl.f32(0), hl.f32(1))  # fmt: skip
    level = hl.i32(value * hl.f32(10) + hl.f32(0.5))
    grid = hl.Func("grid")
    grid[x, y, z, c] = hl.f32(0)
    grid[x, y, level, c] += hl.select(c == 0, value, hl.f32(1))
    taps = [hl.f32(tap) for tap in (1, 4, 6, 4, 1)]
    places = (x, y, z, c)
    deep = define("deep", places, total([grid[x, y, z + d - 2, c] * taps[d] for d in range(5)]))
    wide = define("wide", places, total([deep[x + d - 2, y, z, c] * taps[d] for d in range(5)]))
    high = define("high", places, total([wide[x, y + d - 2, z, c] * taps[d] for d in range(5)]))
    bright = hl.clamp(inputs[0][x, y], hl.f32(0), hl.f32(1)) * hl.f32(10)
    low = hl.clamp(hl.i32(bright), 0, 9)
    share = bright - hl.f32(low)
    fx, fy = hl.f32(x % size) / hl.f32(size), hl.f32(y % size) / hl.f32(size)
    gx, gy = x // size, y // size

    def between(a: Any, b: Any, part: Any) -> Any:
        return a + (b - a) * part

    def plane(dz: int) -> Any:
        rows = [
            between(high[gx, gy + r, low + dz, c], high[gx + 1, gy + r, low + dz, c], fx)
            for r in (0, 1)
        ]
        return between(rows[0], rows[1], fy)

    mixed = define("mixed", (x, y, c), between(plane(0), plane(1), share))
    return define("smoothed", (x, y), mixed[x, y, 0] / mixed[x, y, 1])


def nl_means(inputs: Inputs) -> Any:
    image, patch, window = at_edge(inputs[0]), 7, 7
    i, j = hl.Var("i"), hl.Var("j")
    half = window // 2
    squares = [
        (image[x, y, channel] - image[x + i, y + j, channel])
        * (image[x, y, channel] - image[x + i, y + j, channel])
        for channel in range(3)
    ]
    difference = define("difference", (x, y, i, j), total(squares))
    reach = range(-(patch // 2), patch // 2 + 1)
    down = define("down", (x, y, i, j), total([difference[x, y + d, i, j] for d in reach]))
    scale = hl.f32(-1.0 / (0.12 * 0.12 * patch * patch))
    weight = define(
        "weight", (x, y, i, j), hl.exp(total([down[x + d, y, i, j] for d in reach]) * scale)
    )
    over = hl.RDom([(-half, window), (-half, window)], "over")
    sums, weights = hl.Func("sums"), hl.Func("weights")
    sums[x, y, c] = hl.f32(0)
    sums[x, y, c] += weight[x, y, over.x, over.y] * image[x + over.x, y + over.y, c]
    weights[x, y] = hl.f32(0)
    weights[x, y] += weight[x, y, over.x, over.y]
    return define("denoised", (x, y, c), sums[x, y, c] / weights[x, y])


def interpolate(inputs: Inputs) -> Any:
    image = inputs[0]
    value = hl.select(c < 3, image[x, y, c] * image[x, y, 3], image[x, y, 3])
    sizes = [(COLUMNS, ROWS)]
    down = [define("level0", (x, y, c), value)]
    for level in range(1, LEVELS):
        wide, high = sizes[-1]
        before = Cut(down[-1], wide, high)
        across = define(
            f"across{level}", (x, y, c),
            (before[2 * x - 1, y, c] + hl.f32(2) * before[2 * x, y, c] + before[2 * x + 1, y, c])
            * hl.f32(0.25),
        )  # fmt: skip
        sizes.append((-(-wide // 2), -(-high // 2)))
        halved = Cut(across, sizes[-1][0], high)
        down.append(define(
            f"level{level}", (x, y, c),
            (halved[x, 2 * y - 1, c] + hl.f32(2) * halved[x, 2 * y, c] + halved[x, 2 * y + 1, c])
            * hl.f32(0.25),
        ))  # fmt: skip
    up = down[-1]
    for level in reversed(range(LEVELS - 1)):
        coarse = Cut(up, *sizes[level + 1])
        wider = define(
            f"wider{level}", (x, y, c),
            (coarse[x // 2, y, c] + coarse[(x + 1) // 2, y, c]) * hl.f32(0.5),
        )  # fmt: skip
        tall = Cut(wider, sizes[level][0], sizes[level + 1][1])
        larger = define(
            f"larger{level}", (x, y, c),
            (tall[x, y // 2, c] + tall[x, (y + 1) // 2, c]) * hl.f32(0.5),
        )  # fmt: skip
        fine = down[level]
        up = define(
            f"mixed{level}", (x, y, c),
            fine[x, y, c] + (hl.f32(1) - fine[x, y, 3]) * larger[x, y, c],
        )  # fmt: skip
    return define("filled", (x, y, c), up[x, y, c] / up[x, y, 3])


class Cut:
    """A function whose places are cut off at the edges of its extents."""

    def __init__(self, function: Any, columns: int, rows: int) -> None:
        self.function, self.columns, self.rows = function, columns, rows

    def __getitem__(self, places: tuple[Any, ...]) -> Any:
        column, row, *rest = places
        column = hl.clamp(column, 0, self.columns - 1)
        return self.function[(column, hl.clamp(row, 0, self.rows - 1), *rest)]


def conv_layer(inputs: Inputs) -> Any:
    data, weights, bias = inputs
    domain = hl.RDom([(0, 128), (0, 3), (0, 3)], "r")
    conv = hl.Func("conv")
    conv[c, x, y, n] = hl.f32(0)
    conv[c, x, y, n] += (
        data[domain.x, x + domain.y, y + domain.z, n]
        * weights[c, domain.x, domain.y, domain.z]
    )  # fmt: skip
    return define("activated", (c, x, y, n), hl.max(conv[c, x, y, n] + bias[c], hl.f32(0)))


def mat_mul(inputs: Inputs) -> Any:
    a, b = inputs
    domain = hl.RDom([(0, 1024)], "r")
    product = hl.Func("product")
    product[x, y] = hl.f32(0)
    product[x, y] += a[domain.x, y] * b[x, domain.x]
    return define("result", (x, y), product[x, y])
