"""Write a network for a GPU as C and C++ call it: its image, its weights, a header, a manifest.

The weights are always in a file of their own: an image is text or made of text, in which 100 MB
would be many times as much, once for each architecture.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from ansorc.codegen.cuda.artifact import (
    ARRAY_LINES,
    NAMES_TAKEN,
    calling_function,
    header_top,
    kernel_names,
    load_lines,
    status_lines,
)
from ansorc.codegen.cuda.emit import WORKSPACE_ALIGNMENT
from ansorc.codegen.cuda.network import WeightsFile
from ansorc.codegen.network.artifact import WEIGHTS_MAGIC, write_weights
from ansorc.codegen.network.plan import NetworkPlan
from ansorc.codegen.package.artifact import Artifact
from ansorc.codegen.package.c_names import c_names
from ansorc.codegen.package.files import replace_together, write_synced
from ansorc.codegen.package.header import comment, heading
from ansorc.codegen.package.manifest import NetworkManifest, kernel_version, manifest_text
from ansorc.codegen.program.launch_plan import LaunchPlan
from ansorc.errors import BuildError
from ansorc.target import Target

_TEMPLATE = Path(__file__).with_name("network_driver.h")


def write_cuda_network(
    path: Path,
    plan: NetworkPlan,
    launches: LaunchPlan,
    image: bytes,
    target: Target,
    weights: Path | None,
) -> Artifact:
    """Write `image` to `path`, a .h and a .json beside it, and the weights, if there are any.

    These go to `weights`, by default to a file beside that ends in .weights. Raise BuildError if
    the files cannot be written; then none is changed.
    """
    file = (weights or path.with_suffix(".weights")) if plan.weights.nbytes else None
    artifact = Artifact(path, path.with_suffix(".h"), path.with_suffix(".json"), file)
    if file in (artifact.library, artifact.header, artifact.manifest):
        raise BuildError(f"the weights cannot be in '{file}' too; give them a file of their own")
    files = [artifact.header, artifact.manifest, path]
    with replace_together([file, *files] if file else files) as (*apart, header, text, library):
        digest = write_weights(apart[0], plan.weights, has_header=True) if apart else b""
        manifest = NetworkManifest(
            plan.signature, target, kernel_version(image + digest),
            tuple(call.name for call in plan.calls), plan.weights.nbytes,
            os.path.relpath(file.absolute(), path.absolute().parent) if file else None,
            plan.precision,
        )  # fmt: skip
        write_synced(library, image)
        write_synced(header, network_header_text(manifest, launches, path.name, digest).encode())
        document = json.loads(manifest_text(manifest, library))
        document["network"]["weights"]["sha256"] = digest.hex()
        document |= {"workspace_alignment": WORKSPACE_ALIGNMENT, "cuda": asdict(launches)}
        write_synced(text, (json.dumps(document, indent=2) + "\n").encode())
    return artifact


def read_cuda_weights(library: Path, weights: Path) -> WeightsFile:
    """Return the file of the weights of an image that was written with a manifest.

    Raise BuildError for others.
    """
    try:
        document = json.loads(library.with_suffix(".json").read_text(encoding="utf-8"))
        known = document["network"]["weights"]
        return WeightsFile(weights, int(known["bytes"]), str(known["sha256"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BuildError(f"{library} cannot be loaded: {error}; save the network again") from error


def network_header_text(
    manifest: NetworkManifest, plan: LaunchPlan, image: str, digest: bytes
) -> str:
    """Return the header, clean under -Wall -Wextra -Wpedantic as C99 and as C++17."""
    name = manifest.signature.name
    names = c_names([param.name for param in manifest.signature.params], NAMES_TAKEN)
    more = [_TEMPLATE.read_text(encoding="utf-8").strip()]
    parts = [
        comment([*heading(manifest, names), *_contract(name, manifest)]),
        *header_top(manifest, names, image, *more),
        f"#define {name.upper()}_LAUNCHES {len(plan.launches)}\n"
        f"#define {name.upper()}_WEIGHTS_BYTES {manifest.weights_bytes}",
        "\n".join(_functions(manifest, plan, names, digest)),
        "#endif",
    ]
    return "\n\n".join(parts) + "\n"


def _contract(name: str, manifest: NetworkManifest) -> Iterator[str]:
    size = manifest.signature.workspace_bytes
    if manifest.weights_bytes:
        files, which = "image, weights", "the files of the image and the weights of this build"
    else:
        files, which = "image", "the file of the image of this build"
    yield from (
        "",
        *ARRAY_LINES,
        "",
        f"{name}_open(&module, {files}) loads {which}",
        "into the current context of the calling thread, and takes memory of the GPU;",
        f"{name}_open_data does so with the contents of the files. Then",
        f"{name}(&module, arrays …, workspace, stream) starts all kernels in a CUstream or",
        "cudaStream_t (NULL: the default one). It neither waits nor takes memory, and may be",
        f"captured into a graph. {name}_close(&module), when nothing runs, gives all back.",
        "",
    )
    if size:
        yield f"workspace: {name.upper()}_WORKSPACE_BYTES = {size} bytes of the GPU's memory,"
        yield f"aligned to {WORKSPACE_ALIGNMENT}, contents free; NULL: those of the module, for"
        yield "calls in one stream. Calls in different streams need different ones."
    else:
        yield "workspace: not used, pass NULL."
    yield from status_lines(manifest.signature)


def _functions(
    manifest: NetworkManifest, plan: LaunchPlan, names: Sequence[str], digest: bytes
) -> Iterator[str]:
    name, size = manifest.signature.name, manifest.weights_bytes
    taken = f"{size}, {plan.workspace_bytes}"
    yield f"""\
