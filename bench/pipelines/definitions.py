"""The applications as ansorc has them. Images are [rows, columns], or [3, rows, columns].

The names are those of Halide's applications; the mathematics is written here anew. Borders repeat
the edge of the input, and stages before the last one are as much larger as their readers need.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import ansorc as ac

ROWS, COLUMNS = 1536, 2560
Tensors = list[ac.Tensor]
Place = ac.Scalar | int


def cut(place: Place, extent: int) -> ac.Scalar:
    """Return the place, moved into the extent."""
    return ac.minimum(ac.maximum(place, 0), extent - 1)


def at_edge(image: ac.Tensor, *places: Place) -> ac.Scalar:
    """Return the pixel at places of rows and columns (after channels) of which some may be cut."""
    *channels, row, column = places
    return image[(*channels, cut(row, image.shape[-2]), cut(column, image.shape[-1]))]


def total(terms: Sequence[ac.Scalar]) -> ac.Scalar:
    """Return the sum of terms, the first two first."""
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return result


def blur() -> Tensors:
    """Average 3 columns, then 3 rows."""
    image = ac.placeholder((ROWS, COLUMNS), "image")
    across = ac.compute(
        (ROWS + 2, COLUMNS),
        lambda y, x: total([at_edge(image, y - 1, x + d) for d in (-1, 0, 1)]) / 3,
        "across",
    )
    down = ac.compute(
        (ROWS, COLUMNS), lambda y, x: total([across[y + d, x] for d in range(3)]) / 3, "down"
    )
    return [image, down]


def gaussian(sigma: float) -> list[float]:
    """Return the weights of distances 0 to 3."""
    return [
        math.exp(-d * d / (2 * sigma * sigma)) / (math.sqrt(2 * math.pi) * sigma) for d in range(4)
    ]


def gray_of(image: ac.Tensor, margin: int) -> ac.Tensor:
    """Return the brightness of an image [3, rows, columns], with a margin all around."""
    rows, columns = image.shape[1:]
    weights = (0.299, 0.587, 0.114)
    return ac.compute(
        (rows + 2 * margin, columns + 2 * margin),
        lambda y, x: total([
            at_edge(image, c, y - margin, x - margin) * weights[c] for c in range(3)
        ]),
        "gray",
    )  # fmt: skip


def unsharp() -> Tensors:
    """Sharpen by the difference to a Gaussian blur of 7 x 7."""
    image = ac.placeholder((3, ROWS, COLUMNS), "image")
    gray, taps = gray_of(image, 3), gaussian(1.5)
    down = ac.compute(
        (ROWS, COLUMNS + 6),
        lambda y, x: total([gray[y + 3, x] * taps[0]] + [
            (gray[y + 3 - d, x] + gray[y + 3 + d, x]) * taps[d] for d in (1, 2, 3)
        ]),
        "down",
    )  # fmt: skip
    across = ac.compute(
        (ROWS, COLUMNS),
        lambda y, x: total([down[y, x + 3] * taps[0]] + [
            (down[y, x + 3 - d] + down[y, x + 3 + d]) * taps[d] for d in (1, 2, 3)
        ]),
        "across",
    )  # fmt: skip
    ratio = ac.compute(
        (ROWS, COLUMNS),
        lambda y, x: (2 * gray[y + 3, x + 3] - across[y, x]) / gray[y + 3, x + 3],
        "ratio",
    )
    result = ac.compute(
        (3, ROWS, COLUMNS), lambda c, y, x: ratio[y, x] * image[c, y, x], "sharpened"
    )
    return [image, result]


def harris() -> Tensors:
    """Find corners: 11 stages."""
    image = ac.placeholder((3, ROWS, COLUMNS), "image")
    gray = gray_of(image, 2)
    shape, taps = (ROWS + 2, COLUMNS + 2), ((-1, 0, 1), (-2, 0, 2), (-1, 0, 1))
    down = ac.compute(
        shape,
        lambda y, x: total([
            gray[y + r, x + c] * (taps[c][r] / 12) for r in range(3) for c in range(3) if taps[c][r]
        ]),
        "down",
    )  # fmt: skip
    across = ac.compute(
        shape,
        lambda y, x: total([
            gray[y + r, x + c] * (taps[r][c] / 12) for r in range(3) for c in range(3) if taps[r][c]
        ]),
        "across",
    )  # fmt: skip

    def summed(a: ac.Tensor, b: ac.Tensor, name: str) -> ac.Tensor:
        squares = ac.compute(shape, lambda y, x: a[y, x] * b[y, x], f"{name}.product")
        return ac.compute(
            (ROWS, COLUMNS),
            lambda y, x: total([squares[y + r, x + c] for r in range(3) for c in range(3)]),
            name,
        )

    xx, yy = summed(across, across, "xx"), summed(down, down, "yy")
    xy = summed(across, down, "xy")

    def corner(y: ac.Scalar, x: ac.Scalar) -> ac.Scalar:
        determinant = xx[y, x] * yy[y, x] - xy[y, x] * xy[y, x]
        trace = xx[y, x] + yy[y, x]
        return determinant - 0.04 * trace * trace

    return [image, ac.compute((ROWS, COLUMNS), corner, "corners")]


STENCILS = 32


def stencil_chain() -> Tensors:
    """Apply 32 stencils of 5 x 5 to 16-bit integers, one after another."""
    image = ac.placeholder((ROWS, COLUMNS), "image", "uint16")
    margin = 2 * STENCILS
    stage = ac.compute(
        (ROWS + 2 * margin, COLUMNS + 2 * margin),
        lambda y, x: at_edge(image, y - margin, x - margin),
        "bordered",
    )
    for number in range(STENCILS):
        stage = _stencil(stage, f"stencil{number}")
    return [image, stage]


def _stencil(before: ac.Tensor, name: str) -> ac.Tensor:
    rows, columns = before.shape
    return ac.compute(
        (rows - 4, columns - 4),
        lambda y, x: total([
            before[y + r, x + c] * ac.const((r + 1) * (c + 1), "uint16")
            for r in range(5) for c in range(5)
        ]),
        name,
    )  # fmt: skip


def bilateral_grid() -> Tensors:
    """Blur without crossing edges, in a grid of 8 x 8 pixels and 10 levels of brightness."""
    image = ac.placeholder((ROWS, COLUMNS), "image")
    size, levels, margin = 8, 12, 3
    rows, columns = ROWS // size + 2 * margin, COLUMNS // size + 2 * margin
    dy, dx = ac.reduce_axis(size, "dy"), ac.reduce_axis(size, "dx")

    def pixel(y: ac.Scalar, x: ac.Scalar) -> ac.Scalar:
        value = at_edge(
            image, (y - margin) * size + dy - size // 2, (x - margin) * size + dx - size // 2
        )
        return ac.minimum(ac.maximum(value, 0.0), 1.0)

    def term(y: ac.Scalar, x: ac.Scalar, z: ac.Scalar, c: ac.Scalar) -> ac.Reduction:
        value = pixel(y, x)
        level = (value * 10 + 0.5).astype("int32")
        weight = ac.if_then_else(c == 0, value, 1.0)
        is_here = level == (z - 2).astype("int32")
        return ac.sum(ac.if_then_else(is_here, weight, 0.0), axis=(dy, dx))

    grid = ac.compute((rows, columns, levels + 4, 2), term, "grid")
    taps = (1, 4, 6, 4, 1)
    deep = ac.compute(
        (rows, columns, levels, 2),
        lambda y, x, z, c: total([grid[y, x, z + d, c] * float(taps[d]) for d in range(5)]),
        "deep",
    )
    wide = ac.compute(
        (rows, columns - 4, levels, 2),
        lambda y, x, z, c: total([deep[y, x + d, z, c] * float(taps[d]) for d in range(5)]),
        "wide",
    )
    high = ac.compute(
        (rows - 4, columns - 4, levels, 2),
        lambda y, x, z, c: total([wide[y + d, x, z, c] * float(taps[d]) for d in range(5)]),
        "high",
    )

    def mix(y: ac.Scalar, x: ac.Scalar, c: int) -> ac.Scalar:
        value = ac.minimum(ac.maximum(image[y, x], 0.0), 1.0) * 10
        z = ac.minimum(value.astype("int32"), 9)
        share = value - z.astype("float32")
        fy = (y % size).astype("float32") / size
        fx = (x % size).astype("float32") / size
        gy, gx = y // size + 1, x // size + 1

        def between(a: ac.Scalar, b: ac.Scalar, part: ac.Scalar) -> ac.Scalar:
            return a + (b - a) * part

        def plane(dz: int) -> ac.Scalar:
            rows = [
                between(high[gy + r, gx, z + dz, c], high[gy + r, gx + 1, z + dz, c], fx)
                for r in (0, 1)
            ]
            return between(rows[0], rows[1], fy)

        return between(plane(0), plane(1), share)

    result = ac.compute((ROWS, COLUMNS), lambda y, x: mix(y, x, 0) / mix(y, x, 1), "smoothed")
    return [image, result]


def nl_means() -> Tensors:
    """Average pixels whose patches of 7 x 7 are alike, in a window of 7 x 7."""
    rows, columns, patch, window = 192, 320, 7, 7
    image = ac.placeholder((3, rows, columns), "image")
    half = patch // 2
    scale = -1.0 / (0.12 * 0.12 * patch * patch)
    difference = ac.compute(
        (window, window, rows + patch - 1, columns + patch - 1),
        lambda dy, dx, y, x: total([
            _squared(
                at_edge(image, c, y - half, x - half)
                - at_edge(image, c, y - half + dy - window // 2, x - half + dx - window // 2)
            )
            for c in range(3)
        ]),
        "difference",
    )  # fmt: skip
    down = ac.compute(
        (window, window, rows, columns + patch - 1),
        lambda dy, dx, y, x: total([difference[dy, dx, y + d, x] for d in range(patch)]),
        "down",
    )
    weight = ac.compute(
        (window, window, rows, columns),
        lambda dy, dx, y, x: ac.exp(total([down[dy, dx, y, x + d] for d in range(patch)]) * scale),
        "weight",
    )
    dy, dx = ac.reduce_axis(window, "dy"), ac.reduce_axis(window, "dx")
    over, under = dy - window // 2, dx - window // 2
    sums = ac.compute(
        (3, rows, columns),
        lambda c, y, x: ac.sum(
            weight[dy, dx, y, x] * at_edge(image, c, y + over, x + under), axis=(dy, dx)
        ),
        "sums",
    )
    ey, ex = ac.reduce_axis(window, "ey"), ac.reduce_axis(window, "ex")
    weights = ac.compute(
        (rows, columns), lambda y, x: ac.sum(weight[ey, ex, y, x], axis=(ey, ex)), "weights"
    )
    result = ac.compute(
        (3, rows, columns), lambda c, y, x: sums[c, y, x] / weights[y, x], "denoised"
    )
    return [image, result]


def _squared(value: ac.Scalar) -> ac.Scalar:
    return value * value


LEVELS = 10


def interpolate() -> Tensors:
    """Fill in pixels of small alpha from 10 levels of a pyramid; 4 channels."""
    image = ac.placeholder((4, ROWS, COLUMNS), "image")
    down = [ac.compute(
        (4, ROWS, COLUMNS),
        lambda c, y, x: ac.if_then_else(c < 3, image[c, y, x] * image[3, y, x], image[3, y, x]),
        "level0",
    )]  # fmt: skip
    for level in range(1, LEVELS):
        down.append(_halved(down[-1], level))
    up = down[-1]
    for level in reversed(range(LEVELS - 1)):
        up = _mixed(down[level], up, level)
    result = ac.compute((3, ROWS, COLUMNS), lambda c, y, x: up[c, y, x] / up[3, y, x], "filled")
    return [image, result]


def _halved(image: ac.Tensor, level: int) -> ac.Tensor:
    _, rows, columns = image.shape
    high, wide = -(-rows // 2), -(-columns // 2)
    across = ac.compute(
        (4, rows, wide),
        lambda c, y, x: (
            at_edge(image, c, y, 2 * x - 1)
            + 2 * at_edge(image, c, y, 2 * x)
            + at_edge(image, c, y, 2 * x + 1)
        ) * 0.25,
        f"across{level}",
    )  # fmt: skip
    return ac.compute(
        (4, high, wide),
        lambda c, y, x: (
            at_edge(across, c, 2 * y - 1, x)
            + 2 * at_edge(across, c, 2 * y, x)
            + at_edge(across, c, 2 * y + 1, x)
        ) * 0.25,
        f"level{level}",
    )  # fmt: skip


def _mixed(fine: ac.Tensor, coarse: ac.Tensor, level: int) -> ac.Tensor:
    _, rows, columns = fine.shape
    wider = ac.compute(
        (4, coarse.shape[1], columns),
        lambda c, y, x: (
            at_edge(coarse, c, y, x // 2) + at_edge(coarse, c, y, (x + 1) // 2)
        ) * 0.5,
        f"wider{level}",
    )  # fmt: skip
    larger = ac.compute(
        (4, rows, columns),
        lambda c, y, x: (at_edge(wider, c, y // 2, x) + at_edge(wider, c, (y + 1) // 2, x)) * 0.5,
        f"larger{level}",
    )
    return ac.compute(
        (4, rows, columns),
        lambda c, y, x: fine[c, y, x] + (1 - fine[3, y, x]) * larger[c, y, x],
        f"mixed{level}",
    )


def conv_layer() -> Tensors:
    """Convolve with 3 x 3 weights, add a bias, and cut off below 0."""
    x = ac.placeholder((5, 82, 102, 128), "x")
    w = ac.placeholder((3, 3, 128, 128), "w")
    b = ac.placeholder(128, "b")
    y = ac.ops.conv2d(x, w)
    result = ac.compute(
        y.shape, lambda n, i, j, c: ac.maximum(y[n, i, j, c] + b[c], 0.0), "activated"
    )
    return [x, w, b, result]


def mat_mul() -> Tensors:
    """Multiply matrices of 1024 x 1024."""
    a, b = ac.placeholder((1024, 1024), "a"), ac.placeholder((1024, 1024), "b")
    return [a, b, ac.ops.matmul(a, b)]
