"""ONNX operators that sample images at places that a tensor holds."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ansorc.graph.onnx.node_call import Converter, NodeCall

_MODES = {"bilinear": "linear", "bicubic": "cubic"}
"""The names of opset 16."""
_HALF_PIXEL_OPSET = 16
"""Since when RoiAlign begins half an element earlier."""


def _grid_sample(call: NodeCall) -> str:
    mode = str(call.attribute("mode", "linear"))
    return call.add(
        "grid_sample",
        [call.input(0), call.input(1)],
        mode=_MODES.get(mode, mode),
        padding=call.attribute("padding_mode", "zeros"),
        align_corners=bool(call.attribute("align_corners", 0)),
    )


def _affine_grid(call: NodeCall) -> str:
    """A product with the grid of the places that are moved, which is known.

    A dimension of one place has it in the middle.
    """
    batch, _, *extents = call.ints(1, "the size")
    is_aligned = bool(call.attribute("align_corners", 0))
    lines = [
        np.linspace(-1, 1, extent)
        if is_aligned and extent > 1
        else (2 * np.arange(extent) + 1) / extent - 1
        for extent in extents
    ]
    grid = np.meshgrid(*lines, indexing="ij")
    places = np.stack([*reversed(grid), np.ones(extents)], axis=-1)
    kind, rank = call.type(0).dtype.numpy, len(extents)
    known = call.constant(places.reshape(math.prod(extents), rank + 1).astype(kind))
    theta = call.add("transpose", [call.input(0)], order=[0, 2, 1])
    moved = call.add("matmul", [known, theta])
    return call.add("reshape", [moved], shape=[batch, *extents, rank])


def _roi_align(call: NodeCall) -> str:
    samples = int(call.attribute("sampling_ratio", 0))
    default = "half_pixel" if call.opset >= _HALF_PIXEL_OPSET else "output_half_pixel"
    corners = str(call.attribute("coordinate_transformation_mode", default))
    if corners not in ("half_pixel", "output_half_pixel"):
        call.refuse(f"there is no coordinate_transformation_mode '{corners}'")
    options: dict[str, object] = {
        "size": [int(call.attribute(f"output_{side}", 1)) for side in ("height", "width")],
        "scale": float(call.attribute("spatial_scale", 1.0)),
        "mode": str(call.attribute("mode", "avg")), "half_pixel": corners == "half_pixel",
    }  # fmt: skip
    tensors = [call.input(index) for index in range(3)]
    if samples < 1:
        return call.add("roi_align_by_size", tensors, **options)
    return call.add("roi_align", tensors, samples=samples, **options)


def _max_roi_pool(call: NodeCall) -> str:
    return call.add(
        "max_roi_pool",
        [call.input(0), call.input(1)],
        size=list(call.attribute("pooled_shape")),
        scale=float(call.attribute("spatial_scale", 1.0)),
    )


SAMPLING: Mapping[str, Converter] = {
    "AffineGrid": _affine_grid,
    "GridSample": _grid_sample,
    "MaxRoiPool": _max_roi_pool,
    "RoiAlign": _roi_align,
}
