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
from ansorc.codegen.package.artifact import Artifact
from ansorc.codegen.package.c_names import c_names
from ansorc.codegen.package.files import replace_together, write_synced
from ansorc.codegen.package.header import FAULT_STATUSES, c_type, comment, heading, macros_of
from ansorc.codegen.package.manifest import Manifest, kernel_version, manifest_text
from ansorc.codegen.package.signature import Signature
from ansorc.codegen.program.launch_plan import KernelArgument, LaunchPlan
from ansorc.errors import BuildError
from ansorc.target import Target

_TEMPLATE = Path(__file__).with_name("driver.h")
NAMES_TAKEN = ("workspace", "module", "stream", "arrays", "steps", "places", "status")
"""Names that arrays cannot have in a header."""


def write_cuda_artifact(
    path: Path, plan: LaunchPlan, image: bytes, signature: Signature, target: Target
) -> Artifact:
    """Write `image` to `path`, and a .h and a .json beside it.

    Raise BuildError if the files cannot be written; then none is changed. What the driver does not
    load (a .cu) has the same header, for the image that a compiler makes of it.
    """
    artifact = Artifact(path, path.with_suffix(".h"), path.with_suffix(".json"))
    manifest = Manifest(signature, target, kernel_version(image))
    with replace_together([artifact.header, artifact.manifest, path]) as (header, text, library):
        write_synced(library, image)
        write_synced(header, header_text(manifest, plan, path.name).encode())
        document = json.loads(manifest_text(manifest, library))
        document |= {"workspace_alignment": WORKSPACE_ALIGNMENT, "cuda": asdict(plan)}
        write_synced(text, (json.dumps(document, indent=2) + "\n").encode())
    return artifact


def read_cuda_artifact(library: Path) -> tuple[LaunchPlan, bytes]:
    """Return an image that was written with a manifest, and what is launched of it.

    Raise BuildError for others.
    """
    try:
        document = json.loads(library.with_suffix(".json").read_text(encoding="utf-8"))
        return LaunchPlan.from_json(document["cuda"]), library.read_bytes()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BuildError(f"{library} cannot be loaded: {error}; save the kernel again") from error


def header_text(manifest: Manifest, plan: LaunchPlan, image: str) -> str:
    """Return the header, clean under -Wall -Wextra -Wpedantic as C99 and as C++17."""
    name = manifest.signature.name
    names = c_names([param.name for param in manifest.signature.params], NAMES_TAKEN)
    parts = [
        comment([*heading(manifest, names), *_contract(name, manifest)]),
        *header_top(manifest, names, image),
        "\n".join(_functions(manifest.signature, plan, names)),
        "#endif",
    ]
    return "\n\n".join(parts) + "\n"


def header_top(manifest: Manifest, names: Sequence[str], image: str, *more: str) -> list[str]:
    """Return the parts of a header before its functions, `more` of them after the driver's."""
    name = manifest.signature.name
    macros = [
        *macros_of(manifest, names, WORKSPACE_ALIGNMENT),
        f'#define {name.upper()}_IMAGE "{image}"',
    ]
    return [
        f"#ifndef ANSORC_KERNEL_{name}_H\n#define ANSORC_KERNEL_{name}_H",
        f"#include <stdint.h>\n\n{FAULT_STATUSES}",
        _TEMPLATE.read_text(encoding="utf-8").strip(),
        *more,
        "\n".join(macros),
    ]


