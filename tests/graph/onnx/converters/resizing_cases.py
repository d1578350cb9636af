"""Random ONNX nodes that resize or sample, and what they mean, in NumPy, element by element."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ansorc.ir.aligned import Array

FACTORS = (
    0.1, 0.2, 0.3, 1 / 3, 0.4, 0.6, 2 / 3, 0.7, 0.75, 0.9, 1.0, 1.05, 1.1, 1.3, 1.5, 1.7, 2.0, 2.05,
    2.5, 3.3,
)  # fmt: skip
"""Scales that users write; many have no exact form, or products that are no integers."""
COORDINATES = (
    "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize",
)  # fmt: skip
F32 = np.float32


@dataclass(frozen=True)
class ResizeCase:
    """One node: its operator, opset and attributes, the image, and what it is resized to."""

    opset: int
    data: Array
    attributes: Mapping[str, Any]
    scales: Sequence[float] = ()
    sizes: Sequence[int] = ()
    roi: Sequence[float] = ()

    @property
    def operator(self) -> str:
        return "Upsample" if self.opset < 10 else "Resize"

    @property
    def inputs(self) -> list[Array | None]:
        """The inputs of the node; all but the first are initializers."""
        scales = np.array(self.scales, F32) if self.scales else None
        if self.opset < 9:
            return [self.data]
        if self.opset < 11:
            return [self.data, scales]
        absent = np.zeros(0, F32) if self.opset < 13 else None  # as older versions have it
        roi = np.array(self.roi, F32) if self.roi else absent
        sizes = [np.array(self.sizes)] if self.sizes else []
        return [self.data, roi, absent if scales is None else scales, *sizes]

    @property
    def known(self) -> list[int]:
        return [n for n, one in enumerate(self.inputs) if n and one is not None]

    def differs_in_onnx_runtime(self) -> bool:
        """Whether ONNX Runtime contradicts ONNX: it does not cut parts of axes that it keeps."""
        if self.attributes.get("coordinate_transformation_mode") != "tf_crop_and_resize":
            return False
        lines = lines_of(self)
        is_cut = any(line.roi != (0, 1) and line.scale == 1 for line in lines)
        is_kept = all(line.inputs == line.outputs for line in lines)
        return is_cut or is_kept or bool(self.attributes.get("antialias"))


def random_resize(rng: np.random.Generator) -> ResizeCase:
    """Draw a node that ONNX Runtime computes, too, and whose result is not empty."""
    while True:
        case = _drawn(rng)
        if min(line.outputs for line in lines_of(case)) > 0:
            return case


def _drawn(rng: np.random.Generator) -> ResizeCase:
    opset = int(rng.choice([7, 9, 10, 11, 13, 18, 19]))
    modes = ["nearest", "linear", "cubic"] if opset >= 11 else ["nearest", "linear"]
    mode = str(rng.choice(modes, p=[0.5, *[0.5 / (len(modes) - 1)] * (len(modes) - 1)]))
    rank = int(rng.choice([2, 4] if mode == "cubic" else [2, 3, 4, 5]))
    outer = 2 if rank > 3 else 0
    shape = [1, 2][:outer] + [int(e) for e in rng.integers(1, 14 if rank < 5 else 7, rank - outer)]
    data = rng.standard_normal(shape).astype(F32)
    scales = [1.0] * outer + [_factor(rng, extent, opset < 10) for extent in shape[outer:]]
    if opset < 11:
        attributes: dict[str, Any] = {"mode": mode}
        if opset < 9:
            attributes["scales"] = scales
        return ResizeCase(opset, data, attributes, scales)
    attributes = _attributes(rng, opset, mode, rank)
    axes = list(range(rank))
    if outer and opset >= 18 and rng.random() < 0.4:
        axes = attributes["axes"] = list(range(outer, rank))
    roi: list[float] = []
    if attributes["coordinate_transformation_mode"] == "tf_crop_and_resize":
        cut = [(0.0, 1.0) if d < outer else _part(rng) for d in axes]
        roi = [float(F32(one)) for end in (0, 1) for one in (part[end] for part in cut)]
    if rng.random() < 0.6:
        return ResizeCase(opset, data, attributes, [scales[d] for d in axes], roi=roi)
    sizes = [shape[d] if d < outer else int(rng.integers(1, 20)) for d in axes]
    if "axes" in attributes and rng.random() < 0.5:
        policies = ["not_larger", "not_smaller", "stretch"]
        attributes["keep_aspect_ratio_policy"] = str(rng.choice(policies))
    return ResizeCase(opset, data, attributes, sizes=sizes, roi=roi)


def _attributes(rng: np.random.Generator, opset: int, mode: str, rank: int) -> dict[str, Any]:
    names = [*COORDINATES, *["half_pixel_symmetric"] * (opset >= 19)]
    names += ["tf_half_pixel_for_nn"] * (opset < 13)
    found: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": str(rng.choice(names))}
    if mode == "nearest":
        roundings = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
        found["nearest_mode"] = str(rng.choice(roundings))
    if mode == "cubic":
        found["cubic_coeff_a"] = float(rng.choice([-0.75, -0.5]))
        found["exclude_outside"] = int(rng.integers(2))
    if mode != "nearest" and opset >= 18 and rank in (2, 4) and rng.random() < 0.4:
        found |= {"antialias": 1, "exclude_outside": int(rng.integers(2))}
    if found["coordinate_transformation_mode"] == "tf_crop_and_resize":
        found["extrapolation_value"] = 9.0
    return found


def _factor(rng: np.random.Generator, extent: int, grows: bool) -> float:  # noqa: FBT001
    scale = float(F32(rng.choice(FACTORS) if rng.random() < 0.7 else rng.uniform(0.1, 3)))
    scale = max(scale, 1.0) if grows else scale
    return scale if scale * extent >= 1 else 1.0


def _part(rng: np.random.Generator) -> tuple[float, float]:
    return float(rng.uniform(-0.3, 0.5)), float(rng.uniform(0.5, 1.3))


@dataclass
class Line:
    """One axis of a case, in the arithmetic of ONNX Runtime: float32, one place after another."""

    inputs: int
    outputs: int
    scale: np.float32
    roi: tuple[float, float] = (0.0, 1.0)
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def place(self, y: int) -> np.float32:
        i, n, m, s = F32(y), F32(self.inputs), F32(self.outputs), self.scale
        name = self.attributes.get("coordinate_transformation_mode", "asymmetric")
        if name == "asymmetric":
            return i / s
        if name == "align_corners":
            return F32(0) if self.outputs == 1 else i * (n - F32(1)) / (m - F32(1))
        if name == "tf_half_pixel_for_nn":
            return (i + F32(0.5)) / s
        if name == "tf_crop_and_resize":
            low, high = F32(self.roi[0]), F32(self.roi[1])
            if self.outputs == 1:
                return F32(0.5 * float(low + high) * float(n - F32(1)))
            return low * (n - F32(1)) + (i * (high - low) * (n - F32(1))) / (m - F32(1))
        if name == "half_pixel_symmetric":
            offset = n / F32(2) * (F32(1) - m / (s * n))
            return F32(float(offset) + (float(i) + 0.5) / float(s) - 0.5)
        if name == "pytorch_half_pixel" and self.outputs == 1:
            return F32(0)
        return (i + F32(0.5)) / s - F32(0.5)

    def nearest(self, y: int) -> int:
        place = float(self.place(y))
        mode = self.attributes.get("nearest_mode") or ("ceil" if self.scale < 1 else "floor")
        below = math.floor(place)
        if abs(place - below - 0.5) <= 1e-6 and mode.startswith("round"):
            found = below if mode.endswith("floor") else below + 1
        elif mode.startswith("round"):
            found = math.floor(place + 0.5)
        else:
            found = below if mode == "floor" else math.ceil(place)
        return min(max(found, 0), self.inputs - 1)

    def shares(self, y: int) -> dict[int, float]:
        """How much of each element counts; places beyond the ends are moved to them."""
        place = float(self.place(y))
        cubic, shrink = self.attributes["mode"] == "cubic", 1.0
        if self.attributes.get("antialias"):
            shrink = min(1.0, float(self.scale))
        reach = (2 if cubic else 1) / shrink
        found: dict[int, float] = {}
        for tap in range(math.floor(place - reach), math.ceil(place + reach) + 1):
            inside = 0 <= tap < self.inputs
            if inside or not self.attributes.get("exclude_outside"):
                at = min(max(tap, 0), self.inputs - 1)
                found[at] = found.get(at, 0.0) + self._weight(abs(tap - place) * shrink, cubic)
        total = sum(found.values()) or 1.0
        return {at: share / total for at, share in found.items()}

    def _weight(self, x: float, cubic: bool) -> float:  # noqa: FBT001
        if not cubic:
            return max(0.0, 1 - x)
        a = self.attributes.get("cubic_coeff_a", -0.75)
        if x <= 1:
            return (a + 2) * x**3 - (a + 3) * x**2 + 1
        return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def lines_of(case: ResizeCase) -> list[Line]:
    """The axes of a case."""
    shape, attributes = case.data.shape, case.attributes
    axes = list(attributes.get("axes") or range(len(shape)))
    found = [Line(n, n, F32(1), attributes=attributes) for n in shape]
    ratios = [F32(m) / F32(shape[d]) for d, m in zip(axes, case.sizes, strict=False)]
    policy = attributes.get("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        ratios = [min(ratios) if policy == "not_larger" else max(ratios)] * len(axes)
    for number, d in enumerate(axes):
        roi = (case.roi[number], case.roi[number + len(axes)]) if case.roi else (0.0, 1.0)
        if case.scales:
            scale = F32(case.scales[number])
            found[d] = Line(shape[d], int(scale * F32(shape[d])), scale, roi, attributes)
        else:
            size = case.sizes[number]
            if policy != "stretch":
                size = math.floor(float(ratios[number] * F32(shape[d])) + 0.5)
            found[d] = Line(shape[d], size, ratios[number], roi, attributes)
    return found


def resized(case: ResizeCase) -> Array:
    """What the node computes."""
    lines, result = lines_of(case), case.data.astype(np.float64)
    is_whole = all(line.roi == (0, 1) for line in lines)
    if is_whole and all(line.inputs == line.outputs for line in lines):
        return result
    outside = np.zeros([line.outputs for line in lines], np.bool_)
    for axis, line in enumerate(lines):
        is_same = line.scale == 1 or (case.attributes.get("antialias") and is_whole)
        if line.roi == (0, 1) and is_same and line.inputs == line.outputs:
            continue
        rows = [_row(result, axis, line, y) for y in range(line.outputs)]
        result = np.stack(rows, axis)
        if case.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
            beyond = [not 0 <= line.place(y) <= line.inputs - 1 for y in range(line.outputs)]
            outside |= np.array(beyond).reshape([-1 if d == axis else 1 for d in range(len(lines))])
    return np.where(outside, case.attributes.get("extrapolation_value", 0.0), result)


def _row(data: Array, axis: int, line: Line, y: int) -> Array:
    if line.attributes["mode"] == "nearest":
        return data.take(line.nearest(y), axis)
    rows = [data.take(at, axis) * share for at, share in line.shares(y).items()]
    return np.sum(rows, axis=0) if rows else data.take(0, axis) * 0
