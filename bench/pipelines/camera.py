"""From the numbers of a camera's sensor to an image of 8 bits: `camera_pipe`, in integers alone.

Rows of the sensor hold green and red points in turn, then blue and green ones: its four planes are
called gr, r, b and gb. Stages are as much larger than the image as their readers need.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import ansorc as ac
from bench.pipelines import definitions
from bench.pipelines.definitions import Tensors

MARGIN = 8
"""Points of the sensor around the image."""
MATRIX = ((430, -150, -24, 40), (-60, 380, -64, 16), (-20, -120, 396, 24))
"""Red, green and blue of the sensor and a constant in those of the image, in parts of 256."""
WHITE = 1023
"""The largest number of the sensor."""
STRENGTH = 24
"""Of the sharpening, in parts of 32."""

At = Callable[[ac.Scalar, ac.Scalar], ac.Scalar]
"""What has a value at a row and a column."""
Place = tuple[int, int]


def mean(a: ac.Scalar, b: ac.Scalar) -> ac.Scalar:
    """Return the mean of two, rounded up."""
    return (a + b + 1) >> 1


def distance(a: ac.Scalar, b: ac.Scalar) -> ac.Scalar:
    """Return how far two are apart."""
    return ac.maximum(a, b) - ac.minimum(a, b)


def stage(rows: int, columns: int, value: At, name: str) -> ac.Tensor:
    """Return a plane of 16-bit integers."""
    return ac.compute((rows, columns), value, name)


def camera_pipe() -> Tensors:
    """Suppress hot points, fill in colours, correct them, bend them by a curve, and sharpen."""
    rows, columns = definitions.ROWS, definitions.COLUMNS
    raw = ac.placeholder((rows + 2 * MARGIN, columns + 2 * MARGIN), "raw", "uint16")
    calm = ac.compute((rows + 12, columns + 12), partial(_calm, raw), "calm")
    red, green, blue = _colours(calm, rows // 2, columns // 2)

    def corrected(c: int, y: ac.Scalar, x: ac.Scalar) -> ac.Scalar:
        *shares, constant = MATRIX[c]
        parts = [
            p[y, x].astype("int32") * n for p, n in zip((red, green, blue), shares, strict=True)
        ]
        return ac.clip((definitions.total(parts) + constant) >> 8, 0, WHITE)

    curve = ac.compute(WHITE + 1, _bend, "curve")
    shape = (3, rows + 2, columns + 2)
    curved = ac.compute(
        shape,
        lambda c, y, x: curve[
            ac.if_then_else(
                c == 0,
                corrected(0, y + 1, x + 1),
                ac.if_then_else(c == 1, corrected(1, y + 1, x + 1), corrected(2, y + 1, x + 1)),
            )
        ],
        "curved",
    )
    return [raw, _sharpened(curved, rows, columns)]


def _calm(raw: ac.Tensor, y: ac.Scalar, x: ac.Scalar) -> ac.Scalar:
    """Return a point, at most as bright as the brightest of its colour around it."""
    left, right = raw[y + 2, x], raw[y + 2, x + 4]
    above, below = raw[y, x + 2], raw[y + 4, x + 2]
    most = ac.maximum(ac.maximum(left, right), ac.maximum(above, below))
    return ac.minimum(raw[y + 2, x + 2], most).astype("int16")


def _bend(v: ac.Scalar) -> ac.Scalar:
    """Return the brightness of 8 bits: a curve that is steepest in the middle."""
    bright = v.astype("int32")
    return ((bright * bright * (3 * WHITE - 2 * bright) // (WHITE * WHITE)) >> 2).astype("uint8")


def _colours(calm: ac.Tensor, rows: int, columns: int) -> tuple[ac.Tensor, ac.Tensor, ac.Tensor]:
    """Return red, green and blue at each point of the sensor, two around the image with them."""
    names = ("gr", "r", "b", "gb")
    gr, r, b, gb = (
        stage(
            rows + 6, columns + 6,
            lambda y, x, d=number // 2, e=number % 2: calm[2 * y + d, 2 * x + e], name,
        )
        for number, name in enumerate(names)
    )  # fmt: skip

    def green(across: tuple[At, At], along: tuple[At, At]) -> At:
        """Take the greens of the direction in which they differ less."""

        def value(y: ac.Scalar, x: ac.Scalar) -> ac.Scalar:
            (a, b), (c, d) = ((first(y, x), other(y, x)) for first, other in (across, along))
            return ac.if_then_else(distance(a, b) < distance(c, d), mean(a, b), mean(c, d))

        return value

    wide, narrow = (rows + 4, columns + 4), (rows + 2, columns + 2)
    at = partial(_shifted, by=1)
    g_r = stage(*wide, green((at(gr), at(gr, 0, 1)), (at(gb), at(gb, -1, 0))), "g_r")
    g_b = stage(*wide, green((at(gb), at(gb, 0, -1)), (at(gr), at(gr, 1, 0))), "g_b")
    greens = {"r": g_r, "b": g_b}

    def beside(plane: ac.Tensor, name: str, here: At, ends: tuple[Place, Place]) -> At:
        """Return a colour between two points of it, corrected by what green differs there."""

        def value(y: ac.Scalar, x: ac.Scalar) -> ac.Scalar:
            points, other = ([_shifted(p, *end, by=by)(y, x) for end in ends]
                             for p, by in ((plane, 2), (greens[name], 1)))  # fmt: skip
            return here(y, x) - mean(*other) + mean(*points)

        return value

    def crossed(plane: ac.Tensor, name: str, here: At, ways: tuple[tuple[Place, Place], ...]) -> At:
        """Return a colour from the diagonal along which it differs less."""

        def value(y: ac.Scalar, x: ac.Scalar) -> ac.Scalar:
            first, second = (beside(plane, name, here, ends)(y, x) for ends in ways)
            apart = [
                distance(*(_shifted(plane, *end, by=2)(y, x) for end in ends)) for ends in ways
            ]
            return ac.if_then_else(apart[0] < apart[1], first, second)

        return value

    far, near = partial(_shifted, by=2), partial(_shifted, by=1)
    r_gr = stage(*narrow, beside(r, "r", far(gr), ((0, -1), (0, 0))), "r_gr")
    b_gr = stage(*narrow, beside(b, "b", far(gr), ((-1, 0), (0, 0))), "b_gr")
    r_gb = stage(*narrow, beside(r, "r", far(gb), ((0, 0), (1, 0))), "r_gb")
    b_gb = stage(*narrow, beside(b, "b", far(gb), ((0, 0), (0, 1))), "b_gb")
    down, up = ((1, -1), (0, 0)), ((0, -1), (1, 0))
    r_b = stage(*narrow, crossed(r, "r", near(g_b), (down, up)), "r_b")
    down, up = ((-1, 1), (0, 0)), ((-1, 0), (0, 1))
    b_r = stage(*narrow, crossed(b, "b", near(g_r), (down, up)), "b_r")
    return (
        _interleaved("red", (_shifted(r_gr), far(r)), (_shifted(r_b), _shifted(r_gb)), narrow),
        _interleaved("green", (far(gr), near(g_r)), (near(g_b), far(gb)), narrow),
        _interleaved("blue", (_shifted(b_gr), _shifted(b_r)), (far(b), _shifted(b_gb)), narrow),
    )


def _shifted(plane: ac.Tensor, down: int = 0, along: int = 0, by: int = 0) -> At:
    """Return what a plane holds so far down and along; `by` more, as it is larger all around."""
    return lambda y, x: plane[y + (down + by), x + (along + by)]


def _interleaved(
    name: str, even: tuple[At, At], odd: tuple[At, At], shape: tuple[int, int]
) -> ac.Tensor:
    """Return the plane of twice the rows and columns whose 2 x 2 points come from four planes."""

    def value(y: ac.Scalar, x: ac.Scalar) -> ac.Scalar:
        upper, lower = (
            ac.if_then_else(x % 2 == 0, left(y // 2, x // 2), right(y // 2, x // 2))
            for left, right in (even, odd)
        )
        return ac.if_then_else(y % 2 == 0, upper, lower)

    return stage(2 * shape[0], 2 * shape[1], value, name)


def _sharpened(curved: ac.Tensor, rows: int, columns: int) -> ac.Tensor:
    """Return an image with its differences to its blur made larger."""

    def blurred(a: ac.Scalar, b: ac.Scalar, c: ac.Scalar) -> ac.Scalar:
        before, here, after = (part.astype("int16") for part in (a, b, c))
        return ((before + 2 * here + after + 2) >> 2).astype("uint8")

    down = ac.compute(
        (3, rows, columns + 2),
        lambda c, y, x: blurred(curved[c, y, x], curved[c, y + 1, x], curved[c, y + 2, x]),
        "blurred_down",
    )
    across = ac.compute(
        (3, rows, columns),
        lambda c, y, x: blurred(down[c, y, x], down[c, y, x + 1], down[c, y, x + 2]),
        "blurred_across",
    )

    def sharp(c: ac.Scalar, y: ac.Scalar, x: ac.Scalar) -> ac.Scalar:
        here = curved[c, y + 1, x + 1].astype("int16")
        edge = (here - across[c, y, x].astype("int16")) * STRENGTH
        return ac.clip(here + (edge >> 5), 0, 255).astype("uint8")

    return ac.compute((3, rows, columns), sharp, "sharpened")
