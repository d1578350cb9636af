"""The C and C++ header of a saved network: that of a kernel, its calls by name, and its weights."""

from __future__ import annotations

from ansorc.codegen.package.c_names import c_names
from ansorc.codegen.package.header import declaration, header_of
from ansorc.codegen.package.manifest import NetworkManifest
from ansorc.codegen.package.signature import NOT_OPEN

_STATUSES = f"""\
#ifndef ANSORC_NOT_OPEN
#define ANSORC_NOT_OPEN {NOT_OPEN} /* a network was called whose file of weights is not open */
#define ANSORC_CANNOT_READ 4 /* there is no such file of weights, or it may not be read */
#define ANSORC_OTHER_WEIGHTS 5 /* the file holds something else, or weights of another build */
#endif"""


def network_header_text(manifest: NetworkManifest) -> str:
    """Return the header, clean under -Wall -Wextra -Wpedantic as C99 and as C++17."""
    signature, name = manifest.signature, manifest.signature.name
    *names, seconds = c_names([*(param.name for param in signature.params), "seconds"])
    prefix, has_file = name.upper(), manifest.weights_file is not None
    macros = [
        f"#define {prefix}_CALLS {len(manifest.call_names)}",
        f"#define {prefix}_WEIGHTS_BYTES {manifest.weights_bytes}",
    ]
    declarations = [
        "/* The same, and writes how long each call of a kernel took: seconds[0] to\n"
        f"   seconds[{prefix}_CALLS - 1]. */\n"
        + declaration(signature, names, f"{name}_profile", f"double *{seconds}"),
        f"/* {prefix}_CALLS, and the name of each of them; NULL if there is no such call. */\n"
        f"int32_t {name}_calls(void);\nconst char *{name}_call_name(int32_t call);",
    ]
    if has_file:
        declarations.append(
            "/* Map the weights in the file `path`, for reading; it must stay as it is while they\n"
            "   are used. Once open, another call does nothing. Returns ANSORC_OK,\n"
            "   ANSORC_CANNOT_READ or ANSORC_OTHER_WEIGHTS. */\n"
            f"int32_t {name}_open(const char *path);\n\n"
            "/* Give the memory back, while no call runs; it may be opened again. */\n"
            f"void {name}_close(void);"
        )
    return header_of(
        manifest, names, _network_lines(manifest), [_STATUSES] * has_file, macros, declarations
    )


def _network_lines(manifest: NetworkManifest) -> list[str]:
    """Return what a contract says of the weights and of a narrow precision."""
    lines = _weight_lines(manifest)
    if manifest.precision != "f32":
        lines.insert(0, f"Between its kernels tensors are kept in {manifest.precision}.")
    return lines


def _weight_lines(manifest: NetworkManifest) -> list[str]:
    name = manifest.signature.name
    if manifest.weights_file is None:
        return ["The weights are in the library.", ""]
    return [
        f"The weights are in a file of their own: call {name}_open(path) once before. Processes",
        "that open the same file share its memory.",
        "",
    ]
