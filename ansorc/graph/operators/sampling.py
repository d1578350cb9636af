"""Images sampled at places that a tensor holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

from ansorc.errors import LanguageError
from ansorc.ir.dtype import INT64, DType
from ansorc.lang import reduction
from ansorc.lang.checks import index_in_range
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.shapes import require
from ansorc.lang.reduction import Reduction, reduce_axis
from ansorc.lang.scalar import (
    abs,
    all_of,
    cast,
    const,
    floor,
    if_then_else,
    maximum,
    minimum,
    round,
)
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor

_CUBIC = -0.75
"""The parameter of the cubic convolution (Keys, 1981)."""
_TAPS = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}
_PADDINGS = ("zeros", "border", "reflection")


def grid_sample(
    data: Tensor,
    grid: Tensor,
    mode: str = "linear",
    padding: str = "zeros",
    *,
    align_corners: bool = False,
    reflect_first: bool = False,
) -> Tensor:
    """Return images data [n, c, …] at the places grid [n, …, d] of their d dimensions.

    Places go from -1 to 1, the last dimension first. With the mode "cubic" the padding moves each
    of the elements that are mixed, else the place. With "nearest" a place is rounded, half to even,
    and then moved; `reflect_first` reflects it before. Stages: the places along each dimension in
    elements, padded, and the result. Raise LanguageError on other shapes, modes and paddings.
    """
    name, rank = AutoName("grid_sample"), len(data.shape) - 2
    flags = {"is_aligned": align_corners, "reflect_first": reflect_first}
    fits = grid.shape[-1] == rank and grid.shape[0] == data.shape[0]
    require(fits, "grid_sample", data, grid, need="they must be [n, c, …] and [n, …, dimensions]")
    if mode not in _TAPS or padding not in _PADDINGS:
        raise LanguageError(f"grid_sample has no mode '{mode}' with padding '{padding}'")

    def place(d: int) -> Tensor:
        def body(*i: Scalar) -> Scalar:
            extent = data.shape[d + 2]
            along = _in_elements(grid[(*i, rank - 1 - d)], extent, is_aligned=align_corners)
            return _move(along, extent, mode, padding, **flags)

        return compute(grid.shape[:-1], body, stage_name(name, f"place{d}"))

    places = [place(d) for d in range(rank)]

    def body(*i: Scalar) -> Scalar:
        outer = (i[0], *i[2:])
        taps: list[list[tuple[Scalar, Scalar, Scalar | None]]] = []
        for d, along in enumerate(places):
            axis = SampledAxis(data.shape[d + 2], padding, align_corners, data.dtype)
            taps.append([axis.tap(along[outer], mode, offset) for offset in _TAPS[mode]])
        total: Scalar | None = None
        for corner in product(*taps):
            term = data[(i[0], i[1], *(index for _, index, _ in corner))]
            for weight, _, _ in corner if mode != "nearest" else ():
                term = term * weight
            tests = [inside for _, _, inside in corner if inside is not None]
            term = if_then_else(all_of(*tests), term, const(0, data.dtype)) if tests else term
            total = term if total is None else total + term
        return const(0, data.dtype) if total is None else total

    return compute((*data.shape[:2], *grid.shape[1:-1]), body, name)


def roi_align(
    data: Tensor,
    rois: Tensor,
    batch: Tensor,
    size: Sequence[int],
    samples: int,
    scale: float = 1.0,
    *,
    mode: str = "avg",
    half_pixel: bool = True,
) -> Tensor:
    """Return what lies in the boxes rois [r, 4] of the images data [n, c, h, w]: [r, c, *size].

    A box is its left, upper, right and lower end in elements / `scale`, in the image batch [r]; it
    is cut into `size` bins. Each is the mean ("avg") or the largest ("max") of samples² linear
    samples. Without `half_pixel`, a box is an element high and wide at least. Stages: the places
    along both dimensions, and the result. Raise LanguageError on other shapes and modes.
    """
    name, count = AutoName("roi_align"), rois.shape[0]
    fits = len(data.shape) == 4 and rois.shape == (count, 4) and batch.shape == (count,)
    require(fits and len(size) == 2, "roi_align", data, rois, batch,
            need="they must be [n, c, h, w], [r, 4] and [r]")  # fmt: skip
    if mode not in ("avg", "max") or samples < 1:
        raise LanguageError(f"roi_align has no mode '{mode}' with {samples} samples")

    along = [
        _roi_places(stage_name(name, f"place{d}"), rois, d, (size[d], samples), scale,
                    half_pixel=half_pixel)
        for d in range(2)
    ]  # fmt: skip
    k = [reduce_axis(samples, "ky"), reduce_axis(samples, "kx")]

    def body(r: Scalar, c: Scalar, p: Scalar, q: Scalar) -> Reduction:
        image = index_in_range(cast(batch[r], INT64), data.shape[0], data.name)
        image = minimum(maximum(image, 0), data.shape[0] - 1)
        sample = zip([along[0][r, p, k[0]], along[1][r, q, k[1]]], data.shape[2:], strict=True)
        tests, taps = list[Scalar](), list[list[tuple[Scalar, Scalar]]]()
        for position, extent in sample:
            tests.append(all_of(position >= -1.0, position <= float(extent)))
            taps.append(_clamp_taps(position, extent, data.dtype))
        terms = [data[image, c, y, x] * (high * wide) for (high, y), (wide, x) in product(*taps)]
        total = terms[0]
        for term in terms[1:]:
            total = total + term if mode == "avg" else maximum(total, term)
        value = if_then_else(all_of(*tests), total, const(0, data.dtype))
        if mode == "max":
            return reduction.max(value, axis=k)
        return reduction.sum(value * (1.0 / samples**2), axis=k)

    return compute((count, data.shape[1], *size), body, name)


def _roi_places(
    name: str, rois: Tensor, d: int, counts: tuple[int, int], scale: float, *, half_pixel: bool
) -> Tensor:
    """Where the samples of each bin of each box lie along a dimension: [r, bins, samples]."""
    bins, samples = counts

    def body(r: Scalar, p: Scalar, s: Scalar) -> Scalar:
        ends = [rois[r, const(column, "int64")] * scale for column in (1 - d, 3 - d)]
        begin, end = [bound - 0.5 if half_pixel else bound for bound in ends]
        length = end - begin if half_pixel else maximum(end - begin, 1.0)
        part = (cast(s, rois.dtype) + 0.5) * (1.0 / samples)
        return begin + (cast(p, rois.dtype) + part) * (length * (1.0 / bins))

    return compute((rois.shape[0], bins, samples), body, name)


def _clamp_taps(position: Scalar, extent: int, dtype: DType) -> list[tuple[Scalar, Scalar]]:
    """The weights and places of the two elements around `position`, which is moved inside."""
    inside = minimum(maximum(position, 0.0), extent - 1.0)
    low = floor(inside)
    fraction = cast(inside - low, dtype)
    first = minimum(maximum(cast(low, INT64), 0), extent - 1)
    return [(1.0 - fraction, first), (fraction, minimum(first + 1, extent - 1))]


class SampledAxis:
    """A dimension of an image that is sampled, and what lies beyond its ends."""

    def __init__(self, extent: int, padding: str, is_aligned: bool, dtype: DType):  # noqa: FBT001
        self._extent, self._padding = extent, padding
        self._is_aligned, self._dtype = is_aligned, dtype

    def tap(self, position: Scalar, mode: str, offset: int) -> tuple[Scalar, Scalar, Scalar | None]:
        """Return the weight of the element `offset` from a place, where it is, if it is inside."""
        first = floor(position)
        index = cast(first, INT64) + offset
        weight = _weight(position - first, mode, offset, self._dtype)
        if self._padding == "reflection":
            index = self._reflect(index)
        inside = None
        if self._padding == "zeros":
            inside = all_of(index >= 0, index < self._extent)
        return weight, minimum(maximum(index, 0), self._extent - 1), inside

    def _reflect(self, index: Scalar) -> Scalar:
        last = self._extent - 1
        if self._is_aligned:
            return const(0, "int64") if not last else last - abs(last - index % (2 * last))
        around = index % (2 * self._extent)
        return minimum(around, 2 * self._extent - 1 - around)


def _weight(fraction: Scalar, mode: str, offset: int, dtype: DType) -> Scalar:
    if mode == "nearest":
        return const(1, dtype)
    if mode == "linear":
        return fraction if offset else 1.0 - fraction
    x = abs(fraction - float(offset))
    if offset in (0, 1):
        return (x * (_CUBIC + 2) - (_CUBIC + 3)) * x * x + 1.0
    return ((x - 5.0) * x + 8.0) * x * _CUBIC - 4 * _CUBIC


def _in_elements(along: Scalar, extent: int, *, is_aligned: bool) -> Scalar:
    """Where -1 … 1 is in elements."""
    if is_aligned:
        return (along + 1.0) * (0.5 * (extent - 1))
    return ((along + 1.0) * float(extent) - 1.0) * 0.5


def _move(
    position: Scalar,
    extent: int,
    mode: str,
    padding: str,
    *,
    is_aligned: bool,
    reflect_first: bool,
) -> Scalar:
    """A place in elements where the mode asks for it: rounded, padded, or as it is."""
    if mode == "cubic":
        return position if padding == "reflection" else _near(position, extent)
    if mode == "linear":
        return _pad(position, extent, padding, is_aligned=is_aligned)
    if reflect_first:
        return round(_pad(position, extent, padding, is_aligned=is_aligned))
    return _pad(round(position), extent, padding, is_aligned=is_aligned)


def _near(position: Scalar, extent: int) -> Scalar:
    """A place at most so far outside that all that is mixed there lies outside, too."""
    return minimum(maximum(position, -3.0), extent + 2.0)


def _pad(position: Scalar, extent: int, padding: str, *, is_aligned: bool) -> Scalar:
    """A place in elements, moved inside as the padding says."""
    if padding == "zeros":
        return _near(position, extent)
    inside = (
        _reflect(position, extent, is_aligned=is_aligned) if padding == "reflection" else position
    )
    return minimum(maximum(inside, 0.0), extent - 1.0)


def _reflect(position: Scalar, extent: int, *, is_aligned: bool) -> Scalar:
    """A place, reflected at the outermost elements (`is_aligned`), or at the image's borders."""
    low, high = (0.0, extent - 1.0) if is_aligned else (-0.5, extent - 0.5)
    span = high - low
    if not span:
        return position
    around = position - low
    around = around - floor(around * (0.5 / span)) * (2 * span)
    return low + minimum(around, 2 * span - around)


SAMPLING: Mapping[str, Callable[..., Tensor | Sequence[Tensor]]] = {
    "grid_sample": grid_sample,
    "roi_align": roi_align,
}
"""Definitions by the name of their operator."""