typedef struct {name}_module {{
    ansorc_cuda_module loaded;
    ansorc_cuda_memory memory;
    void *kernels[{len(kernel_names(plan))}];
}} {name}_module;

static inline void {name}_close({name}_module *module) {{
    ansorc_cuda_unload(&module->loaded);
    ansorc_cuda_release(&module->memory);
}}

static inline int32_t {name}_load({name}_module *module, const void *image) {{
{load_lines(plan)}
}}
"""
    head = WEIGHTS_MAGIC + size.to_bytes(8, "little") + digest
    yield _opening(name, taken, head if size else b"", has_data=True)
    yield _opening(name, taken, head if size else b"", has_data=False)
    yield f"""\
static inline const char *{name}_status_text(int32_t status) {{
    return ansorc_cuda_network_status_text(status);
}}
"""
    more = ["module->memory.weights"] if size else []
    yield from calling_function(manifest.signature, plan, names, more, has_own_workspace=True)


def _opening(name: str, taken: str, head: bytes, *, has_data: bool) -> str:
    """The function that loads what is in memory, or in files; `head`: of the weights, if any."""
    function = f"{name}_open_data" if has_data else f"{name}_open"
    image = "const void *image" if has_data else "const char *image"
    weights = f", const {'void' if has_data else 'char'} *weights" if head else ""
    lines = [f"static inline int32_t {function}({name}_module *module, {image}{weights}) {{"]
    if head:
        numbers = ", ".join(map(str, head))
        lines.append(f"    static const unsigned char head[] = {{{numbers}}};")
    lines += [] if has_data else ["    char *content = NULL;"]
    lines += [
        "    int32_t status = ANSORC_OK;",
        "    module->loaded.module = module->memory.weights = module->memory.workspace = NULL;",
    ]
    if has_data:
        lines.append(f"    status = {name}_load(module, image);")
    else:
        lines += [
            "    status = ansorc_cuda_read(image, &content);",
            f"    if (status == ANSORC_OK) status = {name}_load(module, content);",
            "    free(content);",
        ]
    lines += [
        "    if (status == ANSORC_OK)",
        f"        status = ansorc_cuda_take(&module->memory, {taken});",
    ]
    if head:
        what = "data" if has_data else "file"
        size = int.from_bytes(head[8:16], "little")
        lines += [
            "    if (status == ANSORC_OK)",
            f"        status = ansorc_cuda_weights_{what}(&module->memory, weights, head,",
            f"                                           sizeof head, {size});",
        ]
    lines += [
        f"    if (status != ANSORC_OK) {name}_close(module);",
        "    return status;",
        "}",
        "",
    ]
    return "\n".join(lines)
