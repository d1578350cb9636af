"""Load what was saved: a kernel or a network, as its manifest says."""

from __future__ import annotations

import os

from ansorc.codegen.call.arguments import file_path
from ansorc.codegen.call.module import Module, open_kernel
from ansorc.codegen.call.network_module import NetworkModule, open_network
from ansorc.codegen.call.network_variants import NetworkVariants, open_variants
from ansorc.codegen.package.manifest import NetworkManifest, VariantsManifest, read_manifest
from ansorc.errors import BuildError


def load_library(
    path: str | os.PathLike[str], *, verify: bool = False
) -> Module | NetworkModule | NetworkVariants:
    """Return what is in a shared library that `save` wrote, with its manifest.

    With `verify` every byte of the library is compared with the manifest, else samples of it, which
    tell one build from another. Raises BuildError if one of the files is missing, damaged, or of
    another build.
    """
    library = file_path(path)
    manifest = read_manifest(library, verify=verify)
    if isinstance(manifest, VariantsManifest):
        return open_variants(library, manifest)
    if isinstance(manifest, NetworkManifest):
        return open_network(library, manifest)
    return open_kernel(library, manifest)


def load_kernel(path: str | os.PathLike[str], *, verify: bool = False) -> Module:
    """Return the kernel in a shared library; raise BuildError also if it is a network."""
    loaded = load_library(path, verify=verify)
    if not isinstance(loaded, Module):
        raise BuildError(f"{path} is a network, not a kernel; load it by ansorc.load_library")
    return loaded
