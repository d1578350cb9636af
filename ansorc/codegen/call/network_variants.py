"""One network for several shapes of its inputs: `NetworkVariants` picks the program of a call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from ansorc.codegen.base import network_backend_of
from ansorc.codegen.call.arguments import file_path
from ansorc.codegen.call.bound import BoundCall
from ansorc.codegen.call.network_module import (
    CallTime,
    NetworkModule,
    link_network,
    open_network,
)
from ansorc.codegen.call.timing import Timing
from ansorc.codegen.device_array import device_array, has_dlpack, host_array
from ansorc.codegen.network.variants import VariantsPlan, shapes_text
from ansorc.codegen.package.artifact import Artifact
from ansorc.codegen.package.c_names import require_c_name
from ansorc.codegen.package.manifest import VariantsManifest
from ansorc.errors import BuildError, CallError
from ansorc.ir.aligned import Array
from ansorc.target import Target

_Shapes: TypeAlias = tuple[tuple[int, ...], ...]


class NetworkVariants:
    """Networks with the same inputs and outputs by name, each for shapes of its own.

    Calls are those of a `NetworkModule`, on arrays of any of the known shapes.
    """

    def __init__(
        self, name: str, modules: Sequence[NetworkModule], plan: VariantsPlan | None
    ) -> None:
        self.name = name
        self._plan = plan
        self.modules = tuple(modules)
        """One for each choice of shapes, in their order."""
        self._by_shapes = {_shapes_of(module): module for module in self.modules}

    def __call__(self, *arrays: object, threads: int = 0, stream: object = None) -> Any:
        """Run the network as `NetworkModule` does, by the program for the shapes of `arrays`.

        Raise CallError, with the known shapes, where there is none.
        """
        return self.module_for(*arrays)(*arrays, threads=threads, stream=stream)

    def bind(self, *arrays: object, threads: int = 0) -> BoundCall:
        """Return what runs the network on inputs and arrays for its outputs without arguments."""
        return self.module_for(*arrays).bind(*arrays, threads=threads)

    def run(self, feeds: Mapping[str, object], threads: int = 0) -> dict[str, Array]:
        """Run the network on inputs by name, and return its outputs by name, as new arrays."""
        names = [param.name for param in self.modules[0].inputs]
        if set(names) != set(feeds):
            return self.modules[0].run(feeds, threads)  # which says what is missing
        return self.module_for(*(feeds[name] for name in names)).run(feeds, threads)

    def profile(self, *arrays: object, threads: int = 0, repeats: int = 10) -> list[CallTime]:
        """Return the name and the time of each kernel call for the shapes of `arrays`."""
        return self.module_for(*arrays).profile(*arrays, threads=threads, repeats=repeats)

    def time(
        self, *arrays: object, threads: int = 0, min_time_s: float = 0.1, max_repeats: int = 100
    ) -> Timing:
        """Return the time of one call for the shapes of `arrays`."""
        return self.module_for(*arrays).time(
            *arrays, threads=threads, min_time_s=min_time_s, max_repeats=max_repeats
        )

    def module_for(self, *arrays: object) -> NetworkModule:
        """Return the program for the shapes of `arrays`, inputs and maybe outputs after them.

        Raise CallError where there is none.
        """
        inputs = self.modules[0].inputs
        if len(arrays) not in (len(inputs), len(self.modules[0].signature.params)):
            return self.modules[0]  # which says how many it takes
        shapes = [_shape(array) for array in arrays[: len(inputs)]]
        if None in shapes:
            return self.modules[0]  # which says what is no array
        module = self._by_shapes.get(cast(_Shapes, tuple(shapes)))
        if module is None:
            given = ", ".join(
                f"{param.name}: {_text(shape or ())}"
                for param, shape in zip(inputs, shapes, strict=True)
            )
            raise CallError(f"{self.name} has no program for {given}; it has {self._list_shapes()}")
        return module

    def save(self, path: str | os.PathLike[str]) -> Artifact:
        """Write all for C and C++: `path` (.so, .a or .o) with a .h and a .json beside it.

        The weights are inside, once. One function picks a network by extents of its inputs.
        Raises BuildError as a `NetworkModule` does, and where no function can pick.
        """
        if self._plan is None:
            raise BuildError(
                f"'{self.name}' was loaded from a library, so there is no object code to save; "
                "copy the library's files"
            )
        target = self.modules[0].target
        return network_backend_of(target).save_variants(file_path(path), self._plan, target)

    def __repr__(self) -> str:
        return f"<network {self.name} for {self._list_shapes()}>"

    def _list_shapes(self) -> str:
        return " | ".join(shapes_text(module.signature) for module in self.modules)


def link_variants(plan: VariantsPlan, target: Target) -> NetworkVariants:
    """Return the networks of `plan`, compiled for `target`; raise as `link_network` does."""
    require_c_name(plan.name)
    modules = [link_network(each, target) for each in plan.plans]
    return NetworkVariants(plan.name, modules, plan)


def open_variants(library: Path, manifest: VariantsManifest) -> NetworkVariants:
    """Return the networks in a shared library; raise BuildError if they cannot be loaded."""
    modules = [open_network(library, each) for each in manifest.networks]
    return NetworkVariants(manifest.name, modules, None)


def _shapes_of(module: NetworkModule) -> _Shapes:
    return tuple(param.shape for param in module.inputs)


def _text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "one element"


def _shape(value: object) -> tuple[int, ...] | None:
    """The shape of an array; None for what is none."""
    if isinstance(value, np.ndarray):
        return cast(Array, value).shape
    try:
        described = getattr(value, "__cuda_array_interface__", None)
        if described is not None:  # which no stream waits for
            return tuple(map(int, described["shape"]))
        on_device = device_array(value)
        if on_device is not None:
            return on_device.shape
        return host_array(value).shape if has_dlpack(value) else None
    except (BufferError, RuntimeError, TypeError, ValueError):
        return None
