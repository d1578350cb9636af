"""The function that picks one of several networks by extents, and the texts of its statuses.

int32_t NAME(inputs…, outputs…, void *workspace, int32_t threads, int64_t extents…)
const char *NAME_status_text(int32_t status)
"""

from __future__ import annotations

from ansorc.codegen.llvm.writer import ONCE, ModuleWriter
from ansorc.codegen.network.variants import VariantsPlan, choosing_extents, shapes_text
from ansorc.codegen.package.signature import (
    FAULT_STATUS,
    LACKS_FEATURES,
    NO_SUCH_SHAPE,
    OUT_OF_MEMORY,
)
from ansorc.ir.fault import FAULT_WORDS
from ansorc.target import Target


def emit_dispatch(plan: VariantsPlan, target: Target) -> str:
    """Return the text of the LLVM module; it refers to the networks by their names."""
    module = ModuleWriter(target.real)
    module.functions.append(f'target triple = "{target.real.triple}"')
    module.functions.append(_picking(module, plan))
    module.functions += _texts(plan)
    return module.text()


def _picking(module: ModuleWriter, plan: VariantsPlan) -> str:
    signatures = plan.signatures
    choices = choosing_extents(signatures)
    arrays = [f"ptr %p{n}" for n in range(len(signatures[0].params))]
    passed = ", ".join([*arrays, "ptr %workspace", "i32 %threads"])
    lines: list[str] = []
    for number, signature in enumerate(signatures):
        kinds = ", ".join(["ptr"] * (len(arrays) + 1))
        module.declare(f"declare i32 @{signature.name}({kinds}, i32)")
        for n, (param, d) in enumerate(choices):
            extent, go = signature.params[param].shape[d], f"go{number}.{n}"
            lines += [
                f"  %is{number}.{n} = icmp eq i64 %extent{n}, {extent}",
                f"  br i1 %is{number}.{n}, label %{go}, label %next{number}",
                f"{go}:",
            ]
        lines += [
            f"  %status{number} = call i32 @{signature.name}({passed})",
            f"  ret i32 %status{number}",
            f"next{number}:",
        ]
    head = ", ".join([passed, *(f"i64 %extent{n}" for n in range(len(choices)))])
    body = "\n".join([*lines, f"  ret i32 {NO_SUCH_SHAPE}"])
    return f"define i32 @{plan.name}({head}) {ONCE} {{\n{body}\n}}"


def _texts(plan: VariantsPlan) -> list[str]:
    known = " | ".join(map(shapes_text, plan.signatures))
    texts = {
        0: "it worked",
        OUT_OF_MEMORY: "the heap had no room for intermediate tensors",
        LACKS_FEATURES: "this processor lacks instructions that the network uses",
        **{FAULT_STATUS[kind]: f"the network {words}" for kind, words in FAULT_WORDS.items()},
        NO_SUCH_SHAPE: f"there is no network for these extents; there are {known}",
    }
    parts, labels = list[str](), list[str]()
    for status, text in {**texts, -1: "an unknown status"}.items():
        data = text.encode() + b"\0"
        escaped = "".join(f"\\{byte:02X}" for byte in data)
        symbol = f"@{plan.name}.text{status % 256}"
        parts.append(f'{symbol} = private constant [{len(data)} x i8] c"{escaped}"')
        labels.append(f"text{status % 256}:\n  ret ptr {symbol}")
    cases = " ".join(f"i32 {status}, label %text{status}" for status in texts)
    body = f"  switch i32 %status, label %text255 [ {cases} ]\n" + "\n".join(labels)
    parts.append(f"define ptr @{plan.name}_status_text(i32 %status) {ONCE} {{\n{body}\n}}")
    return parts
