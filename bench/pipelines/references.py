"""The newer applications once more in NumPy, written without the definitions of ansorc."""

# NumPy's types say little of what `np.indices`, `np.take` and generators of arrays give.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.pipelines import camera, chains, pyramids
from bench.pipelines.filters import BLEND, LEVELS, WEIGHTS

Array = NDArray[Any]


def hist(image: Array) -> Array:
    """Return the image with the brightness of its pixels moved to equal frequencies."""
    wide = image.astype(np.int32)
    bright = np.tensordot(np.array(WEIGHTS, np.int32), wide, axes=1) >> 8
    counts = np.bincount(bright.ravel(), minlength=LEVELS)
    table = np.cumsum(counts) * (LEVELS - 1) // bright.size
    red, blue = ((wide[0] - bright) * 183) >> 8, ((wide[2] - bright) * 144) >> 8
    change = (red * 359) >> 8, -((blue * 88 + red * 183) >> 8), (blue * 454) >> 8
    return np.clip(table[bright] + np.stack(change), 0, 255).astype(np.uint8)


def iir_blur(image: Array) -> Array:
    """Return the image after recursive filters to and fro along both axes."""
    result = image.astype(np.float64)
    for axis in (1, 2):
        for _ in range(2):
            result = np.flip(_running_mean(result, axis), axis)
    return result


def _running_mean(image: Array, axis: int) -> Array:
    lines = np.moveaxis(image, axis, 0).copy()
    for number in range(1, len(lines)):
        lines[number] = (1 - BLEND) * lines[number - 1] + BLEND * lines[number]
    return np.moveaxis(lines, 0, axis)


def _edge(image: Array, *shifts: tuple[int, int]) -> list[Array]:
    """Return the image moved by each of the shifts of rows and columns, its edge repeated."""
    rows, columns = (np.arange(extent) for extent in image.shape[-2:])
    return [
        image[
            ...,
            np.clip(rows + down, 0, len(rows) - 1)[:, None],
            np.clip(columns + along, 0, len(columns) - 1),
        ]
        for down, along in shifts
    ]


