"""Resize images: take the nearest element, or interpolate linearly between neighbours.

Positions are fractions of integers, so no rounding of floats decides which element is read.
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
from ansorc.lang.operators.wide import sum_type, widen
from ansorc.lang.operators.window import Window
from ansorc.lang.scalar import cast, maximum, minimum
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor

Body = Callable[..., Scalar]

COORDINATES = {
    "half_pixel": "the centres of the outermost pixels are half a pixel inside the image",
    "align_corners": "the outermost elements of both images meet",
    "asymmetric": "element i is at i times the scale",
}
"""The mappings from positions of the result to positions of the input."""

ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
"""The rules that choose the nearest neighbour."""


class ResizeOptions(TypedDict, total=False):
    """Options of resizing."""

    coordinates: str
    """One of COORDINATES; default "half_pixel"."""
    layout: str
    """NHWC (default) or NCHW."""
    name: str


class NearestOptions(ResizeOptions, total=False):
    """Options of resizing to nearest elements."""

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
        n, spatial, c = window.unpack(indices)
        pairs = zip(lines, spatial, strict=True)
        return data[window.pack(n, [line.nearest(i, rounding) for line, i in pairs], c)]

    return _resize(window, data, lines, body, options.get("name", AutoName("resize")))


def resize2d_bilinear(
    data: Tensor, size: int | Sequence[int], **options: Unpack[ResizeOptions]
) -> Tensor:
    """Return data [n, h, w, c] (or "NCHW") with the spatial extents `size`, interpolated linearly.

    Beyond the edge the outermost elements are repeated. Raise LanguageError on another rank,
    coordinates or layout, and on integers.
    """
    require(data.dtype.is_float, "resize2d_bilinear", data, need="it needs floats; cast it first")
    window, lines = _lines("resize2d_bilinear", data, size, options)

    def body(*indices: Scalar) -> Scalar:
        n, spatial, c = window.unpack(indices)
        ends = [line.neighbours(i) for line, i in zip(lines, spatial, strict=True)]
        kind = sum_type(data.dtype)
        shares = [line.share(i, kind) for line, i in zip(lines, spatial, strict=True)]
        rows: list[Scalar] = []
        for row in ends[0]:
            row_indices = (window.pack(n, (row, column), c) for column in ends[1])
            left, right = (widen(data[indices_]) for indices_ in row_indices)
            rows.append(left + (right - left) * shares[1])
        return (rows[0] + (rows[1] - rows[0]) * shares[0]).astype(data.dtype)

    return _resize(window, data, lines, body, options.get("name", AutoName("resize")))


@dataclass(frozen=True)
class _Line:
    """One dimension: element i of the result is at (i * factor + offset) / divisor of the input."""

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
        """Return the index of the nearest element of the input."""
        position, twice = self._place(index), 2 * self.divisor
        match rounding:
            case "floor":
                nearest = position // self.divisor
            case "ceil":
                nearest = (position + (self.divisor - 1)) // self.divisor
            case "round_prefer_ceil":
                nearest = (position * 2 + self.divisor) // twice
            case _:
                nearest = (position * 2 + (self.divisor - 1)) // twice
        return self._inside(nearest)

    def neighbours(self, index: Scalar) -> tuple[Scalar, Scalar]:
        """Return the indices of the elements before and after the position."""
        first = self._place(index) // self.divisor
        return self._inside(first), self._inside(first + 1)

    def share(self, index: Scalar, dtype: DType) -> Scalar:
        """Return the distance of the position from the first of its neighbours, 0 … 1."""
        return cast(self._place(index) % self.divisor, dtype) * (1.0 / self.divisor)

    def _place(self, index: Scalar) -> Scalar:
        return index * self.factor + self.offset

    def _inside(self, position: Scalar) -> Scalar:
        return minimum(maximum(position, 0), self.inputs - 1)


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
    _, spatial, _ = window.unpack(data.shape)
    pairs = zip(spatial, extents, strict=True)
    return window, [_Line.of(inputs, outputs, coordinates) for inputs, outputs in pairs]


def _resize(window: Window, data: Tensor, lines: Sequence[_Line], body: Body, name: str) -> Tensor:
    batch, _, channels = window.unpack(data.shape)
    shape = window.pack(batch, [line.outputs for line in lines], channels)
    return compute(shape, body, name, axes=window.axes)
