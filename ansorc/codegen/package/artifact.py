"""Write a kernel for C and C++ programs: library, header and manifest, all of them or none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ansorc.codegen.package.files import replace_together, write_synced
from ansorc.codegen.package.header import header_text
from ansorc.codegen.package.manifest import Manifest, kernel_version, manifest_text
from ansorc.codegen.package.runtime_library import runtime_object
from ansorc.codegen.package.signature import Signature
from ansorc.codegen.package.toolchain import archive, find_toolchain, link_shared
from ansorc.errors import BuildError
from ansorc.target import Target

_SUFFIXES = (".so", ".a", ".o")


@dataclass(frozen=True)
class Artifact:
    """The files of a saved kernel or network."""

    library: Path
    header: Path
    manifest: Path
    weights: Path | None = None
    """The file of the weights of a network that has them outside its library."""


def write_artifact(
    path: Path, object_code: bytes, signature: Signature, target: Target
) -> Artifact:
    """Write `path` (.so, .a or .o) and a .h and a .json beside it, replacing older ones.

    A parallel kernel's .so and .a hold the runtime too, its .o does not. Raises BuildError if a
    tool is missing or fails, or if the files cannot be written; then the old ones are untouched.
    """
    artifact = artifact_at(path)
    manifest = Manifest(signature, target, kernel_version(object_code))
    with replace_together([artifact.header, artifact.manifest, path]) as (header, json, library):
        kernel = library.with_name(f"{signature.name}.o")
        write_synced(kernel, object_code)
        if library.suffix != ".o":
            objects = [kernel, runtime_object(target)] if signature.parallel else [kernel]
            link_library(library, objects, signature.name, target, has_runtime=signature.parallel)
        elif kernel != library:
            kernel.rename(library)
        write_synced(header, header_text(manifest).encode())
        write_synced(json, manifest_text(manifest, library).encode())
    return artifact


def artifact_at(path: Path, weights: Path | None = None) -> Artifact:
    """Return the names of the files; raise BuildError if `path` does not say what to write."""
    if path.suffix not in _SUFFIXES:
        raise BuildError(
            f"'{path}' does not say what to write; end it in .so (shared library), "
            ".a (static library) or .o (object file)"
        )
    return Artifact(path, path.with_suffix(".h"), path.with_suffix(".json"), weights)


def link_library(
    library: Path,
    objects: list[Path],
    name: str,
    target: Target,
    *,
    has_runtime: bool,
    build_id: str = "",
) -> None:
    """Make the .so or .a of `objects`, which shows `name` and what begins with it.

    `build_id`, hexadecimal digits, stands at the beginning of a .so, for those who compare builds.
    """
    tools = find_toolchain(target)
    if library.suffix == ".a":
        archive(tools, objects, library)
        return
    exports = [name, f"{name}_*"]
    if has_runtime:
        exports.append("ansorc_*")
    link_shared(tools, objects, library, exports, stays_loaded=has_runtime, build_id=build_id)
