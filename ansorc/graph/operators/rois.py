"""Boxes of images, cut into bins: as many samples as their sizes ask for, or whole elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from ansorc.errors import LanguageError
from ansorc.ir.dtype import INT64
from ansorc.lang import reduction
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.shapes import require
from ansorc.lang.reduction import Reduction, reduce_axis
from ansorc.lang.scalar import (
    all_of,
    any_of,
    cast,
    ceil,
    const,
    equal,
    floor,
    if_then_else,
    maximum,
    minimum,
    round,
)
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor

_NEED = "they must be [n, c, h, w], [r, 4] and [r]"


@dataclass(frozen=True)
class _Line:
    """One dimension of the boxes: into how many bins it is cut, and where its samples lie."""

    rois: Tensor
    place: int
    """The number of the dimension: 0 for the height."""
    extent: int
    bins: int
    scale: float
    half_pixel: bool

    @property
    def most(self) -> int:
        """How many samples of a bin may lie in the image: neighbours are half an element apart."""
        return 2 * self.extent + 6

    def _ends(self, r: Scalar) -> tuple[Scalar, Scalar]:
        """Where a box begins, and how long each of its bins is."""
        ends = [
            self.rois[r, const(n, "int64")] * self.scale for n in (1 - self.place, 3 - self.place)
        ]
        begin, end = [bound - 0.5 if self.half_pixel else bound for bound in ends]
        length = end - begin if self.half_pixel else maximum(end - begin, 1.0)
        return begin, length * (1.0 / self.bins)

    def count(self, r: Scalar) -> Scalar:
        """Return the number of samples in a bin of the box `r`, as a float; 0 or less of none."""
        return ceil(self._ends(r)[1])

    def _step(self, r: Scalar) -> Scalar:
        return self._ends(r)[1] / maximum(self.count(r), 1.0)

    def at(self, r: Scalar, p: Scalar, number: Scalar) -> Scalar:
        """Return where the sample `number` (a float) of the bin `p` lies."""
        begin, length = self._ends(r)
        return begin + cast(p, self.rois.dtype) * length + (number + 0.5) * self._step(r)

    def number(self, r: Scalar, p: Scalar, k: Scalar) -> Scalar:
        """Return the number of the sample `k`, counted from the first that may lie in the image."""
        begin, length = self._ends(r)
        start = begin + cast(p, self.rois.dtype) * length
        step = self._step(r)
        safe = if_then_else(step > 0.0, step, 1.0)
        first = maximum(floor((-1.0 - start) / safe - 0.5), 0.0)
        return first + cast(k, self.rois.dtype)

    def is_inside(self, r: Scalar, p: Scalar, k: Scalar) -> Scalar:
        """Return whether there is a sample `k`, and it lies in the image."""
        number = self.number(r, p, k)
        position = self.at(r, p, number)
        return all_of(number < self.count(r), position >= -1.0, position <= float(self.extent))

    def leaves_image(self, r: Scalar, p: Scalar) -> Scalar:
        """Return whether the first or the last sample of a bin lies outside of the image."""
        first, last = self.at(r, p, const(0.0)), self.at(r, p, self.count(r) - 1.0)
        return any_of(first < -1.0, last > float(self.extent))

    def taps(self, r: Scalar, p: Scalar, k: Scalar) -> list[tuple[Scalar, Scalar]]:
        """Return the weights and the places of the two elements around a sample."""
        position = minimum(maximum(self.at(r, p, self.number(r, p, k)), 0.0), self.extent - 1.0)
        low = floor(position)
        first = minimum(maximum(cast(low, INT64), 0), self.extent - 1)
        return [
            (1.0 - (position - low), first),
            (position - low, minimum(first + 1, self.extent - 1)),
        ]


def roi_align_by_size(
    data: Tensor,
    rois: Tensor,
    batch: Tensor,
    size: Sequence[int],
    scale: float = 1.0,
    *,
    mode: str = "avg",
    half_pixel: bool = True,
) -> Tensor:
    """Return what `roi_align` does, each bin with as many samples as it is elements long.

    Means are products with the weights of rows and columns: stages of these, of the rows, and the
    result. Raise LanguageError on other shapes and modes.
    """
    name, count = AutoName("roi_align"), rois.shape[0]
    fits = len(data.shape) == 4 and rois.shape == (count, 4) and batch.shape == (count,)
    require(fits and len(size) == 2, "roi_align_by_size", data, rois, batch, need=_NEED)
    if mode not in ("avg", "max"):
        raise LanguageError(f"roi_align_by_size has no mode '{mode}'")
    lines = [_Line(rois, d, data.shape[2 + d], size[d], scale, half_pixel) for d in range(2)]
    if mode == "max":
        return _largest(data, batch, lines, name)
    weights = [_weights(line, stage_name(name, f"weights{d}")) for d, line in enumerate(lines)]
    h, w = reduce_axis(data.shape[2], "h"), reduce_axis(data.shape[3], "w")

    def row(r: Scalar, c: Scalar, p: Scalar, x: Scalar) -> Reduction:
        return reduction.sum(data[_image(batch, r, data), c, h, x] * weights[0][r, p, h], axis=h)

    shape = (count, data.shape[1], size[0], data.shape[3])
    rows = compute(shape, row, stage_name(name, "rows"))

    def body(r: Scalar, c: Scalar, p: Scalar, q: Scalar) -> Reduction:
        return reduction.sum(rows[r, c, p, w] * weights[1][r, q, w], axis=w)

    return compute((count, data.shape[1], *size), body, name)


def _image(batch: Tensor, r: Scalar, data: Tensor) -> Scalar:
    return minimum(maximum(cast(batch[r], INT64), 0), data.shape[0] - 1)


def _weights(line: _Line, name: str) -> Tensor:
    """How much of each element of the image counts in each bin, [r, bins, extent]."""
    k = reduce_axis(line.most, "k")

    def body(r: Scalar, p: Scalar, y: Scalar) -> Reduction:
        share = const(0.0, line.rois.dtype)
        for weight, element in line.taps(r, p, k):
            share = share + if_then_else(equal(element, y), weight, 0.0)
        inside = if_then_else(line.is_inside(r, p, k), share, 0.0)
        return reduction.sum(inside * (1.0 / maximum(line.count(r), 1.0)), axis=k)

    return compute((line.rois.shape[0], line.bins, line.extent), body, name)


def _largest(data: Tensor, batch: Tensor, lines: Sequence[_Line], name: str) -> Tensor:
    """The largest of all samples of a bin, of which those outside of the image are 0."""
    k = [reduce_axis(line.most, f"k{d}") for d, line in enumerate(lines)]
    lowest = const(float("-inf"), data.dtype)
    shape = (lines[0].rois.shape[0], data.shape[1], lines[0].bins, lines[1].bins)

    def sample(r: Scalar, c: Scalar, p: Scalar, q: Scalar) -> Reduction:
        places = [lines[0].taps(r, p, k[0]), lines[1].taps(r, q, k[1])]
        terms = [
            data[_image(batch, r, data), c, y, x] * cast(high * wide, data.dtype)
            for (high, y), (wide, x) in product(*places)
        ]
        value = terms[0]
        for term in terms[1:]:
            value = maximum(value, term)
        inside = all_of(lines[0].is_inside(r, p, k[0]), lines[1].is_inside(r, q, k[1]))
        return reduction.max(if_then_else(inside, value, lowest), axis=k)

    inner = compute(shape, sample, stage_name(name, "inside"))

    def body(r: Scalar, c: Scalar, p: Scalar, q: Scalar) -> Scalar:
        element, zero = inner[r, c, p, q], const(0.0, data.dtype)
        leaves = any_of(lines[0].leaves_image(r, p), lines[1].leaves_image(r, q))
        is_empty = any_of(lines[0].count(r) < 1.0, lines[1].count(r) < 1.0)
        largest = if_then_else(leaves, maximum(element, zero), element)
        return if_then_else(is_empty, zero, largest)

    return compute(shape, body, name)


def max_roi_pool(data: Tensor, rois: Tensor, size: Sequence[int], scale: float = 1.0) -> Tensor:
    """Return the largest elements in the bins of boxes rois [r, 5] of data [n, c, h, w].

    A row of `rois` is the number of the image, and the first and the last column and row of the
    box, in elements / `scale`; they are rounded, half away from 0, and the box is cut into `size`
    bins of whole elements, which may overlap. An empty bin is 0. Raise LanguageError on other
    shapes.
    """
    name, count = AutoName("max_roi_pool"), rois.shape[0]
    fits = len(data.shape) == 4 and rois.shape == (count, 5) and len(size) == 2
    require(fits, "max_roi_pool", data, rois, need="they must be [n, c, h, w] and [r, 5]")
    h, w = reduce_axis(data.shape[2], "h"), reduce_axis(data.shape[3], "w")
    lowest = const(float("-inf"), data.dtype)

    def ends(r: Scalar, p: Scalar, d: int) -> list[Scalar]:
        """The first element of a bin, and the one behind its last, as floats."""
        given = [rois[r, const(column, "int64")] * scale for column in (2 - d, 4 - d)]
        first, last = map(_round, given)
        length = maximum(last - first + 1.0, 1.0) / float(size[d])
        inside_bins = [
            floor(cast(p, rois.dtype) * length),
            ceil((cast(p, rois.dtype) + 1.0) * length),
        ]
        return [
            minimum(maximum(bound + first, 0.0), float(data.shape[2 + d])) for bound in inside_bins
        ]

    def inside(r: Scalar, c: Scalar, p: Scalar, q: Scalar) -> Reduction:
        image = minimum(maximum(cast(round(rois[r, 0]), INT64), 0), data.shape[0] - 1)
        tests = list[Scalar]()
        for d, (part, at) in enumerate(((p, h), (q, w))):
            begin, behind = ends(r, part, d)
            position = cast(at + 0, rois.dtype)
            tests += [position >= begin, position < behind]
        return reduction.max(
            if_then_else(all_of(*tests), data[image, c, h, w], lowest), axis=[h, w]
        )

    shape = (count, data.shape[1], *size)
    inside_bins = compute(shape, inside, stage_name(name, "inside"))

    def body(r: Scalar, c: Scalar, p: Scalar, q: Scalar) -> Scalar:
        is_empty = any_of(*(behind <= begin for begin, behind in (ends(r, p, 0), ends(r, q, 1))))
        return if_then_else(is_empty, const(0.0, data.dtype), inside_bins[r, c, p, q])

    return compute(shape, body, name)


def _round(x: Scalar) -> Scalar:
    """The nearest whole number, half away from 0."""
    return if_then_else(x < 0.0, 0.0 - floor(0.5 - x), floor(x + 0.5))


ROIS: Mapping[str, Callable[..., Tensor]] = {
    "max_roi_pool": max_roi_pool,
    "roi_align_by_size": roi_align_by_size,
}
"""Definitions by the name of their operator."""
