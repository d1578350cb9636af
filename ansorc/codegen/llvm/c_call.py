"""Call C functions of the user's, whose text is compiled and linked to the kernel's object.

The text of a module has them as comments, so that it stays all that code is made from:

    ; C function NAME as SYMBOL: base64 of its text
"""

from __future__ import annotations

import base64
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ansorc.codegen.llvm.writer import FunctionWriter
from ansorc.codegen.package.toolchain import compile_c, find_toolchain, link_relocatable
from ansorc.errors import BuildError
from ansorc.ir.buffer import Buffer
from ansorc.ir.own_function import OwnFunction
from ansorc.target import Target

_SOURCE = re.compile(r"^; C function (\w+) as ([\w.]+): (\S+)$", re.MULTILINE)


def write_c_call(
    writer: FunctionWriter,
    function: OwnFunction,
    bases: Mapping[str, str],
    buffers: Sequence[Buffer],
) -> None:
    """Write a call of a C function on whole arrays, the last of which it fills."""
    pointers = [bases[buffer.name] for buffer in buffers]
    symbol = f"ansorc_{function.symbol.replace('@', '_')}"
    text = base64.b64encode(function.c.encode()).decode()
    writer.module.declare(f"; C function {function.name} as {symbol}: {text}")
    kinds = ", ".join("ptr" for _ in pointers)
    writer.module.declare(f"declare void @{symbol}({kinds})")
    writer.line(f"call void @{symbol}({', '.join(f'ptr {each}' for each in pointers)})")
    writer.forget_loads((buffers[-1].name,))


def with_c_functions(source: str, object_code: bytes, target: Target) -> bytes:
    """Return the object code of a module together with that of the C functions that it calls.

    Raise BuildError with the words of the C compiler, or if there is none for `target`.
    """
    sources = list(dict.fromkeys(_SOURCE.findall(source)))
    if not sources:
        return object_code
    tools = find_toolchain(target)
    with tempfile.TemporaryDirectory(prefix="ansorc-") as name:
        folder = Path(name)
        objects = [folder / "kernel.o"]
        objects[0].write_bytes(object_code)
        for number, (function, symbol, text) in enumerate(sources):
            path, made = folder / f"{function}.c", folder / f"{number}.o"
            path.write_bytes(base64.b64decode(text))
            try:
                compile_c(tools, path, made, [f"-D{function}={symbol}"])
            except BuildError as error:
                raise BuildError(f"the C text of '{function}' is refused: {error}") from error
            objects.append(made)
        link_relocatable(tools, objects, folder / "all.o")
        return (folder / "all.o").read_bytes()
