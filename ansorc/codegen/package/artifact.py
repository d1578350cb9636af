"""Write a kernel for C and C++ programs: library, header and manifest, all of them or none."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

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
    """The files of a saved kernel."""

    library: Path
    header: Path
    manifest: Path


def write_artifact(
    path: Path, object_code: bytes, signature: Signature, target: Target
) -> Artifact:
    """Write `path` (.so, .a or .o) and a .h and a .json beside it, replacing older ones.

    A parallel kernel's .so and .a hold the runtime too, its .o does not. Raises BuildError if a
    tool is missing or fails, or if the files cannot be written; then the old ones are untouched.
    """
    if path.suffix not in _SUFFIXES:
        raise BuildError(
            f"'{path}' does not say what to write; end it in .so (shared library), "
            ".a (static library) or .o (object file)"
        )
    artifact = Artifact(path, path.with_suffix(".h"), path.with_suffix(".json"))
    manifest = Manifest(signature, target, kernel_version(object_code))
    try:
        made = Path(tempfile.mkdtemp(prefix=".ansorc-", dir=path.absolute().parent))
        try:
            _write(made, artifact, object_code, manifest)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    except OSError as error:
        raise BuildError(
            f"{path} cannot be written: {error.strerror or error}; nothing was changed there"
        ) from error
    return artifact


def _write(made: Path, artifact: Artifact, object_code: bytes, manifest: Manifest) -> None:
    """Make all files in the directory `made`, then rename them into place."""
    _write_synced(made / f"{manifest.signature.name}.o", object_code)
    library = made / artifact.library.name
    _build(library, made / f"{manifest.signature.name}.o", manifest)
    _write_synced(made / artifact.header.name, header_text(manifest).encode())
    text = manifest_text(manifest, library.read_bytes())
    _write_synced(made / artifact.manifest.name, text.encode())
    for path in (artifact.header, artifact.manifest, artifact.library):
        (made / path.name).replace(path)


def _build(library: Path, kernel: Path, manifest: Manifest) -> None:
    signature, target = manifest.signature, manifest.target
    if library.suffix == ".o":
        if kernel != library:
            kernel.rename(library)
        return
    tools = find_toolchain(target)
    objects = [kernel, runtime_object(target)] if signature.parallel else [kernel]
    if library.suffix == ".a":
        archive(tools, objects, library)
        return
    exports = [signature.name, f"{signature.name}_*"]
    if signature.parallel:
        exports.append("ansorc_*")
    link_shared(tools, objects, library, exports, stays_loaded=signature.parallel)


def _write_synced(path: Path, content: bytes) -> None:
    """Write through to the disk, so that a full one is noticed before anything is renamed."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
