"""ONNX operators that sample images at places that a tensor holds."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ansorc.graph.onnx.node_call import Converter, NodeCall

_MODES = {"bilinear": "linear", "bicubic": "cubic"}
"""What opset 16 called them."""
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
    if samples < 1:
        call.refuse(
            "with sampling_ratio 0 the boxes say how many samples are taken, and ansorc's loops do "
            "not depend on data; export the network with a number, 2 is usual"
        )
    default = "half_pixel" if call.opset >= _HALF_PIXEL_OPSET else "output_half_pixel"
    return call.add(
        "roi_align",
        [call.input(0), call.input(1), call.input(2)],
        size=[int(call.attribute("output_height", 1)), int(call.attribute("output_width", 1))],
        samples=samples,
        scale=float(call.attribute("spatial_scale", 1.0)),
        mode=str(call.attribute("mode", "avg")),
        half_pixel=call.attribute("coordinate_transformation_mode", default) == "half_pixel",
    )


SAMPLING: Mapping[str, Converter] = {
    "AffineGrid": _affine_grid,
    "GridSample": _grid_sample,
    "RoiAlign": _roi_align,
}
