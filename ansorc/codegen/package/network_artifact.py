"""Write a network for C and C++ programs: library, header, manifest, and weights if apart."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ansorc.codegen.network.plan import NetworkPlan
from ansorc.codegen.package.artifact import Artifact, artifact_at, link_library
from ansorc.codegen.package.files import replaced_together, write_synced
from ansorc.codegen.package.manifest import NetworkManifest, kernel_version, manifest_text
from ansorc.codegen.package.network_header import network_header_text
from ansorc.codegen.package.runtime_library import runtime_object, weights_file_object
from ansorc.codegen.package.symbols import hidden_with_prefix
from ansorc.codegen.package.toolchain import assemble, find_toolchain, link_relocatable
from ansorc.errors import BuildError
from ansorc.ir.aligned import Array
from ansorc.target import Target

_MOST_EMBEDDED_BYTES = (1 << 31) - (1 << 27)
"""Code reaches 2 GiB, from which this takes what kernels and tables may need."""
_MAGIC = b"ansorcW1"


@dataclass(frozen=True)
class NetworkObjects:
    """The code of a network, without its weights."""

    files: Sequence[bytes]
    weights_symbol: str
    """What the code calls the first byte of the weights, where they are inside the library."""
    prefix: str
    """What it puts before the names of `weights_file.cc`, where they are in a file."""


def weights_digest(plan: NetworkPlan) -> bytes:
    """Return the SHA-256 of the weights, by which a library knows its file."""
    return hashlib.sha256(plan.weights.data).digest()


def write_network(
    path: Path, plan: NetworkPlan, objects: NetworkObjects, target: Target, weights: Path | None
) -> Artifact:
    """Write `path` (.so, .a or .o) with a .h and a .json beside it, replacing older ones.

    `weights` is the file for the weights, which the program names when it opens the network; None:
    they are inside the library. Raises BuildError if a tool is missing or fails, or if the files
    cannot be written; then the old ones are untouched.
    """
    artifact = artifact_at(path, weights)
    if weights is None:
        require_embeddable(plan.weights)
    if weights in (artifact.library, artifact.header, artifact.manifest):
        raise BuildError(f"the weights cannot be in '{weights}' too; give them a file of their own")
    digest = weights_digest(plan)
    version = kernel_version(b"".join([*objects.files, digest]))
    manifest = _manifest(path, plan, version, target, weights)
    files = [artifact.header, artifact.manifest, path]
    with replaced_together([weights, *files] if weights else files) as (*apart, header, json, made):
        if weights:
            size = plan.weights.nbytes.to_bytes(8, "little")
            head = _MAGIC + size + digest + bytes(16)
            write_synced(apart[0], head, plan.weights.data)
        build_network_library(
            made, plan.name, objects, target, weights=None if weights else plan.weights,
            needs_runtime=plan.needs_runtime,
        )  # fmt: skip
        write_synced(header, network_header_text(manifest).encode())
        write_synced(json, manifest_text(manifest, made).encode())
    return artifact


def require_embeddable(weights: Array) -> None:
    """Raise BuildError where weights are too large for a library."""
    if weights.nbytes > _MOST_EMBEDDED_BYTES:
        raise BuildError(
            f"the {weights.nbytes} bytes of weights are more than fit into a library "
            f"({_MOST_EMBEDDED_BYTES}); save them apart: save(path, weights=FILE)"
        )


def _manifest(
    path: Path, plan: NetworkPlan, version: str, target: Target, weights: Path | None
) -> NetworkManifest:
    file = os.path.relpath(weights.absolute(), path.absolute().parent) if weights else None
    names = tuple(call.name for call in plan.calls)
    return NetworkManifest(plan.signature, target, version, names, plan.weights.nbytes, file)


def build_network_library(
    library: Path,
    name: str,
    objects: NetworkObjects,
    target: Target,
    *,
    weights: Array | None,
    needs_runtime: bool,
) -> None:
    """Make the library, and what it consists of beside it; `weights` None: they are in a file."""
    tools, directory, made = find_toolchain(target), library.parent / "objects", list[Path]()
    directory.mkdir()
    for number, code in enumerate(objects.files):
        made.append(directory / f"{name}_{number}.o")
        made[-1].write_bytes(code)
    if weights is not None and weights.nbytes:
        (directory / "weights.bin").write_bytes(weights.data)
        source = directory / "weights.s"
        source.write_text(_weights_assembly(objects.weights_symbol))
        made.append(directory / f"{name}_weights.o")
        assemble(tools, source, made[-1])
    elif weights is None:
        made.append(directory / f"{name}_weights_file.o")
        code = weights_file_object(target).read_bytes()
        made[-1].write_bytes(hidden_with_prefix(code, objects.prefix))
    if library.suffix == ".o":
        link_relocatable(tools, made, library)
        return
    runtime = [runtime_object(target)] if needs_runtime else []
    link_library(library, [*made, *runtime], name, target, has_runtime=bool(runtime))


def _weights_assembly(symbol: str) -> str:
    return f"""\
\t.section .rodata.{symbol},"a",%progbits
\t.p2align 6
\t.globl {symbol}
\t.hidden {symbol}
\t.type {symbol},%object
{symbol}:
\t.incbin "weights.bin"
\t.size {symbol}, .-{symbol}
\t.section .note.GNU-stack,"",%progbits
"""
