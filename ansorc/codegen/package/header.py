"""The C and C++ header of a saved kernel: its declaration, its shapes as macros, its contract."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ansorc.codegen.package.c_names import c_names, packer_name
from ansorc.codegen.package.manifest import Manifest
from ansorc.codegen.package.narrow_floats import NARROW_FLOATS
from ansorc.codegen.package.signature import FAULT_STATUS, Param, Signature
from ansorc.ir.dtype import BFLOAT16, FLOAT16, DType

_STATUS = """\
#ifndef ANSORC_OK
#define ANSORC_OK 0
#define ANSORC_OUT_OF_MEMORY 1 /* the heap had no room for the kernel's buffers */
#define ANSORC_LACKS_FEATURES 2 /* this processor lacks instructions that the kernel uses */
#endif
#ifndef ANSORC_NO_SUCH_SHAPE
#define ANSORC_NO_SUCH_SHAPE 6 /* the library was built for other sizes */
#endif"""
FAULT_STATUSES = """\
#ifndef ANSORC_INDEX_OUT_OF_RANGE
#define ANSORC_INDEX_OUT_OF_RANGE 7 /* an index in the data is none of a tensor's places */
#define ANSORC_DIVISION_BY_ZERO 8 /* an integer is divided by zero */
#define ANSORC_ASSERTION_FAILED 9 /* something that the program asserts does not hold */
#define ANSORC_VALUE_OUT_OF_RANGE 10 /* an input has values other than those promised */

/* What a status means, for people; never NULL. */
static inline const char *ansorc_status_text(int32_t status) {
    switch (status) {
        case 0: return "it worked";
        case 1: return "the heap had no room for the kernel's buffers";
        case 2: return "this processor lacks instructions that the kernel uses";
        case 3: return "the file of the network's weights is not open";
        case 4: return "there is no such file of weights, or it may not be read";
        case 5: return "the file holds something else, or weights of another build";
        case 6: return "there is no network for these extents";
        case 7: return "an index in the data is none of a tensor's places";
        case 8: return "an integer is divided by zero";
        case 9: return "something that the program asserts does not hold";
        case 10: return "an input has values other than those that were promised";
        default: return "an unknown status";
    }
}
#endif"""
_BITS = {
    FLOAT16: ", IEEE binary16 bits",
    BFLOAT16: ", bfloat16 bits: the upper half of a float",
}
_NARROW_TYPES = {FLOAT16: "ansorc_f16", BFLOAT16: "ansorc_bf16"}
"""The names of `NARROW_FLOATS` for what is uint16_t."""


def header_text(manifest: Manifest) -> str:
    """Return the header, clean under -Wall -Wextra -Wpedantic as C99 and as C++17."""
    signature = manifest.signature
    names = c_names([param.name for param in signature.params])
    weights = _weight_lines(signature, names)
    return header_of(manifest, names, weights, [], [], list(_packers(signature, names)))


def header_of(
    manifest: Manifest,
    names: Sequence[str],
    contract: Sequence[str],
    statuses: Sequence[str],
    macros: Sequence[str],
    declarations: Sequence[str],
) -> str:
    """Return a header with what kernels and networks have in common, and what is given besides."""
    signature = manifest.signature
    prefix = signature.name.upper()
    parts = [
        _contract(manifest, names, contract),
        f"#ifndef ANSORC_KERNEL_{signature.name}_H\n#define ANSORC_KERNEL_{signature.name}_H",
        "#include <stddef.h>\n#include <stdint.h>",
        _STATUS,
        FAULT_STATUSES,
        *[NARROW_FLOATS] * any(param.dtype in _NARROW_TYPES for param in signature.params),
        *statuses,
        "\n".join([*macros_of(manifest, names), *macros]),
        '#ifdef __cplusplus\nextern "C" {\n#endif',
        declaration(signature, names, signature.name),
        f"/* The same as {prefix}_WORKSPACE_BYTES. */\n"
        f"size_t {signature.name}_workspace_bytes(void);",
        *declarations,
        "#ifdef __cplusplus\n}\n#endif",
        "#endif",
    ]
    return "\n\n".join(parts) + "\n"


