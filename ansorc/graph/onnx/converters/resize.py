"""ONNX's resizing of images: along each axis, places and weights are known at import."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ansorc.graph.onnx.node_call import Converter, NodeCall
from ansorc.graph.operators.resize import cubic_weight, linear_weight
from ansorc.ir.aligned import Array

_ARITHMETIC = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
_MOST_TRIALS = 1 << 24


@dataclass(frozen=True)
class _ResizedAxis:
    """One axis: how long it is and becomes, and by which scale."""

    inputs: int
    outputs: int
    scale: float
    roi: tuple[float, float] | None = None

    @property
    def is_kept(self) -> bool:
        """Whether nothing happens along the axis."""
        whole = self.roi is None or np.allclose(self.roi, (0, 1))
        return whole and self.inputs == self.outputs and math.isclose(self.scale, 1.0)

    @property
    def is_exact(self) -> bool:
        """Whether the scale is that of the lengths."""
        return math.isclose(self.scale * self.inputs, self.outputs, rel_tol=1e-12)


@dataclass(frozen=True)
class _Manner:
    """What all axes have in common."""

    mode: str
    coordinates: str
    rounding: str = "floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0

    def places(self, line: _ResizedAxis) -> Array:
        """Return where the elements of the result lie over the input, in float64."""
        y, inputs, length = np.arange(line.outputs, dtype=np.float64), line.inputs, line.scale
        resized = length * inputs
        match self.coordinates:
            case "asymmetric":
                return y / length
            case "align_corners":
                return y * 0 if resized == 1 else y * (inputs - 1) / (resized - 1)
            case "half_pixel_symmetric":
                centre = inputs / 2 * (1 - line.outputs / resized)
                return centre + (y + 0.5) / length - 0.5
            case "tf_crop_and_resize":
                low, high = line.roi or (0.0, 1.0)
                if resized == 1:
                    return y * 0 + (low + high) * (inputs - 1) / 2
                start = float(np.float32(low) * np.float32(inputs - 1))  # rounded as others do
                return y * (high - low) * (inputs - 1) / (resized - 1) + start
            case "pytorch_half_pixel" if resized == 1:
                return y * 0
            case _:
                return (y + 0.5) / length - 0.5

    def nearest(self, line: _ResizedAxis) -> Array:
        """Return which element of the input each of the result is."""
        places = self.places(line)
        found = {
            "floor": np.floor(places),
            "ceil": np.ceil(places),
            "round_prefer_ceil": np.floor(places + 0.5),
            "round_prefer_floor": np.ceil(places - 0.5),
        }[self.rounding]
        return np.clip(found, 0, line.inputs - 1).astype(np.int64)

    def weights(self, line: _ResizedAxis) -> Array:
        """Return the matrix [outputs, inputs] of a resizing by weighted sums."""
        is_cubic = self.mode == "cubic"
        shrink = min(line.scale, 1.0) if self.antialias else 1.0
        reach = (2 if is_cubic else 1) / shrink
        matrix: Array = np.zeros((line.outputs, line.inputs))
        for number, place in enumerate(self.places(line)):
            first, last = math.floor(float(place) - reach), math.ceil(float(place) + reach)
            taps: Array = np.arange(first, last + 1)
            away = (taps - float(place)) * shrink
            shares = cubic_weight(away, self.cubic) if is_cubic else linear_weight(away)
            if self.exclude_outside:
                shares = shares * ((taps >= 0) & (taps < line.inputs))
            total = float(shares.sum()) or 1.0
            np.add.at(matrix[number], np.clip(taps, 0, line.inputs - 1), shares / total)
        return matrix

    def beyond(self, line: _ResizedAxis) -> Array:
        """Return which elements of the result have the value of what lies outside."""
        places = self.places(line)
        if self.coordinates != "tf_crop_and_resize":
            return np.zeros(len(places), np.bool_)
        return (places < 0) | (places > line.inputs - 1)


def _resize(call: NodeCall) -> str:
    if call.opset < 11:
        scales = [float(scale) for scale in call.known(1, "the scales")]
        manner = _Manner(call.attribute("mode", "nearest"), "asymmetric")
        return _resized(call, manner, _scaled(call, scales, range(call.rank(0)), None))
    manner = _Manner(
        call.attribute("mode", "nearest"),
        call.attribute("coordinate_transformation_mode", "half_pixel"),
        call.attribute("nearest_mode", "round_prefer_floor"),
        call.attribute("cubic_coeff_a", -0.75),
        bool(call.attribute("exclude_outside", 0)),
        bool(call.attribute("antialias", 0)),
        call.attribute("extrapolation_value", 0.0),
    )
    rank = call.rank(0)
    axes = [call.axis(axis, rank) for axis in call.attribute("axes") or range(rank)]
    roi = None
    if manner.coordinates == "tf_crop_and_resize":
        roi = [float(one) for one in call.known(1, "the region of interest")]
    if call.has(2) and (scales := call.known(2, "the scales")).size:
        return _resized(call, manner, _scaled(call, [float(s) for s in scales], axes, roi))
    return _resized(call, manner, _sized(call, call.ints(3, "the sizes"), axes, roi))


def _upsample(call: NodeCall) -> str:
    given = call.known(1, "the scales") if call.opset >= 9 else call.attribute("scales")
    if given is None:
        call.refuse("it has no scales")
    manner = _Manner(call.attribute("mode", "nearest"), "asymmetric")
    scales = [float(scale) for scale in given]
    return _resized(call, manner, _scaled(call, scales, range(call.rank(0)), None))


def _scaled(
    call: NodeCall, scales: Sequence[float], axes: Sequence[int], roi: Sequence[float] | None
) -> list[_ResizedAxis]:
    """The axes, by their scales."""
    _check_count(call, scales, axes, roi)
    lines = [_ResizedAxis(extent, extent, 1.0) for extent in call.type(0).shape]
    for number, (axis, scale) in enumerate(zip(axes, scales, strict=True)):
        extent = lines[axis].inputs
        outputs = math.floor(scale * extent)
        if math.floor(np.float32(scale) * np.float32(extent)) != outputs:
            call.refuse(f"the scale {scale:.8g} of {extent} elements may be read in two ways; "
                        "give sizes")  # fmt: skip
        lines[axis] = _ResizedAxis(extent, outputs, scale, _region(roi, number))
    return lines


def _sized(
    call: NodeCall, sizes: Sequence[int], axes: Sequence[int], roi: Sequence[float] | None
) -> list[_ResizedAxis]:
    """The axes, by their sizes."""
    _check_count(call, sizes, axes, roi)
    shape = call.type(0).shape
    lines = [_ResizedAxis(extent, extent, 1.0) for extent in shape]
    policy = call.attribute("keep_aspect_ratio_policy", "stretch")
    scales = [size / shape[axis] for axis, size in zip(axes, sizes, strict=True)]
    if policy != "stretch":
        chosen = min(scales) if policy == "not_larger" else max(scales)
        scales = [chosen] * len(scales)
        sizes = [int(chosen * shape[axis] + 0.5) for axis in axes]
    for number, (axis, size, scale) in enumerate(zip(axes, sizes, scales, strict=True)):
        lines[axis] = _ResizedAxis(shape[axis], size, scale, _region(roi, number))
    return lines


def _check_count(
    call: NodeCall, numbers: Sequence[float], axes: Sequence[int], roi: Sequence[float] | None
) -> None:
    if len(numbers) != len(axes) or (roi is not None and len(roi) != 2 * len(axes)):
        call.refuse(f"it has {len(numbers)} scales or sizes for {len(axes)} axes")


def _region(roi: Sequence[float] | None, number: int) -> tuple[float, float] | None:
    return None if roi is None else (roi[number], roi[len(roi) // 2 + number])


def _resized(call: NodeCall, manner: _Manner, lines: Sequence[_ResizedAxis]) -> str:
    """The input, resized along each axis."""
    _check(call, manner, lines)
    data = call.input(0)
    if manner.mode == "nearest":
        return _nearest(call, manner, lines)
    if _is_bilinear(call, manner, lines):
        corners = manner.coordinates.removeprefix("pytorch_")
        size = [line.outputs for line in lines[2:]]
        return call.add("resize2d_bilinear", [data], size=size, layout="NCHW", coordinates=corners)
    for axis, line in enumerate(lines):
        if not line.is_kept:
            data = _resampled(call, data, axis, manner, line)
    return data


def _check(call: NodeCall, manner: _Manner, lines: Sequence[_ResizedAxis]) -> None:
    known = (*_ARITHMETIC, "half_pixel_symmetric", "tf_crop_and_resize")
    if manner.mode not in ("nearest", "linear", "cubic") or manner.coordinates not in known:
        call.refuse(f"there is no mode '{manner.mode}' with coordinates '{manner.coordinates}'")
    if manner.mode != "nearest" and not call.type(0).dtype.is_float:
        call.refuse(f"it interpolates {call.type(0).dtype}; cast it to floats first")
    if manner.mode == "nearest" and manner.antialias:
        call.refuse("nearest elements are not antialiased")
    single = [line for line in lines if line.outputs == 1 and not line.is_kept]
    is_wide = manner.mode == "cubic" or manner.antialias
    if is_wide and manner.coordinates == "pytorch_half_pixel" and single:
        call.refuse("ONNX does not say where a single element lies; use half_pixel")


def _is_bilinear(call: NodeCall, manner: _Manner, lines: Sequence[_ResizedAxis]) -> bool:
    """Whether it is a plain resizing of images by linear interpolation."""
    is_plain = manner.mode == "linear" and not (manner.antialias or manner.exclude_outside)
    is_image = len(lines) == 4 and all(line.is_kept for line in lines[:2])
    is_known = manner.coordinates in _ARITHMETIC and call.type(0).dtype.is_float
    is_single = manner.coordinates == "pytorch_half_pixel" and 1 in [n.outputs for n in lines[2:]]
    is_exact = all(line.is_exact for line in lines)
    return is_plain and is_image and is_known and is_exact and not is_single


def _resampled(call: NodeCall, data: str, axis: int, manner: _Manner, line: _ResizedAxis) -> str:
    """The data, resized along one axis by weighted sums."""
    matrix, beyond = manner.weights(line), manner.beyond(line)
    matrix[beyond] = 0
    used = matrix != 0
    first = np.where(used.any(1), used.argmax(1), 0)
    behind = np.where(used.any(1), line.inputs - used[:, ::-1].argmax(1), 1)
    taps = int((behind - first).max())
    first = np.minimum(first, line.inputs - taps)
    kind = call.type(0).dtype.numpy
    weights = np.take_along_axis(matrix, first[:, None] + np.arange(taps), 1).astype(kind)
    tensors = [data, call.constant(first.astype(np.int64)), call.constant(weights)]
    if beyond.any():
        tensors.append(call.constant((beyond * manner.extrapolation).astype(kind)))
    return call.add("resample", tensors, axis=axis)


def _nearest(call: NodeCall, manner: _Manner, lines: Sequence[_ResizedAxis]) -> str:
    """The input at the nearest places: by arithmetic, or by a table where there is none."""
    data, rank = call.input(0), len(lines)
    numbers: list[tuple[int, int, int]] = []
    for axis, line in enumerate(lines):
        table = np.arange(line.inputs) if line.is_kept else manner.nearest(line)
        found = _fraction(table, line)
        if found is None:
            data = call.add("take", [data, call.constant(table)], axis=axis, mode="clip")
            found = (1, 0, 1)
        numbers.append(found)
    size = [line.outputs for line in lines]
    if any(one != (1, 0, 1) for one in numbers):
        factors, offsets, divisors = zip(*numbers, strict=True)
        options = {"factors": factors, "offsets": offsets, "divisors": divisors}
        data = call.add("resize_nearest", [data], size=size, **options)
    outside = np.zeros(size, np.bool_)
    for axis, line in enumerate(lines):
        outside |= manner.beyond(line).reshape([-1 if d == axis else 1 for d in range(rank)])
    if not outside.any():
        return data
    value = call.scalar(manner.extrapolation, data)
    return call.add("where", [call.constant(outside), value, data])


def _fraction(table: Array, line: _ResizedAxis) -> tuple[int, int, int] | None:
    """Numbers f, o and d for which the table has (i f + o) // d, within the ends; None if none."""
    if len(table) == line.inputs and (table == np.arange(line.inputs)).all():
        return 1, 0, 1
    step = Fraction(1 / line.scale).limit_denominator(4096)
    i = np.arange(len(table))
    for f, d in ((step.numerator, step.denominator), (2 * step.numerator, 2 * step.denominator)):
        if 2 * d * len(table) > _MOST_TRIALS:
            return None
        offsets = np.arange(-d, d)
        found = np.clip((i * f + offsets[:, None]) // d, 0, line.inputs - 1)
        fits = (found == table).all(1)
        if fits.any():
            return f, int(min(offsets[fits], key=abs)), d
    return None


RESIZE: Mapping[str, Converter] = {"Resize": _resize, "Upsample": _upsample}
