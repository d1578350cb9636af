"""Applications made of pyramids of images and of reads at places that are data.

Levels of a pyramid have half the rows and columns of the one before, rounded up; beyond the edges
of a level its edge is repeated.
"""

from __future__ import annotations

from collections.abc import Sequence

import ansorc as ac
from bench.pipelines import definitions
from bench.pipelines.definitions import Place, Tensors, at_edge, cut, total

LEVELS = 8
"""Of each pyramid."""
TONES = 8
"""The values of brightness around which a local Laplacian filter bends an image."""
STEPS = 256
"""Entries of its table from one tone to the next."""
WEIGHTS = (0.299, 0.587, 0.114)


def halved(image: ac.Tensor, name: str) -> ac.Tensor:
    """Return the next level of a pyramid of images [planes…, rows, columns]."""
    *planes, rows, columns = image.shape
    taps = (0.125, 0.375, 0.375, 0.125)
    across = ac.compute(
        (*planes, rows, -(-columns // 2)),
        lambda *p: total([at_edge(image, *p[:-1], 2 * p[-1] + d - 1) * taps[d] for d in range(4)]),
        f"{name}.across",
    )
    return ac.compute(
        (*planes, -(-rows // 2), -(-columns // 2)),
        lambda *p: total([
            at_edge(across, *p[:-2], 2 * p[-2] + d - 1, p[-1]) * taps[d] for d in range(4)
        ]),
        name,
    )  # fmt: skip


def doubled(image: ac.Tensor, shape: Sequence[int], name: str) -> ac.Tensor:
    """Return the level before, of the rows and columns `shape`, by linear interpolation."""
    planes, shorter, (rows, columns) = image.shape[:-2], image.shape[-2], shape

    def other(place: ac.Scalar) -> ac.Scalar:
        return place // 2 - 1 + 2 * (place % 2)

    across = ac.compute(
        (*planes, shorter, columns),
        lambda *p: (
            at_edge(image, *p[:-1], p[-1] // 2) * 0.75
            + at_edge(image, *p[:-1], other(p[-1])) * 0.25
        ),
        f"{name}.across",
    )
    return ac.compute(
        (*planes, rows, columns),
        lambda *p: (
            at_edge(across, *p[:-2], p[-2] // 2, p[-1]) * 0.75
            + at_edge(across, *p[:-2], other(p[-2]), p[-1]) * 0.25
        ),
        name,
    )


def pyramid_of(image: ac.Tensor, name: str) -> list[ac.Tensor]:
    """Return an image and its halves."""
    levels = [image]
    for level in range(1, LEVELS):
        levels.append(halved(levels[-1], f"{name}{level}"))
    return levels


def local_laplacian() -> Tensors:
    """Enhance local contrast: pyramids of an image bent around each tone, blended by brightness."""
    shape = definitions.ROWS, definitions.COLUMNS
    image = ac.placeholder((3, *shape), "image")
    gray = ac.compute(
        shape, lambda y, x: total([image[c, y, x] * WEIGHTS[c] for c in range(3)]), "gray"
    )
    last = STEPS * (TONES - 1)

    def bent(v: ac.Scalar) -> ac.Scalar:
        distance = (v - last).astype("float32") / STEPS
        return distance * ac.exp(distance * distance * -0.5) / (TONES - 1)

    table = ac.compute(2 * last + 1, bent, "table")

    def remapped(k: ac.Scalar, y: ac.Scalar, x: ac.Scalar) -> ac.Scalar:
        place = ac.clip((gray[y, x] * last).astype("int32"), 0, last)
        return gray[y, x] + table[place - STEPS * k.astype("int32") + last]

    bent_levels = pyramid_of(ac.compute((TONES, *shape), remapped, "remapped"), "bent")
    gray_levels = pyramid_of(gray, "gray")
    result = None
    for level in reversed(range(LEVELS)):
        details = _blend(bent_levels, gray_levels[level], level)
        if result is None:
            result = details
            continue
        larger = doubled(result, details.shape, f"grown{level}")
        result = ac.compute(
            details.shape, lambda y, x, a=larger, b=details: a[y, x] + b[y, x], f"output{level}"
        )
    assert result is not None
    final = result
    enhanced = ac.compute(
        (3, *shape),
        lambda c, y, x: final[y, x] * (image[c, y, x] + 0.01) / (gray[y, x] + 0.01),
        "enhanced",
    )
    return [image, enhanced]


def _blend(bent: list[ac.Tensor], gray: ac.Tensor, level: int) -> ac.Tensor:
    """Return the details of a level: those around the two tones next to each pixel's."""
    here, details = bent[level], bent[level]
    if level + 1 < LEVELS:
        coarse = doubled(bent[level + 1], gray.shape, f"smooth{level}")
        details = ac.compute(
            here.shape, lambda k, y, x: here[k, y, x] - coarse[k, y, x], f"details{level}"
        )

    def between(y: ac.Scalar, x: ac.Scalar) -> ac.Scalar:
        value = gray[y, x] * (TONES - 1)
        tone = ac.clip(value.astype("int32"), 0, TONES - 2)
        share = value - tone.astype("float32")
        return (1.0 - share) * details[tone, y, x] + share * details[tone + 1, y, x]

    return ac.compute(gray.shape, between, f"blended{level}")


SLICES = 32
"""Depths that are told apart."""
FOCUS, SPREAD = 13, 0.5
"""The depth in focus, and the pixels by which a point is blurred for each depth away from it."""
SAMPLES, REACH = 32, 10
"""Samples of a blurred pixel, and the largest distance of one in pixels, rounded up."""


def lens_blur() -> Tensors:
    """Blur an image as a lens does, by the depths that a second image from the right shows."""
    rows, columns = 192, 320
    left, right = (ac.placeholder((3, rows, columns), name) for name in ("left", "right"))
    depth = _depths(left, right)
    radius = ac.compute(
        (rows, columns),
        lambda y, x: ac.abs(depth[y, x].astype("float32") - FOCUS) * SPREAD,
        "radius",
    )
    d, e = (ac.reduce_axis((-REACH, REACH + 1), name) for name in ("d", "e"))
    tall = ac.compute(
        (rows, columns), lambda y, x: ac.max(radius[cut(y + d, rows), x], axis=d), "tall"
    )
    widest = ac.compute(
        (rows, columns), lambda y, x: ac.max(tall[y, cut(x + e, columns)], axis=e), "widest"
    )
    return [left, right, _gather_light(left, radius, widest)]


def _depths(left: ac.Tensor, right: ac.Tensor) -> ac.Tensor:
    """Return the depth of each pixel: that at which the images differ least, all in all."""
    rows, columns = left.shape[1:]

    def differs(z: ac.Scalar, y: ac.Scalar, x: ac.Scalar) -> ac.Scalar:
        sum_ = total([
            ac.minimum(
                ac.abs(left[c, y, x] - at_edge(right, c, y, x + 2 * z)),
                ac.abs(left[c, y, x] - at_edge(right, c, y, x + 2 * z + 1)),
            )
            for c in range(3)
        ])  # fmt: skip
        return sum_ * sum_

    cost = ac.compute((SLICES, rows, columns), differs, "cost")
    z, z2, z3 = (ac.reduce_axis(SLICES, name) for name in ("z", "z2", "z3"))
    sums = ac.compute((rows, columns), lambda y, x: ac.sum(cost[z, y, x], axis=z), "sums")
    squares = ac.compute(
        (rows, columns), lambda y, x: ac.sum(cost[z2, y, x] * cost[z2, y, x], axis=z2), "squares"
    )

    def weighed(c: ac.Scalar, z: ac.Scalar, y: ac.Scalar, x: ac.Scalar) -> ac.Scalar:
        mean = sums[y, x] / SLICES
        confidence = squares[y, x] / SLICES - mean * mean
        return ac.if_then_else(c == 0, cost[z, y, x] * confidence, confidence)

    pushed = pyramid_of(ac.compute((2, SLICES, rows, columns), weighed, "weighed"), "pushed")
    pulled = pushed[-1]
    for level in reversed(range(LEVELS - 1)):
        fine = pushed[level]
        coarse = doubled(pulled, fine.shape[2:], f"larger{level}")
        pulled = ac.compute(
            fine.shape,
            lambda c, z, y, x, a=coarse, b=fine: (a[c, z, y, x] + b[c, z, y, x]) * 0.5,
            f"pulled{level}",
        )
    filtered = ac.compute(
        (SLICES, rows, columns), lambda z, y, x: pulled[0, z, y, x] / pulled[1, z, y, x], "filtered"
    )
    return ac.compute_tuple(
        (rows, columns), lambda y, x: ac.argmin(filtered[z3, y, x], axis=z3), ["least", "depth"]
    )[1]


def _gather_light(image: ac.Tensor, radius: ac.Tensor, widest: ac.Tensor) -> ac.Tensor:
    """Return the mean of the pixels around each that are blurred so far that they reach it."""
    rows, columns = radius.shape

    def place(turn: ac.Scalar, s: ac.Scalar) -> ac.Scalar:
        return ac.sqrt((s.astype("float32") + 0.5) / SAMPLES) * turn

    across = ac.compute(SAMPLES, lambda s: place(ac.cos(s.astype("float32") * 2.4), s), "across")
    down = ac.compute(SAMPLES, lambda s: place(ac.sin(s.astype("float32") * 2.4), s), "down")

    def moved(table: ac.Tensor, s: ac.Scalar, y: ac.Scalar, x: ac.Scalar) -> ac.Scalar:
        return ac.floor(table[s] * widest[y, x] + 0.5).astype("int32")

    def at(
        tensor: ac.Tensor, channels: Sequence[Place], s: ac.Scalar, y: ac.Scalar, x: ac.Scalar
    ) -> ac.Scalar:
        dy, dx = moved(down, s, y, x), moved(across, s, y, x)
        return at_edge(tensor, *channels, y.astype("int32") + dy, x.astype("int32") + dx)

    def reaches(s: ac.Scalar, y: ac.Scalar, x: ac.Scalar) -> ac.Scalar:
        dy, dx = moved(down, s, y, x), moved(across, s, y, x)
        there = at(radius, (), s, y, x)
        is_near = (dy * dy + dx * dx).astype("float32") <= there * there
        return ac.if_then_else(is_near, 1.0, 0.0)

    weight = ac.compute((SAMPLES, rows, columns), reaches, "weight")
    s, t = ac.reduce_axis(SAMPLES, "s"), ac.reduce_axis(SAMPLES, "t")
    light = ac.compute(
        (3, rows, columns),
        lambda c, y, x: ac.sum(weight[s, y, x] * at(image, (c,), s, y, x), axis=s),
        "light",
    )
    weights = ac.compute((rows, columns), lambda y, x: ac.sum(weight[t, y, x], axis=t), "weights")
    return ac.compute(
        (3, rows, columns),
        lambda c, y, x: (light[c, y, x] + image[c, y, x]) / (weights[y, x] + 1),
        "blurred",
    )