def declaration(signature: Signature, names: Sequence[str], function: str, *more: str) -> str:
    """Return the declaration of a function that takes the arrays, a workspace, threads and more."""
    arguments = [
        f"{'' if param.is_written else 'const '}{_named_type(param.dtype)} *{name}"
        for param, name in zip(signature.params, names, strict=True)
    ]
    indent = " " * (len(function) + len("int32_t ("))
    arguments += [f"int64_t {name}" for name in _size_names(signature, names)]
    listing = f",\n{indent}".join([*arguments, "void *workspace", "int32_t threads", *more])
    return f"int32_t {function}({listing});"


def c_type(dtype: DType) -> str:
    """Return the C type of an element; 16-bit floats are their bits, a bool is a byte of 0 or 1."""
    if dtype.is_bool:
        return "uint8_t"
    if dtype.is_float:
        return {16: "uint16_t", 32: "float", 64: "double"}[dtype.bits]
    return f"{dtype.name}_t"


def _named_type(dtype: DType) -> str:
    """Return the C type of an element, by its name where it is a float of 16 bits."""
    return _NARROW_TYPES.get(dtype) or c_type(dtype)


def _contract(manifest: Manifest, names: Sequence[str], more: Sequence[str]) -> str:
    signature = manifest.signature
    lines = [
        *heading(manifest, names),
        "",
        "Arrays are dense and row-major (the last dimension is contiguous), and need no alignment",
        "beyond that of their elements; those that begin at multiples of 64 bytes are the fastest.",
        "An output may not overlap any other array.",
        *_about_updates(signature),
        "",
        *_workspace_lines(signature),
        "",
        *_thread_lines(signature),
        *more,
        "Calls from several threads at once are safe if their outputs and workspaces differ.",
        "",
        "Returns ANSORC_OK, ANSORC_OUT_OF_MEMORY or ANSORC_LACKS_FEATURES; if it is not ANSORC_OK,",
        "the outputs are undefined.",
        *fault_lines(signature),
    ]
    return comment(lines)


def fault_lines(signature: Signature) -> list[str]:
    """Return what a contract says of checks of the data, none where there are none."""
    if not signature.faults:
        return []
    offset, macro = signature.fault_place, f"{signature.name.upper()}_FAULT_PLACE"
    names = {kind: f"ANSORC_{kind.value.upper()}" for kind in FAULT_STATUS}
    kinds = sorted({names[site.kind] for site in signature.faults})
    lines = [
        "",
        f"Data is checked: returns {' or '.join(kinds)} if it is refused; then",
        f"the workspace, if it is not NULL, has int64_t numbers from byte {macro} = {offset}",
        "on: which of these it was, counted from 1, and then, if it was an index, that index, the",
        "least and the largest place that there is, and the dimension:",
    ]
    for number, site in enumerate(signature.faults, 1):
        where = f", in {site.call}" if site.call else ""
        lines.append(f"{number}: {names[site.kind]}, {site.about}{where}")
    return lines


def heading(manifest: Manifest, names: Sequence[str]) -> list[str]:
    """Return the lines that say what was saved for which machine, and what its arrays are."""
    signature = manifest.signature
    first = f"{signature.name}, version {manifest.version}, for {manifest.target.text}."
    pairs = zip(signature.params, names, strict=True)
    return [first, "", *(_describe(param, name) for param, name in pairs), *_size_lines(signature)]


def _size_names(signature: Signature, names: Sequence[str]) -> list[str]:
    """Return the names in C of the sizes, beside arrays that are called `names`."""
    return c_names([*names, *(dim.name for dim in signature.dims)])[len(names) :]


def _size_lines(signature: Signature) -> list[str]:
    """Return what is to be known of the sizes that the caller gives."""
    if not signature.dims:
        return []
    lines = ["", "The caller gives these sizes with each call; one program serves all of them:"]
    for dim in signature.dims:
        multiples = f", multiples of {dim.multiple}" if dim.multiple > 1 else ""
        lines.append(f"{dim.name}: {dim.low} to {dim.high}{multiples}")
    return [*lines, "For others the call returns ANSORC_NO_SUCH_SHAPE (6) and does nothing."]


def comment(lines: Sequence[str]) -> str:
    """Return lines as a comment of C."""
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
    limit = f"; no more than {signature.threads} ever do, with which it was the fastest"
    return [
        "threads: the most that may work on the call, the calling one counted in; 0 for all cores",
        "that the process may use (see ansorc/runtime.h), 1 for the calling thread alone"
        f"{limit if signature.threads else ''}.",
    ]


