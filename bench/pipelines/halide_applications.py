"""The table of the applications as Halide has them, by the names of `applications.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.pipelines import halide_camera, halide_definitions, halide_filters, halide_pyramids
from bench.pipelines.halide_definitions import Inputs

HALIDE: dict[str, Callable[[Inputs], Any]] = {
    application.__name__: application
    for application in (
        halide_definitions.blur, halide_definitions.unsharp, halide_definitions.harris,
        halide_definitions.bilateral_grid, halide_filters.hist, halide_filters.iir_blur,
        halide_pyramids.local_laplacian, halide_camera.camera_pipe, halide_pyramids.lens_blur,
        halide_definitions.stencil_chain, halide_definitions.interpolate,
        halide_definitions.nl_means, halide_definitions.conv_layer, halide_definitions.mat_mul,
    )
}  # fmt: skip
