"""Call functions of the user's: an intrinsic of LLVM on vectors, or a text for each lane."""

from __future__ import annotations

import re

from ansorc.codegen.llvm.math import intrinsic
from ansorc.codegen.llvm.types import Value, register_type, suffix, with_lanes
from ansorc.codegen.llvm.vector import match_lanes
from ansorc.codegen.llvm.writer import FunctionWriter
from ansorc.errors import BuildError
from ansorc.ir.own_function import OwnFunction

_DEFINED = re.compile(
    r"\bdefine\b[^@]*?(?P<result>\w+)\s+@(?P<symbol>[\w.$]+)\s*\((?P<operands>[^)]*)\)"
)


def own_call(writer: FunctionWriter, function: OwnFunction, args: list[Value]) -> Value:
    """Write a call of `function`; raise BuildError if it has no text for CPUs."""
    if not function.llvm:
        raise BuildError(
            f"'{function.name}' has no text for CPUs; give ac.intrinsic(llvm=) the name of an "
            "intrinsic of LLVM, or a function in LLVM IR"
        )
    values = match_lanes(writer, *args)
    lanes = values[0].dtype.lanes
    result = with_lanes(function.result, lanes)
    found = _DEFINED.search(function.llvm)
    if found is None:
        name = function.llvm.strip().removeprefix("@").removeprefix("llvm.")
        return intrinsic(writer, f"{name}.{suffix(values[0].dtype)}", result, values)
    _check(function, found)
    symbol = f"own.{function.symbol.replace('@', '.')}"
    old = re.escape(found["symbol"])
    writer.module.define(f"@{symbol}", re.sub(rf"@{old}(?![\w.$])", f"@{symbol}", function.llvm))
    element = register_type(function.result)

    def call(operands: list[str]) -> str:
        kinds = map(register_type, function.arguments)
        typed = ", ".join(f"{kind} {text}" for kind, text in zip(kinds, operands, strict=True))
        return writer.emit(f"call {element} @{symbol}({typed})")

    if lanes == 1:
        return Value(call([value.text for value in values]), result)
    total = "poison"
    for lane in range(lanes):
        ones = [writer.emit(f"extractelement {value.typed}, i32 {lane}") for value in values]
        one = call(ones)
        total = writer.emit(
            f"insertelement {register_type(result)} {total}, {element} {one}, i32 {lane}"
        )
    return Value(total, result)


def _check(function: OwnFunction, found: re.Match[str]) -> None:
    """Raise BuildError unless the text defines a function of the dtypes of `function`."""
    given = [part.split()[0] for part in found["operands"].split(",") if part.strip()]
    wanted = [register_type(dtype) for dtype in function.arguments]
    result = register_type(function.result)
    if given != wanted or found["result"] != result:
        raise BuildError(
            f"the LLVM text of '{function.name}' defines {found['result']} ({', '.join(given)}), "
            f"but its dtypes are those of {result} ({', '.join(wanted)}); make them alike"
        )
