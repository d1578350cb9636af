"""Write a program for a GPU as C and C++ call it: its image, a header, a manifest.

The header is all code that a caller needs: it opens the driver when it is first needed, so nothing
is linked with it, and launches what the plan says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from ansorc.codegen.call.arguments import DEVICE_ALIGNMENT
from ansorc.codegen.cuda.emit import WORKSPACE_ALIGNMENT
from ansorc.codegen.cuda.launch import KernelArgument, Launch, LaunchPlan
from ansorc.codegen.package.artifact import Artifact
from ansorc.codegen.package.c_names import c_names
from ansorc.codegen.package.files import replaced_together, write_synced
from ansorc.codegen.package.header import c_type, comment, heading, macros_of
from ansorc.codegen.package.manifest import Manifest, kernel_version, manifest_text
from ansorc.codegen.package.signature import Signature
from ansorc.errors import BuildError
from ansorc.target import Target

_TEMPLATE = Path(__file__).with_name("driver.h")


def write_cuda_artifact(
    path: Path, plan: LaunchPlan, image: bytes, signature: Signature, target: Target
) -> Artifact:
    """Write `image` to `path`, and a .h and a .json beside it.

    Raise BuildError if the files cannot be written; then none is changed. What the driver does not
    load (a .cu) has the same header, for the image that a compiler makes of it.
    """
    artifact = Artifact(path, path.with_suffix(".h"), path.with_suffix(".json"))
    manifest = Manifest(signature, target, kernel_version(image))
    with replaced_together([artifact.header, artifact.manifest, path]) as (header, text, library):
        write_synced(library, image)
        write_synced(header, header_text(manifest, plan, path.name).encode())
        document = json.loads(manifest_text(manifest, library))
        document |= {"workspace_alignment": WORKSPACE_ALIGNMENT, "cuda": asdict(plan)}
        write_synced(text, (json.dumps(document, indent=2) + "\n").encode())
    return artifact


def read_cuda_artifact(library: Path) -> bytes:
    """Return the code in an image that was written with a manifest; raise BuildError for others."""
    try:
        document = json.loads(library.with_suffix(".json").read_text(encoding="utf-8"))
        plan = LaunchPlan.of_text(f"// launches: {json.dumps(document['cuda'])}")
        return plan.with_image(library.read_bytes())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BuildError(f"{library} cannot be loaded: {error}; save the kernel again") from error


def header_text(manifest: Manifest, plan: LaunchPlan, image: str) -> str:
    """Return the header, clean under -Wall -Wextra -Wpedantic as C99 and as C++17."""
    signature = manifest.signature
    name = signature.name
    names = c_names([param.name for param in signature.params])
    macros = [
        *macros_of(manifest, names, WORKSPACE_ALIGNMENT),
        f'#define {name.upper()}_IMAGE "{image}"',
    ]
    parts = [
        comment([*heading(manifest, names), *_contract(name, manifest)]),
        f"#ifndef ANSORC_KERNEL_{name}_H\n#define ANSORC_KERNEL_{name}_H",
        _TEMPLATE.read_text(encoding="utf-8").strip(),
        "\n".join(macros),
        "\n".join(_functions(signature, plan, names)),
        "#endif",
    ]
    return "\n\n".join(parts) + "\n"


def _contract(name: str, manifest: Manifest) -> Iterator[str]:
    macro = f"{name.upper()}_WORKSPACE_BYTES"
    size = manifest.signature.workspace_bytes
    yield from (
        "",
        "Arrays are in the memory of the GPU, dense and row-major (the last dimension is",
        f"contiguous), and begin at multiples of {DEVICE_ALIGNMENT} bytes. An output may not",
        "overlap any other array.",
        "",
        f"{name}_open(&module, path) loads the image of this build into the current context of the",
        f"calling thread; {name}_open_data does so with an image in memory. Then",
        f"{name}(&module, arrays …, workspace, stream) starts the kernels in a CUstream or",
        "cudaStream_t (NULL: the default one), does not wait for them, and may be captured into a",
        f"graph. {name}_close(&module) unloads the image.",
        "",
    )
    if size:
        yield f"workspace: {macro} = {size} bytes of the GPU's memory,"
        yield f"aligned to {WORKSPACE_ALIGNMENT}, contents free; calls in different streams need"
        yield "different ones."
    else:
        yield "workspace: not used, pass NULL."
    yield from (
        "",
        f"All return ANSORC_OK or another status, whose meaning {name}_status_text tells. Faults",
        "of the kernels themselves are told by whoever waits for the stream. Needs dlopen, which",
        "older systems have in libdl (-ldl).",
    )


def _functions(signature: Signature, plan: LaunchPlan, names: Sequence[str]) -> Iterator[str]:
    name, count = signature.name, len(plan.launches)
    kernels = ", ".join(f'"{launch.name}"' for launch in plan.launches)
    shared = ", ".join(str(launch.dynamic_shared_bytes) for launch in plan.launches)
    yield f"""\
typedef struct {name}_module {{
    ansorc_cuda_module loaded;
    void *kernels[{count}];
}} {name}_module;

static inline int32_t {name}_open_data({name}_module *module, const void *image) {{
    static const char *const names[] = {{{kernels}}};
    static const int shared_bytes[] = {{{shared}}};
    return ansorc_cuda_load(&module->loaded, image, {count}, names, shared_bytes, module->kernels);
}}

static inline int32_t {name}_open({name}_module *module, const char *path) {{
    char *image = NULL;
    int32_t status = ansorc_cuda_read(path, &image);
    if (status == ANSORC_OK) status = {name}_open_data(module, image);
    free(image);
    return status;
}}

static inline void {name}_close({name}_module *module) {{ ansorc_cuda_unload(&module->loaded); }}

static inline const char *{name}_status_text(int32_t status) {{
    return ansorc_cuda_status_text(status);
}}
"""
    params = zip(signature.params, names, strict=True)
    arguments = [f"{'' if p.is_output else 'const '}{c_type(p.dtype)} *{n}" for p, n in params]
    listing = ", ".join(
        [f"const {name}_module *module", *arguments, "void *workspace", "void *stream"]
    )
    yield f"static inline int32_t {name}({listing}) {{"
    yield f"    const void *const arrays[] = {{{', '.join([*names, 'workspace'])}}};"
    has_workspace = int(plan.workspace_bytes > 0)
    check = f"&module->loaded, arrays, {len(names)}, {has_workspace}"
    yield f"    int32_t status = ansorc_cuda_check({check});"
    for number, launch in enumerate(plan.launches):
        yield from _launch(number, launch, names)
    yield "    return status;"
    yield "}"


def _launch(number: int, launch: Launch, names: Sequence[str]) -> Iterator[str]:
    places = ", ".join(_place(argument, names) for argument in launch.arguments)
    shape = ", ".join(map(str, (*launch.grid, *launch.block, launch.dynamic_shared_bytes)))
    yield "    if (status == ANSORC_OK) {"
    yield f"        const void *places[] = {{{places}}};"
    yield f"        const unsigned shape[] = {{{shape}}};"
    yield f"        status = ansorc_cuda_launch(&module->loaded, module->kernels[{number}], shape,"
    yield f"                                    places, {len(launch.arguments)}, stream);"
    yield "    }"


def _place(argument: KernelArgument, names: Sequence[str]) -> str:
    if argument.kind == "parameter":
        return names[argument.place]
    return f"(char *)workspace + {argument.place}"