def _contract(name: str, manifest: Manifest) -> Iterator[str]:
    macro = f"{name.upper()}_WORKSPACE_BYTES"
    size = manifest.signature.workspace_bytes
    yield from ("", *ARRAY_LINES, "")
    yield from (
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
    yield from status_lines(manifest.signature)


ARRAY_LINES = (
    "Arrays are in the memory of the GPU, dense and row-major (the last dimension is",
    f"contiguous), and begin at multiples of {DEVICE_ALIGNMENT} bytes. An output may not",
    "overlap any other array.",
)


def status_lines(signature: Signature) -> Sequence[str]:
    """Return what a header says of the statuses."""
    name = signature.name
    checks = (
        "",
        f"Data is checked: {name}_faults(&module, workspace, stream) waits for the stream and",
        "returns ANSORC_OK, or another status if the last call refused its data.",
    )
    return (
        *(checks if signature.faults else ()),
        "",
        f"All return ANSORC_OK or another status, whose meaning {name}_status_text tells. Faults",
        "of the kernels themselves are told by whoever waits for the stream. Needs dlopen, which",
        "older systems have in libdl (-ldl).",
    )


def _functions(signature: Signature, plan: LaunchPlan, names: Sequence[str]) -> Iterator[str]:
    name, kernels = signature.name, kernel_names(plan)
    yield f"""\
typedef struct {name}_module {{
    ansorc_cuda_module loaded;
    void *kernels[{len(kernels)}];
}} {name}_module;

static inline int32_t {name}_open_data({name}_module *module, const void *image) {{
{load_lines(plan)}
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
    yield from calling_function(signature, plan, names)


def kernel_names(plan: LaunchPlan) -> list[str]:
    """Return the kernels that are launched, each once."""
    return list(dict.fromkeys(launch.name for launch in plan.launches))


def load_lines(plan: LaunchPlan) -> str:
    """Return the statements that load `image` into `module` and return a status."""
    shared = {launch.name: launch.dynamic_shared_bytes for launch in plan.launches}
    names = ",\n        ".join(f'"{name}"' for name in shared)
    count = len(shared)
    return f"""\
    static const char *const names[] = {{
        {names}}};
    static const int shared_bytes[] = {{{", ".join(map(str, shared.values()))}}};
    return ansorc_cuda_load(&module->loaded, image, {count}, names, shared_bytes,
                            module->kernels);"""


def calling_function(
    signature: Signature,
    plan: LaunchPlan,
    names: Sequence[str],
    more: Sequence[str] = (),
    *,
    has_own_workspace: bool = False,
) -> Iterator[str]:
    """Yield the function that starts the launches on the arrays of a call, then on `more`.

    `has_own_workspace`: there is one in the module, where a call brings none.
    """
    name, kernels = signature.name, kernel_names(plan)
    params = zip(signature.params, names, strict=True)
    arguments = [f"{'' if p.is_written else 'const '}{c_type(p.dtype)} *{n}" for p, n in params]
    listing = ", ".join(
        [f"const {name}_module *module", *arguments, "void *workspace", "void *stream"]
    )
    arrays = [*names, *more, "workspace"]
    yield f"static inline int32_t {name}({listing}) {{"
    yield "    static const ansorc_cuda_step steps[] = {"
    for launch in plan.launches:
        shape = ", ".join(map(str, (*launch.grid, *launch.block, launch.dynamic_shared_bytes)))
        yield f"        {{{kernels.index(launch.name)}, {{{shape}}}, {len(launch.arguments)}}},"
    yield "    };"
    yield "    static const ansorc_cuda_place places[] = {"
    for launch in plan.launches:
        yield f"        {' '.join(_place(each, arrays) for each in launch.arguments)}"
    yield "    };"
    if has_own_workspace:
        yield "    if (!workspace) workspace = module->memory.workspace;"
    yield f"    const void *const arrays[] = {{{', '.join(arrays)}}};"
    has_workspace = int(plan.workspace_bytes > 0)
    check = f"&module->loaded, arrays, {len(arrays) - 1}, {has_workspace}"
    yield f"    int32_t status = ansorc_cuda_check({check});"
    yield "    if (status != ANSORC_OK) return status;"
    count = len(plan.launches)
    yield f"    return ansorc_cuda_run(&module->loaded, module->kernels, steps, {count}, places,"
    yield "                           arrays, stream);"
    yield "}"
    if plan.fault_statuses:
        yield from _fault_function(name, plan, has_own_workspace=has_own_workspace)


def _fault_function(name: str, plan: LaunchPlan, *, has_own_workspace: bool) -> Iterator[str]:
    """Yield the function that waits for a call and says whether it refused its data."""
    statuses = ", ".join(map(str, plan.fault_statuses))
    listing = f"const {name}_module *module, const void *workspace, void *stream"
    yield ""
    yield f"static inline int32_t {name}_faults({listing}) {{"
    yield f"    static const int statuses[] = {{{statuses}}};"
    if has_own_workspace:
        yield "    if (!workspace) workspace = module->memory.workspace;"
    address = f"(const char *)workspace + {plan.fault_place}"
    count = len(plan.fault_statuses)
    yield f"    return ansorc_cuda_faults(&module->loaded, {address}, stream, statuses, {count});"
    yield "}"


def _place(argument: KernelArgument, arrays: Sequence[str]) -> str:
    if argument.kind == "parameter":
        return f"{{{argument.place}, {argument.offset}}},"
    return f"{{{len(arrays) - 1}, {argument.place}}},"
