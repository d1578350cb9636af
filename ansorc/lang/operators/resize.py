"""Resizing of images: the nearest element, or a linear mixture of the neighbours.

Places are fractions of integers, so no rounding of floats decides which element is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

from ansorc.errors import LanguageError
from ansorc.ir.dtype import DType
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.shapes import each, refuse_unknown, require, require_rank
from ansorc.lang.operators.wide import sum_type, widened
from ansorc.lang.operators.window import Window
from ansorc.lang.scalar import cast, maximum, minimum
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor

Body = Callable[..., Scalar]

COORDINATES = {
    "half_pixel": "the centres of the outermost pixels lie half a pixel inside the image",
    "align_corners": "the outermost elements of both images meet",
    "asymmetric": "element i lies at i times the scale",
}
"""How places of the result lie over the input."""

ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
"""Which neighbour is the nearest."""


class ResizeOptions(TypedDict, total=False):
    """How an image is resized."""

    coordinates: str
    """One of COORDINATES; default "half_pixel"."""
    layout: str
    """NHWC (default) or NCHW."""
    name: str


class NearestOptions(ResizeOptions, total=False):
    """How an image is resized to nearest elements."""

    rounding: str
    """One of ROUNDINGS; default "round_prefer_floor"."""


def resize2d_nearest(
    data: Tensor, size: int | Sequence[int], **options: Unpack[NearestOptions]
) -> Tensor:
    """Return data [n, h, w, c] (or "NCHW") with the spatial extents `size`, nearest elements.

    Raise LanguageError on another rank, coordinates, rounding or layout.
    """
    rounding = options.get("rounding", "round_prefer_floor")
    if rounding not in ROUNDINGS:
        known = ", ".join(ROUNDINGS)
        raise LanguageError(f"resize2d_nearest has no rounding '{rounding}'; use {known}")
    window, lines = _lines("resize2d_nearest", data, size, options, "rounding")

    def body(*indices: Scalar) -> Scalar:
        n, spatial, c = window.unpacked(indices)
        pairs = zip(lines, spatial, strict=True)
        return data[window.packed(n, [line.nearest(i, rounding) for line, i in pairs], c)]

    return _resized(window, data, lines, body, options.get("name", AutoName("resize")))


def resize2d_bilinear(
    data: Tensor, size: int | Sequence[int], **options: Unpack[ResizeOptions]
) -> Tensor:
    """Return data [n, h, w, c] (or "NCHW") with the spatial extents `size`, linearly mixed.

    Beyond the outermost elements these are repeated. Raise LanguageError on another rank,
    coordinates or layout, and on integers.
    """
    require(data.dtype.is_float, "resize2d_bilinear", data, need="it needs floats; cast it first")
    window, lines = _lines("resize2d_bilinear", data, size, options)

    def body(*indices: Scalar) -> Scalar:
        n, spatial, c = window.unpacked(indices)
        ends = [line.neighbours(i) for line, i in zip(lines, spatial, strict=True)]
        kind = sum_type(data.dtype)
        shares = [line.share(i, kind) for line, i in zip(lines, spatial, strict=True)]
        rows: list[Scalar] = []
        for row in ends[0]:
            places = (window.packed(n, (row, column), c) for column in ends[1])
            left, right = (widened(data[place]) for place in places)
            rows.append(left + (right - left) * shares[1])
        return (rows[0] + (rows[1] - rows[0]) * shares[0]).astype(data.dtype)

    return _resized(window, data, lines, body, options.get("name", AutoName("resize")))


@dataclass(frozen=True)
class _Line:
    """One dimension: element i of the result lies at (i * factor + offset) / divisor."""

    inputs: int
    outputs: int
    factor: int
    offset: int
    divisor: int

    @staticmethod
    def of(inputs: int, outputs: int, coordinates: str) -> _Line:
        """Return the line of `outputs` elements over `inputs` elements."""
        match coordinates:
            case "half_pixel":
                return _Line(inputs, outputs, 2 * inputs, inputs - outputs, 2 * outputs)
            case "align_corners":
                return _Line(inputs, outputs, inputs - 1, 0, max(outputs - 1, 1))
            case _:
                return _Line(inputs, outputs, inputs, 0, outputs)

    def nearest(self, index: Scalar, rounding: str) -> Scalar:
        """Return the element of the input that is nearest."""
        place, twice = self._place(index), 2 * self.divisor
        match rounding:
            case "floor":
                found = place // self.divisor
            case "ceil":
                found = (place + (self.divisor - 1)) // self.divisor
            case "round_prefer_ceil":
                found = (place * 2 + self.divisor) // twice
            case _:
                found = (place * 2 + (self.divisor - 1)) // twice
        return self._inside(found)

    def neighbours(self, index: Scalar) -> tuple[Scalar, Scalar]:
        """Return the elements before and behind the place."""
        first = self._place(index) // self.divisor
        return self._inside(first), self._inside(first + 1)

    def share(self, index: Scalar, dtype: DType) -> Scalar:
        """Return how far the place lies behind the first of its neighbours, 0 … 1."""
        return cast(self._place(index) % self.divisor, dtype) * (1.0 / self.divisor)

    def _place(self, index: Scalar) -> Scalar:
        return index * self.factor + self.offset

    def _inside(self, place: Scalar) -> Scalar:
        return minimum(maximum(place, 0), self.inputs - 1)


def _lines(
    operator: str, data: Tensor, size: int | Sequence[int], options: ResizeOptions, *more: str
) -> tuple[Window, list[_Line]]:
    refuse_unknown(operator, options, (*ResizeOptions.__optional_keys__, *more))
    coordinates = options.get("coordinates", "half_pixel")
    if coordinates not in COORDINATES:
        known = ", ".join(COORDINATES)
        raise LanguageError(f"{operator} has no coordinates '{coordinates}'; use {known}")
    window = Window.of(operator, 2, {"layout": options.get("layout", "NHWC")})
    require_rank(operator, 4, data)
    extents = each(operator, "size", size, 2)
    require(min(extents) >= 1, operator, data, need=f"the size {extents} is empty")
    _, spatial, _ = window.unpacked(data.shape)
    pairs = zip(spatial, extents, strict=True)
    return window, [_Line.of(inputs, outputs, coordinates) for inputs, outputs in pairs]


def _resized(window: Window, data: Tensor, lines: Sequence[_Line], body: Body, name: str) -> Tensor:
    batch, _, channels = window.unpacked(data.shape)
    shape = window.packed(batch, [line.outputs for line in lines], channels)
    return compute(shape, body, name, axes=window.axes)
