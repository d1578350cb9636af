"""The C and C++ header of a saved kernel: its declaration, its shapes as macros, its contract."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansorc.codegen.manifest import Manifest
from ansorc.codegen.signature import Param, Signature, is_reserved
from ansorc.ir.dtype import DType

_STATUS = """\
#ifndef ANSORC_OK
#define ANSORC_OK 0
#define ANSORC_OUT_OF_MEMORY 1 /* the heap had no room for the kernel's buffers */
#define ANSORC_LACKS_FEATURES 2 /* this processor lacks instructions that the kernel uses */
#endif"""
_NAMES_TAKEN = ("workspace", "threads")


def header_text(manifest: Manifest) -> str:
    """Return the header, clean under -Wall -Wextra -Wpedantic as C99 and as C++17."""
    signature = manifest.signature
    names = c_names([param.name for param in signature.params])
    prefix = signature.name.upper()
    parts = [
        _contract(manifest, names),
        f"#ifndef ANSORC_KERNEL_{signature.name}_H\n#define ANSORC_KERNEL_{signature.name}_H",
        "#include <stddef.h>\n#include <stdint.h>",
        _STATUS,
        "\n".join(_macros(manifest, prefix, names)),
        '#ifdef __cplusplus\nextern "C" {\n#endif',
        _declaration(signature, names),
        f"/* The same as {prefix}_WORKSPACE_BYTES. */\n"
        f"size_t {signature.name}_workspace_bytes(void);",
        "#ifdef __cplusplus\n}\n#endif",
        "#endif",
    ]
    return "\n\n".join(parts) + "\n"


def c_names(names: Sequence[str]) -> list[str]:
    """Return an identifier of C for each name: unique, also in upper case, and no reserved word."""
    taken = {name.upper() for name in _NAMES_TAKEN}
    found: list[str] = []
    for name in names:
        base = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "array"
        base = f"p_{base}" if base[0].isdigit() else f"{base}_" if is_reserved(base) else base
        unique, number = base, 2
        while unique.upper() in taken:
            unique, number = f"{base}_{number}", number + 1
        taken.add(unique.upper())
        found.append(unique)
    return found


def c_type(dtype: DType) -> str:
    """Return the C type of an element; float16 is passed as its bits, bool as a byte of 0 or 1."""
    if dtype.is_bool:
        return "uint8_t"
    if dtype.is_float:
        return {16: "uint16_t", 32: "float", 64: "double"}[dtype.bits]
    return f"{dtype.name}_t"


def _contract(manifest: Manifest, names: Sequence[str]) -> str:
    signature = manifest.signature
    lines = [f"{signature.name}, version {manifest.version}, for {manifest.target.text}.", ""]
    for param, name in zip(signature.params, names, strict=True):
        lines.append(_described(param, name))
    lines += [
        "",
        "Arrays are dense and row-major (the last dimension is contiguous), and need no alignment",
        "beyond that of their elements. An output may not overlap any other array.",
        "",
        *_workspace_lines(signature),
        "",
        *_thread_lines(signature),
        "Calls from several threads at once are safe if their outputs and workspaces differ.",
        "",
        "Returns ANSORC_OK, ANSORC_OUT_OF_MEMORY or ANSORC_LACKS_FEATURES; if it is not ANSORC_OK,",
        "the outputs are undefined.",
    ]
    body = "\n".join(f" * {_safe(line)}".rstrip() for line in lines)
    return f"/*\n{body}\n */"


def _workspace_lines(signature: Signature) -> list[str]:
    macro = f"{signature.name.upper()}_WORKSPACE_BYTES"
    if signature.workspace_bytes == 0:
        return ["workspace: not used, pass NULL."]
    return [
        f"workspace: {macro} = {signature.workspace_bytes} bytes, aligned to 64, contents free;",
        "or NULL, and each call takes that much from the heap and gives it back.",
    ]


def _thread_lines(signature: Signature) -> list[str]:
    if not signature.parallel:
        return ["threads: not used, the kernel runs on the calling thread; pass 1."]
    return [
        "threads: the most that may work on the call, the calling one counted in; 0 for all cores",
        "that the process may use (see ansorc/runtime.h), 1 for the calling thread alone.",
    ]


def _described(param: Param, name: str) -> str:
    role = "output" if param.is_output else "input, a weight" if param.constant else "input"
    shape = "".join(f"[{extent}]" for extent in param.shape) or " (one element)"
    original = "" if name == param.name else f" ('{param.name}')"
    half = ", IEEE binary16 bits" if param.dtype.is_float and param.dtype.bits == 16 else ""
    return f"{name}{original}: {param.dtype}{shape}, {role}{half}"


def _macros(manifest: Manifest, prefix: str, names: Sequence[str]) -> list[str]:
    signature = manifest.signature
    lines = [
        f'#define {prefix}_VERSION "{manifest.version}"',
        f"#define {prefix}_PARAMETERS {len(names)}",
        f"#define {prefix}_WORKSPACE_BYTES {signature.workspace_bytes}",
        f"#define {prefix}_WORKSPACE_ALIGNMENT 64",
        f"#define {prefix}_PARALLEL {int(signature.parallel)}",
    ]
    for param, name in zip(signature.params, names, strict=True):
        base = f"{prefix}_{name.upper()}"
        lines.append(f"#define {base}_RANK {len(param.shape)}")
        lines += [f"#define {base}_DIM{n} {extent}" for n, extent in enumerate(param.shape)]
        lines.append(f"#define {base}_ELEMENTS {param.elements}")
    return lines


def _declaration(signature: Signature, names: Sequence[str]) -> str:
    arguments = [
        f"{'' if param.is_output else 'const '}{c_type(param.dtype)} *{name}"
        for param, name in zip(signature.params, names, strict=True)
    ]
    indent = " " * (len(signature.name) + len("int32_t ("))
    listing = f",\n{indent}".join([*arguments, "void *workspace", "int32_t threads"])
    return f"int32_t {signature.name}({listing});"


def _safe(text: str) -> str:
    return text.replace("*/", "* /").replace("/*", "/ *")
