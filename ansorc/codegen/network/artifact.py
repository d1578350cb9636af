"""Write a network for C and C++ programs: library, header, manifest, and weights if apart."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ansorc.codegen.network.header import network_header_text
from ansorc.codegen.network.plan import NetworkPlan
from ansorc.codegen.network.weights import WeightBlock
from ansorc.codegen.package.artifact import Artifact, artifact_at, link_library
from ansorc.codegen.package.files import replace_together, write_synced
from ansorc.codegen.package.manifest import NetworkManifest, kernel_version, manifest_text
from ansorc.codegen.package.runtime_library import runtime_object, weights_file_object
from ansorc.codegen.package.symbols import hide_with_prefix
from ansorc.codegen.package.toolchain import assemble, find_toolchain, link_relocatable
from ansorc.errors import BuildError
from ansorc.target import Target

MOST_EMBEDDED_BYTES = (1 << 31) - (1 << 27)
"""Code reaches 2 GiB, from which this takes what kernels and tables may need."""
WEIGHTS_MAGIC, WEIGHTS_HEADER_BYTES = b"ansorcW1", 64
"""A file of weights begins with it, their size (8 bytes, the lowest first) and their SHA-256."""


@dataclass(frozen=True)
class DerivedSection:
    """The memory in a library for the weights that are made, or moved to it, when it is loaded."""

    symbol: str
    """The symbol of its first byte in the code."""
    nbytes: int
    prepare: str
    """The function that fills it."""


@dataclass(frozen=True)
class NetworkObjects:
    """The code of a network, without its weights."""

    files: Sequence[bytes]
    weights_symbol: str
    """The symbol of the first byte of the weights, where they are inside the library."""
    prefix: str
    """The prefix of the names of `weights_file.cc`, where the weights are in a file."""
    derived: DerivedSection


MakeObjects: TypeAlias = Callable[[bytes], NetworkObjects]
"""Makes the code for weights with this SHA-256, which it may name."""


def write_network(
    path: Path, plan: NetworkPlan, make_objects: MakeObjects, target: Target, weights: Path | None
) -> Artifact:
    """Write `path` (.so, .a or .o) with a .h and a .json beside it, replacing older ones.

    `weights` is the file for the weights, which the program names when it opens the network; None:
    they are inside the library. They are packed one at a time. Raises BuildError if a tool is
    missing or fails, or if the files cannot be written; then the old ones are untouched.
    """
    artifact = artifact_at(path, weights)
    if weights is None:
        require_embeddable(plan)
    if weights in (artifact.library, artifact.header, artifact.manifest):
        raise BuildError(f"the weights cannot be in '{weights}' too; give them a file of their own")
    files = [artifact.header, artifact.manifest, path]
    with replace_together([weights, *files] if weights else files) as (*apart, header, json, made):
        data = apart[0] if weights else path_of_embedded_weights(made)
        digest = write_weights(data, plan.weights, has_header=weights is not None)
        objects = make_objects(digest)
        version = kernel_version(b"".join([*objects.files, digest]))
        manifest = _manifest(path, plan, version, target, weights)
        link_network_library(
            made, plan.name, objects, target, has_weights=weights is None,
            needs_runtime=plan.needs_runtime, version=version,
        )  # fmt: skip
        write_synced(header, network_header_text(manifest).encode())
        write_synced(json, manifest_text(manifest, made).encode())
    return artifact


def write_weights(path: Path, weights: WeightBlock, *, has_header: bool) -> bytes:
    """Write packed weights, after a header in a file of their own; return their SHA-256."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        file.write(bytes(WEIGHTS_HEADER_BYTES) if has_header else b"")
        for chunk in weights.chunks():
            digest.update(chunk)
            file.write(chunk)
        if has_header:
            file.seek(0)
            file.write(WEIGHTS_MAGIC + weights.nbytes.to_bytes(8, "little") + digest.digest())
            file.flush()
            os.fsync(file.fileno())
    return digest.digest()


def path_of_embedded_weights(library: Path) -> Path:
    """Return the file from which `link_network_library` takes the weights; make its directory."""
    directory = library.parent / "objects"
    directory.mkdir()
    return directory / "weights.bin"


def require_embeddable(plan: NetworkPlan) -> None:
    """Raise BuildError where weights are too large for a library."""
    size = plan.weights.nbytes + plan.derived.nbytes
    if size > MOST_EMBEDDED_BYTES:
        raise BuildError(
            f"the {size} bytes of weights are more than fit into a library "
            f"({MOST_EMBEDDED_BYTES}); save them apart: save(path, weights=FILE)"
        )


def _manifest(
    path: Path, plan: NetworkPlan, version: str, target: Target, weights: Path | None
) -> NetworkManifest:
    file = os.path.relpath(weights.absolute(), path.absolute().parent) if weights else None
    names = tuple(call.name for call in plan.calls)
    size, precision = plan.weights.nbytes, plan.precision
    return NetworkManifest(plan.signature, target, version, names, size, file, precision)


def link_network_library(
    library: Path,
    name: str,
    objects: NetworkObjects,
    target: Target,
    *,
    has_weights: bool,
    needs_runtime: bool,
    version: str,
) -> None:
    """Make the library, and what it consists of in the directory `objects` beside it.

    `has_weights`: those in `path_of_embedded_weights` go into it. The build ID is in `version`.
    """
    tools, directory, made = find_toolchain(target), library.parent / "objects", list[Path]()
    directory.mkdir(exist_ok=True)
    for number, code in enumerate(objects.files):
        made.append(directory / f"{name}_{number}.o")
        made[-1].write_bytes(code)
    if not has_weights:
        made.append(directory / f"{name}_weights_file.o")
        code = weights_file_object(target).read_bytes()
        made[-1].write_bytes(hide_with_prefix(code, objects.prefix))
    elif (directory / "weights.bin").stat().st_size:
        source = directory / "weights.s"
        source.write_text(_weights_assembly(objects))
        made.append(directory / f"{name}_weights.o")
        assemble(tools, source, made[-1])
        (directory / "weights.bin").unlink()
    if library.suffix == ".o":
        link_relocatable(tools, made, library)
        return
    runtime = [runtime_object(target)] if needs_runtime else []
    build_id, files = version.rpartition("+")[2], [*made, *runtime]
    link_library(library, files, name, target, has_runtime=bool(runtime), build_id=build_id)


def _weights_assembly(objects: NetworkObjects) -> str:
    """The weights; and memory for what is made of them, which the loader calls a function for."""
    symbol, derived = objects.weights_symbol, objects.derived
    memory = f"""\
\t.section .bss.{derived.symbol},"aw",%nobits
\t.p2align 12
\t.globl {derived.symbol}
\t.hidden {derived.symbol}
\t.type {derived.symbol},%object
{derived.symbol}:
\t.zero {derived.nbytes}
\t.size {derived.symbol}, .-{derived.symbol}
\t.hidden {derived.prepare}
\t.section .init_array,"aw",%init_array
\t.p2align 3
\t.quad {derived.prepare}
"""
    return f"""\
\t.section .rodata.{symbol},"a",%progbits
\t.p2align 6
\t.globl {symbol}
\t.hidden {symbol}
\t.type {symbol},%object
{symbol}:
\t.incbin "weights.bin"
\t.size {symbol}, .-{symbol}
{memory if derived.nbytes else ""}\t.section .note.GNU-stack,"",%progbits
"""