def _weight_lines(signature: Signature, names: Sequence[str]) -> list[str]:
    if not any(param.packing for param in signature.params):
        return []
    rewritten = [n for p, n in zip(signature.params, names, strict=True) if p.is_rewritten]
    which = f"it differs from the source's for {', '.join(rewritten)}"
    return [
        "",
        f"Weights: pass what {signature.name}_pack_<weight>() made of them once, best at an",
        "address that is a multiple of 64. Each build has an order of its own; in this one",
        f"{which if rewritten else 'it is that of the source for all of them'}.",
        "",
    ]


def _about_updates(signature: Signature) -> list[str]:
    """Return what is to be known of inputs that are updated."""
    names = ", ".join(param.name for param in signature.params if param.is_updated)
    if not names:
        return []
    return [f"A call writes new values to {names}, which may not overlap any other array, too."]


def _packers(signature: Signature, names: Sequence[str]) -> Iterator[str]:
    for param, name in zip(signature.params, names, strict=True):
        if param.packing is None:
            continue
        function, kind = packer_name(signature.name, name), _named_type(param.dtype)
        macro = f"{signature.name.upper()}_{name.upper()}"
        yield (
            f"/* Reads {macro}_ELEMENTS of source, writes {macro}_PACKED_ELEMENTS of packed; they\n"
            "   may not overlap. Returns ANSORC_OK or ANSORC_LACKS_FEATURES. */\n"
            f"int32_t {function}(const {kind} *source, {kind} *packed);"
        )


def _describe(param: Param, name: str) -> str:
    role = "output" if param.is_output else "input, a weight" if param.constant else "input"
    role += ", packed" if param.is_rewritten else ""
    role += ", updated" if param.is_updated else ""
    extents = param.extents if param.sizes else param.caller_shape
    shape = "".join(f"[{extent}]" for extent in extents) or " (one element)"
    original = "" if name == param.name else f" ('{param.name}')"
    kind = param.caller_dtype.name if param.is_complex else param.dtype
    bits = _pairs(param.dtype) if param.is_complex else _BITS.get(param.dtype, "")
    return f"{name}{original}: {kind}{shape}, {role}{bits}"


def _pairs(part: DType) -> str:
    """Return what a contract says of complex numbers with parts of a dtype."""
    kind = c_type(part)
    return f", {kind} pairs: real, imaginary ({kind} _Complex, std::complex<{kind}>)"


def macros_of(manifest: Manifest, names: Sequence[str], alignment: int = 64) -> list[str]:
    """Return what the preprocessor may know: version, shapes, workspace and its alignment."""
    prefix = manifest.signature.name.upper()
    signature = manifest.signature
    lines = [
        f'#define {prefix}_VERSION "{manifest.version}"',
        f"#define {prefix}_PARAMETERS {len(names)}",
        f"#define {prefix}_WORKSPACE_BYTES {signature.workspace_bytes}",
        f"#define {prefix}_WORKSPACE_ALIGNMENT {alignment}",
        f"#define {prefix}_PARALLEL {int(signature.parallel)}",
    ]
    if signature.faults:
        lines.append(f"#define {prefix}_FAULT_PLACE {signature.fault_place}")
    for dim, name in zip(signature.dims, _size_names(signature, names), strict=True):
        base = f"{prefix}_{name.upper()}"
        lines += [
            f"#define {base}_LEAST {dim.low}",
            f"#define {base}_MOST {dim.high}",
            f"#define {base}_MULTIPLE {dim.multiple}",
        ]
    for param, name in zip(signature.params, names, strict=True):
        base = f"{prefix}_{name.upper()}"
        shape = param.caller_shape
        lines.append(f"#define {base}_RANK {len(shape)}")
        sizes = param.sizes or (None,) * len(shape)
        known = [n for n, size in enumerate(sizes) if size is None]
        lines += [f"#define {base}_DIM{n} {shape[n]}" for n in known]
        if param.sizes:
            continue
        note = f" /* {c_type(param.dtype)}s */" if param.is_complex else ""
        lines.append(f"#define {base}_ELEMENTS {math.prod(param.source_shape)}{note}")
        if param.packing is not None:
            lines.append(f"#define {base}_PACKED_ELEMENTS {param.elements}")
    return lines


def _safe(text: str) -> str:
    return text.replace("*/", "* /").replace("/*", "/ *")
