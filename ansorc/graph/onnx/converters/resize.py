"""ONNX's resizing of images: along each axis, places and weights are known at import.

Places are computed as ONNX Runtime does, in float32, because a rounding may decide which element is
the nearest one (docs/decisions/0119-resizing-as-users-references-do.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ansorc.graph.onnx.node_call import Converter, NodeCall
from ansorc.graph.operators.resize import cubic_weight, linear_weight
from ansorc.graph.resizing import add_weighted_sums, nearest_elements
from ansorc.ir.aligned import Array

_BY_LENGTHS = ("align_corners", "tf_crop_and_resize")
"""Coordinates that ask for the extents, not for the scale."""
_COORDINATES = (
    *_BY_LENGTHS, "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric",
    "tf_half_pixel_for_nn",
)  # fmt: skip
_BILINEAR = {
    "half_pixel": "half_pixel", "pytorch_half_pixel": "half_pixel", "asymmetric": "asymmetric",
    "align_corners": "align_corners",
}  # fmt: skip
"""Those that `resize2d_bilinear` has, and what it calls them."""
_ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil", "simple")
_FLOAT = np.float32
_HALF = np.float32(0.5)
_HALF_TOLERANCE = np.float32(1e-6)
"""How far a place may be from the middle of two elements to count as that (ONNX Runtime 1.32)."""
_ROUNDING_ERROR = 1e-4
"""More than float32 sums of weighted bytes are wrong by."""


@dataclass(frozen=True)
class _ResizedAxis:
    """One axis: how long it is and becomes, and by which scale."""

    inputs: int
    outputs: int
    scale: np.float32
    roi: tuple[float, float] | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether no part of it is cut out."""
        return self.roi is None or self.roi == (0.0, 1.0)

    @property
    def is_kept(self) -> bool:
        """Return whether nothing happens along the axis."""
        return self.is_whole and self.inputs == self.outputs and self.scale == 1

    @property
    def is_exact(self) -> bool:
        """Return whether the scale is that of the lengths, up to a rounding."""
        return math.isclose(self.scale * self.inputs, self.outputs, rel_tol=1e-6)


@dataclass(frozen=True)
class _Manner:
    """The settings that all axes have in common."""

    mode: str
    coordinates: str
    rounding: str
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0

    def places(self, line: _ResizedAxis) -> Array:
        """Return where the elements of the result lie over the input, in float32."""
        y, inputs, scale = np.arange(line.outputs, dtype=_FLOAT), _FLOAT(line.inputs), line.scale
        last, steps = _FLOAT(line.inputs - 1), _FLOAT(max(line.outputs - 1, 1))
        match self.coordinates:
            case "asymmetric":
                return y / scale
            case "align_corners":
                return y * last / steps
            case "half_pixel_symmetric":
                centre = inputs / 2 * (1 - _FLOAT(line.outputs) / (scale * inputs))
                wide = (y.astype(np.float64) + 0.5) / float(scale)
                return (float(centre) + wide - 0.5).astype(_FLOAT)
            case "tf_crop_and_resize":
                low, high = map(_FLOAT, line.roi or (0.0, 1.0))
                if line.outputs == 1:
                    return np.full(1, 0.5 * float(low + high) * float(last), _FLOAT)
                return low * last + (y * (high - low) * last) / steps
            case "tf_half_pixel_for_nn":
                return (y + _HALF) / scale
            case "pytorch_half_pixel" if line.outputs == 1:
                return y * 0
            case _:
                return (y + _HALF) / scale - _HALF

    def nearest(self, line: _ResizedAxis) -> Array:
        """Return which element of the input each of the result is."""
        places = self.places(line)
        rounding = self.rounding
        if rounding == "simple":  # of the versions that did not say it
            rounding = "ceil" if line.scale < 1 else "floor"
        below = np.floor(places)
        is_half = np.abs(places - below - _HALF) <= _HALF_TOLERANCE
        nearer = np.floor(places + _HALF)
        rounded = {
            "floor": below,
            "ceil": np.ceil(places),
            "round_prefer_ceil": np.where(is_half, below + 1, nearer),
            "round_prefer_floor": np.where(is_half, below, nearer),
        }[rounding]
        return np.clip(rounded, 0, line.inputs - 1).astype(np.int64)

    def weights(self, line: _ResizedAxis) -> tuple[Array, Array]:
        """Return which elements of the input each of the result is a sum of, and their weights."""
        is_cubic = self.mode == "cubic"
        shrink = min(float(line.scale), 1.0) if self.antialias else 1.0
        reach, places = (2 if is_cubic else 1) / shrink, self.places(line).astype(np.float64)
        taps = np.floor(places - reach)[:, None] + np.arange(math.ceil(2 * reach) + 2)
        away = (taps - places[:, None]) * shrink
        shares = cubic_weight(away, self.cubic) if is_cubic else linear_weight(away)
        if self.exclude_outside:
            shares = shares * ((taps >= 0) & (taps < line.inputs))
        total = shares.sum(1, keepdims=True)
        return taps, shares / np.where(total == 0, 1, total)

    def beyond(self, line: _ResizedAxis) -> Array:
        """Return which elements of the result have the value of what lies outside."""
        places = self.places(line)
        if self.coordinates != "tf_crop_and_resize":
            return np.zeros(len(places), np.bool_)
        return (places < 0) | (places > line.inputs - 1)


