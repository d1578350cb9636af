"""The table of all applications, by Halide's names for them."""

from __future__ import annotations

from collections.abc import Callable

from bench.pipelines import definitions, filters, pyramids
from bench.pipelines.definitions import Tensors

APPLICATIONS: dict[str, Callable[[], Tensors]] = {
    application.__name__: application
    for application in (
        definitions.blur, definitions.unsharp, definitions.harris, definitions.bilateral_grid,
        filters.hist, filters.iir_blur, pyramids.local_laplacian, pyramids.lens_blur,
        definitions.stencil_chain, definitions.interpolate, definitions.nl_means,
        definitions.conv_layer, definitions.mat_mul,
    )
}  # fmt: skip
