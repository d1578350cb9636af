"""The table of all applications, those of Halide by its names for them, and chains."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.pipelines import camera, chains, definitions, filters, pyramids
from bench.pipelines.definitions import Tensors

APPLICATIONS: dict[str, Callable[[], Tensors]] = {
    application.__name__: application
    for application in (
        definitions.blur, definitions.unsharp, definitions.harris, definitions.bilateral_grid,
        filters.hist, filters.iir_blur, pyramids.local_laplacian, camera.camera_pipe,
        pyramids.lens_blur,
        definitions.stencil_chain, definitions.interpolate, definitions.nl_means,
        definitions.conv_layer, definitions.mat_mul,
    )
}  # fmt: skip
CHAINS = {
    f"{chain.__name__}{steps}": (chain, steps)
    for chain in (chains.jacobi, chains.heat)
    for steps in (1, 8, 32)
}
"""The chains of solvers by name: what makes one of so many steps, and how many. Beside Numba."""
APPLICATIONS.update({name: partial(chain, steps) for name, (chain, steps) in CHAINS.items()})