def _resize(call: NodeCall) -> str:
    rank = call.rank(0)
    if call.opset < 11:
        scales = [float(scale) for scale in call.require_known(1, "the scales")]
        manner = _Manner(call.attribute("mode", "nearest"), "asymmetric", "simple")
        return _resize_axes(call, manner, _axes_by_scales(call, scales, range(rank), None))
    manner = _Manner(
        call.attribute("mode", "nearest"),
        call.attribute("coordinate_transformation_mode", "half_pixel"),
        call.attribute("nearest_mode", "round_prefer_floor"),
        call.attribute("cubic_coeff_a", -0.75),
        bool(call.attribute("exclude_outside", 0)),
        bool(call.attribute("antialias", 0)),
        call.attribute("extrapolation_value", 0.0),
    )
    axes = [call.axis(axis, rank) for axis in call.attribute("axes") or range(rank)]
    roi = None
    if manner.coordinates == "tf_crop_and_resize":
        roi = [float(bound) for bound in call.require_known(1, "the region of interest")]
    if call.has(2) and (scales := call.require_known(2, "the scales")).size:
        if call.has(3) and call.require_known(3, "the sizes").size:
            call.refuse("it has scales and sizes, which may contradict each other; give one")
        return _resize_axes(
            call, manner, _axes_by_scales(call, [float(s) for s in scales], axes, roi)
        )
    return _resize_axes(call, manner, _axes_by_sizes(call, call.ints(3, "the sizes"), axes, roi))


def _upsample(call: NodeCall) -> str:
    given = call.require_known(1, "the scales") if call.opset >= 9 else call.attribute("scales")
    if given is None:
        call.refuse("it has no scales")
    manner = _Manner(call.attribute("mode", "nearest"), "asymmetric", "simple")
    scales = [float(scale) for scale in given]
    return _resize_axes(call, manner, _axes_by_scales(call, scales, range(call.rank(0)), None))


def _axes_by_scales(
    call: NodeCall, scales: Sequence[float], axes: Sequence[int], roi: Sequence[float] | None
) -> list[_ResizedAxis]:
    """The axes, by their scales."""
    _check_count(call, scales, axes, roi)
    lines = [_ResizedAxis(extent, extent, _FLOAT(1)) for extent in call.type(0).shape]
    for number, (axis, scale) in enumerate(zip(axes, scales, strict=True)):
        extent, narrow = lines[axis].inputs, _FLOAT(scale)
        if not narrow > 0:
            call.refuse(f"its scale {scale:g} is not greater than 0")
        outputs = int(narrow * _FLOAT(extent))
        lines[axis] = _ResizedAxis(extent, outputs, narrow, _region(roi, number))
    return lines


def _axes_by_sizes(
    call: NodeCall, sizes: Sequence[int], axes: Sequence[int], roi: Sequence[float] | None
) -> list[_ResizedAxis]:
    """The axes, by their sizes."""
    _check_count(call, sizes, axes, roi)
    shape = call.type(0).shape
    lines = [_ResizedAxis(extent, extent, _FLOAT(1)) for extent in shape]
    policy = call.attribute("keep_aspect_ratio_policy", "stretch")
    if policy not in ("stretch", "not_larger", "not_smaller"):
        call.refuse(f"there is no keep_aspect_ratio_policy '{policy}'")
    scales = [_FLOAT(size) / _FLOAT(shape[axis]) for axis, size in zip(axes, sizes, strict=True)]
    if policy != "stretch":
        chosen = min(scales) if policy == "not_larger" else max(scales)
        scales = [chosen] * len(scales)
        sizes = [math.floor(float(chosen * _FLOAT(shape[axis])) + 0.5) for axis in axes]
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