def _halved(image: Array) -> Array:
    for axis in (-1, -2):
        extent = image.shape[axis]
        here = 2 * np.arange(-(-extent // 2))
        taken = [np.take(image, np.clip(here + d, 0, extent - 1), axis=axis) for d in (-1, 0, 1, 2)]
        image = (taken[0] + 3 * (taken[1] + taken[2]) + taken[3]) / 8
    return image


def _doubled(image: Array, shape: tuple[int, ...]) -> Array:
    for axis in (-1, -2):
        place, last = np.arange(shape[axis]), image.shape[axis] - 1
        near = np.clip(place // 2, 0, last)
        far = np.clip(place // 2 + np.where(place % 2, 1, -1), 0, last)
        image = np.take(image, near, axis=axis) * 0.75 + np.take(image, far, axis=axis) * 0.25
    return image


def _pyramid(image: Array) -> list[Array]:
    levels = [image]
    for _ in range(1, pyramids.LEVELS):
        levels.append(_halved(levels[-1]))
    return levels


def local_laplacian(image: Array) -> Array:
    """Return the image with its local contrast enhanced."""
    tones, last = pyramids.TONES, pyramids.STEPS * (pyramids.TONES - 1)
    wide = image.astype(np.float64)
    gray = np.tensordot(np.array(pyramids.WEIGHTS), wide, axes=1)
    distance = np.arange(-last, last + 1) / pyramids.STEPS
    table = distance * np.exp(-(distance**2) / 2) / (tones - 1)
    place = np.clip((gray * last).astype(np.int64), 0, last)
    bent = _pyramid(
        np.stack([gray + table[place - pyramids.STEPS * k + last] for k in range(tones)])
    )
    result = np.zeros((1, 1))
    for level, bright in reversed(list(enumerate(_pyramid(gray)))):
        details = bent[level]
        if level + 1 < pyramids.LEVELS:
            details = details - _doubled(bent[level + 1], bright.shape)
        value = bright * (tones - 1)
        tone = np.clip(value.astype(np.int64), 0, tones - 2)
        below, above = (np.take_along_axis(details, (tone + k)[None], 0)[0] for k in (0, 1))
        blended = below + (value - tone) * (above - below)
        is_last = level + 1 == pyramids.LEVELS
        result = blended if is_last else _doubled(result, bright.shape) + blended
    return result * (wide + 0.01) / (gray + 0.01)


def lens_blur(left: Array, right: Array) -> Array:
    """Return the left image, blurred by how far its points are from the focus."""
    near, far = left.astype(np.float64), right.astype(np.float64)
    cost = np.stack([
        np.minimum(*(np.abs(near - moved) for moved in _edge(far, (0, 2 * z), (0, 2 * z + 1))))
        .sum(axis=0) ** 2
        for z in range(pyramids.SLICES)
    ])  # fmt: skip
    confidence = np.broadcast_to((cost**2).mean(axis=0) - cost.mean(axis=0) ** 2, cost.shape)
    pushed = _pyramid(np.stack([cost * confidence, confidence]))
    pulled = pushed[-1]
    for fine in pushed[-2::-1]:
        pulled = (_doubled(pulled, fine.shape) + fine) / 2
    depth = np.argmin(pulled[0] / pulled[1], axis=0)
    radius = np.abs(depth - pyramids.FOCUS) * pyramids.SPREAD
    reach = range(-pyramids.REACH, pyramids.REACH + 1)
    tall = np.max(_edge(radius, *((d, 0) for d in reach)), axis=0)
    widest = np.max(_edge(tall, *((0, d) for d in reach)), axis=0)
    light, weights = near.copy(), np.ones_like(radius)
    rows, columns = np.indices(radius.shape)
    for s in range(pyramids.SAMPLES):
        length = np.sqrt((s + 0.5) / pyramids.SAMPLES) * widest
        dy, dx = (np.floor(length * turn(s * 2.4) + 0.5).astype(int) for turn in (np.sin, np.cos))
        y = np.clip(rows + dy, 0, len(radius) - 1)
        x = np.clip(columns + dx, 0, radius.shape[1] - 1)
        reaches = dy**2 + dx**2 <= radius[y, x] ** 2
        light, weights = light + reaches * near[:, y, x], weights + reaches
    return light / weights


def jacobi(plane: Array, steps: int) -> Array:
    """Return a plane after steps that replace its inner points by the mean of their neighbours."""
    now = plane.astype(np.float64)
    for _ in range(steps):
        after = now.copy()
        after[1:-1, 1:-1] = (
            now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:]
        ) / 4  # fmt: skip
        now = after
    return now


def heat(cube: Array, steps: int) -> Array:
    """Return a cube after steps in which its inner points take heat from their neighbours."""
    now, inner = cube.astype(np.float64), (slice(1, -1),) * 3
    for _ in range(steps):
        flow = -6 * now
        for axis in range(3):
            flow += np.roll(now, 1, axis) + np.roll(now, -1, axis)
        after = now.copy()
        after[inner] += chains.RATE * flow[inner]
        now = after
    return now


def camera_pipe(raw: Array) -> Array:
    """Return the image that the numbers of a sensor show."""
    wide = raw.astype(np.int64)

    def moved(plane: Array, down: int, along: int) -> Array:
        return np.roll(plane, (-down, -along), (-2, -1))

    def mean(a: Array, b: Array) -> Array:
        return (a + b + 1) // 2

    around = [moved(wide, *way) for way in ((0, 2), (0, -2), (2, 0), (-2, 0))]
    calm = np.minimum(wide, np.max(around, axis=0))
    gr, r, b, gb = (calm[d::2, e::2] for d in (0, 1) for e in (0, 1))

    def smoother(one: tuple[Array, Array], other: tuple[Array, Array]) -> Array:
        is_one = np.abs(one[0] - one[1]) < np.abs(other[0] - other[1])
        return np.where(is_one, mean(*one), mean(*other))

    g_r = smoother((gr, moved(gr, 0, 1)), (gb, moved(gb, -1, 0)))
    g_b = smoother((gb, moved(gb, 0, -1)), (gr, moved(gr, 1, 0)))

    def beside(here: Array, plane: Array, green: Array, *ends: tuple[int, int]) -> Array:
        points, greens = ([moved(p, *end) for end in ends] for p in (plane, green))
        return here - mean(*greens) + mean(*points)

    def crossed(here: Array, plane: Array, green: Array, *ways: list[tuple[int, int]]) -> Array:
        values = [beside(here, plane, green, *ends) for ends in ways]
        apart = [np.abs(moved(plane, *ends[0]) - moved(plane, *ends[1])) for ends in ways]
        return np.where(apart[0] < apart[1], *values)

    parts = {
        "red": (
            beside(gr, r, g_r, (0, -1), (0, 0)), r,
            crossed(g_b, r, g_r, [(1, -1), (0, 0)], [(0, -1), (1, 0)]),
            beside(gb, r, g_r, (0, 0), (1, 0)),
        ),
        "green": (gr, g_r, g_b, gb),
        "blue": (
            beside(gr, b, g_b, (-1, 0), (0, 0)),
            crossed(g_r, b, g_b, [(-1, 1), (0, 0)], [(-1, 0), (0, 1)]), b,
            beside(gb, b, g_b, (0, 0), (0, 1)),
        ),
    }  # fmt: skip
    planes = np.empty((3, *raw.shape), np.int64)
    for channel, four in enumerate(parts.values()):
        for number, part in enumerate(four):
            planes[channel, number // 2 :: 2, number % 2 :: 2] = part
    matrix = np.array(camera.MATRIX)
    mixed = np.tensordot(matrix[:, :3], planes, axes=1) + matrix[:, 3, None, None]
    bright = np.clip(mixed >> 8, 0, camera.WHITE)
    curved = (bright**2 * (3 * camera.WHITE - 2 * bright) // camera.WHITE**2) >> 2
    blurred = curved
    for down, along in ((1, 0), (0, 1)):
        ends = moved(blurred, down, along) + moved(blurred, -down, -along)
        blurred = (ends + 2 * blurred + 2) >> 2
    sharp = np.clip(curved + ((curved - blurred) * camera.STRENGTH >> 5), 0, 255)
    inside = slice(camera.MARGIN, -camera.MARGIN)
    return sharp[:, inside, inside].astype(np.uint8)


REFERENCES: dict[str, Callable[..., Array]] = {
    reference.__name__: reference
    for reference in (hist, iir_blur, local_laplacian, camera_pipe, lens_blur)
} | {
    f"{chain.__name__}{steps}": partial(chain, steps=steps)
    for chain in (jacobi, heat)
    for steps in (1, 8, 32)
}


def reference_of(name: str, inputs: Sequence[Array]) -> Array | None:
    """Return what an application has to give; None where its definition is the reference."""
    return REFERENCES[name](*inputs) if name in REFERENCES else None
