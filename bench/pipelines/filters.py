"""Filters whose elements follow from all of the image: equalised histograms, recursive blurs."""

from __future__ import annotations

import ansorc as ac
from bench.pipelines import definitions
from bench.pipelines.definitions import Tensors

LEVELS = 256
"""Of brightness, of 8-bit images."""
WEIGHTS = (77, 150, 29)
"""Of red, green and blue in the brightness, in parts of 256."""
BLEND = 0.1
"""The part of a pixel in the running mean of the recursive blur."""


def hist() -> Tensors:
    """Equalise the histogram of brightness of an 8-bit image, and keep its colours."""
    rows, columns = definitions.ROWS, definitions.COLUMNS
    image = ac.placeholder((3, rows, columns), "image", "uint8")

    def wide(c: int, y: ac.Scalar, x: ac.Scalar) -> ac.Scalar:
        return image[c, y, x].astype("int32")

    bright = ac.compute(
        (rows, columns),
        lambda y, x: (
            definitions.total([wide(c, y, x) * WEIGHTS[c] for c in range(3)]) >> 8
        ).astype("uint8"),
        "bright",
    )  # fmt: skip
    counts = ac.scatter(LEVELS, bright, ac.const(1, "int32"))
    below = ac.compute(
        LEVELS, lambda v: ac.scan(ac.const(0, "int32"), lambda s: s + counts[v], axis=v), "below"
    )
    table = ac.compute(
        LEVELS,
        lambda v: (below[v].astype("int64") * (LEVELS - 1) // (rows * columns)).astype("int32"),
        "table",
    )

    def pixel(c: ac.Scalar, y: ac.Scalar, x: ac.Scalar) -> ac.Scalar:
        old = bright[y, x].astype("int32")
        new = table[old]
        red, blue = ((wide(0, y, x) - old) * 183) >> 8, ((wide(2, y, x) - old) * 144) >> 8
        moved = (red * 359) >> 8, -((blue * 88 + red * 183) >> 8), (blue * 454) >> 8
        change = ac.if_then_else(c == 0, moved[0], ac.if_then_else(c == 1, moved[1], moved[2]))
        return ac.clip(new + change, 0, 255).astype("uint8")

    return [image, ac.compute((3, rows, columns), pixel, "equalised")]


def iir_blur() -> Tensors:
    """Average by a recursive filter down and up the columns, then along the rows and back."""
    shape = rows, columns = definitions.ROWS, definitions.COLUMNS
    image = ac.placeholder((3, *shape), "image")

    def blend(mean: ac.Scalar, pixel: ac.Scalar) -> ac.Scalar:
        return (1 - BLEND) * mean + BLEND * pixel

    down = ac.compute(
        (3, *shape),
        lambda c, y, x: ac.scan(image[c, 0, x], lambda s: blend(s, image[c, y, x]), axis=y),
        "down",
    )
    up = ac.compute(
        (3, *shape),
        lambda c, y, x: ac.scan(
            down[c, rows - 1, x], lambda s: blend(s, down[c, y, x]), axis=y, reverse=True
        ),
        "up",
    )
    along = ac.compute(
        (3, *shape),
        lambda c, y, x: ac.scan(up[c, y, 0], lambda s: blend(s, up[c, y, x]), axis=x),
        "along",
    )
    back = ac.compute(
        (3, *shape),
        lambda c, y, x: ac.scan(
            along[c, y, columns - 1], lambda s: blend(s, along[c, y, x]), axis=x, reverse=True
        ),
        "blurred",
    )
    return [image, back]