def _resize_axes(call: NodeCall, manner: _Manner, lines: Sequence[_ResizedAxis]) -> str:
    """The input, resized along each axis."""
    _check(call, manner)
    if any(line.outputs < 1 for line in lines):
        call.refuse(f"its result is empty, {[line.outputs for line in lines]}")
    data = call.input(0)
    if all(line.is_whole and line.inputs == line.outputs for line in lines):
        return data  # whatever the scales are
    if manner.mode == "nearest":
        return _nearest(call, manner, lines)
    if call.type(0).dtype.is_float:
        return _interpolate(call, data, manner, lines)
    floats = call.add("cast", [data], dtype="float32")
    return _cut_off(call, _interpolate(call, floats, manner, lines))


def _cut_off(call: NodeCall, floats: str) -> str:
    """Return what interpolates bytes is a byte: ONNX Runtime cuts fractions off.

    Weights whose sum is 1 up to a rounding shall not make 6 of an image of sevens, so what is an
    integer up to a rounding is that one.
    """
    nudge = call.add("multiply", [call.add("sign", [floats]), call.scalar(_ROUNDING_ERROR, floats)])
    return call.add("cast", [call.add("add", [floats, nudge])], dtype=str(call.type(0).dtype))


def _interpolate(call: NodeCall, data: str, manner: _Manner, lines: Sequence[_ResizedAxis]) -> str:
    """`data`, of floats, resized by weighted sums."""
    if _is_bilinear(manner, lines):
        corners = _BILINEAR[manner.coordinates]
        size = [line.outputs for line in lines[2:]]
        return call.add("resize2d_bilinear", [data], size=size, layout="NCHW", coordinates=corners)
    for axis, line in enumerate(lines):
        is_same = manner.antialias and line.is_whole and line.inputs == line.outputs
        if not (line.is_kept or is_same):
            data = _resample(call, data, axis, manner, line)
    return data


def _check(call: NodeCall, manner: _Manner) -> None:
    mode, coordinates = manner.mode, manner.coordinates
    if mode not in ("nearest", "linear", "cubic") or coordinates not in _COORDINATES:
        call.refuse(f"there is no mode '{mode}' with coordinates '{coordinates}'")
    if manner.rounding not in _ROUNDINGS:
        call.refuse(f"there is no nearest_mode '{manner.rounding}'")
    is_byte = str(call.type(0).dtype) in ("int8", "uint8")
    is_known = is_byte and mode == "linear" and not manner.antialias
    if mode != "nearest" and not call.type(0).dtype.is_float and not is_known:
        call.refuse(f"it interpolates {call.type(0).dtype}; cast it to floats first")
    if mode == "nearest" and manner.antialias:
        call.refuse("nearest elements are not antialiased")


def _is_bilinear(manner: _Manner, lines: Sequence[_ResizedAxis]) -> bool:
    """Return whether it is a plain resizing of images by linear interpolation."""
    is_plain = manner.mode == "linear" and not (manner.antialias or manner.exclude_outside)
    is_image = len(lines) == 4 and all(line.is_kept for line in lines[:2])
    is_known = manner.coordinates in _BILINEAR
    is_single = manner.coordinates == "pytorch_half_pixel" and 1 in [n.outputs for n in lines[2:]]
    is_exact = manner.coordinates in _BY_LENGTHS or all(line.is_exact for line in lines)
    return is_plain and is_image and is_known and is_exact and not is_single


def _resample(call: NodeCall, data: str, axis: int, manner: _Manner, line: _ResizedAxis) -> str:
    """The data, resized along one axis by weighted sums."""
    (taps, weights), beyond = manner.weights(line), manner.beyond(line)
    weights[beyond] = 0
    more = beyond * manner.extrapolation if beyond.any() else None
    return add_weighted_sums(call.builder, data, axis, taps, weights, more)


def _nearest(call: NodeCall, manner: _Manner, lines: Sequence[_ResizedAxis]) -> str:
    """The input at the nearest places."""
    tables = {
        axis: (manner.nearest(line), 1 / float(line.scale))
        for axis, line in enumerate(lines)
        if not line.is_kept
    }
    data = nearest_elements(call.builder, call.input(0), tables)
    rank, outside = len(lines), np.zeros([line.outputs for line in lines], np.bool_)
    for axis, line in enumerate(lines):
        outside |= manner.beyond(line).reshape([-1 if d == axis else 1 for d in range(rank)])
    if not outside.any():
        return data
    value = call.scalar(manner.extrapolation, data)
    return call.add("where", [call.constant(outside), value, data])


RESIZE: Mapping[str, Converter] = {"Resize": _resize, "Upsample": _upsample}
