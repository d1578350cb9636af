"""From a loop program to a kernel that Python calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ansorc.codegen.build import compile_function
from ansorc.codegen.call.module import Module, load_code
from ansorc.codegen.package.c_names import require_c_name
from ansorc.codegen.package.signature import MeasuredProgram
from ansorc.codegen.size_branches import SizeBranches
from ansorc.ir.dump import DumpFolder
from ansorc.ir.packing import Packing
from ansorc.ir.stmt import Function
from ansorc.target import Target


def compile_module(
    function: Function | SizeBranches,
    target: Target,
    name: str | None = None,
    *,
    flops: float | None = None,
    packings: Sequence[Packing] = (),
    records: tuple[MeasuredProgram, ...] = (),
    threads: int = 0,
    dump: DumpFolder | None = None,
) -> Module:
    """Compile `function` for `target`, as the C function `name` (by default its own name).

    `flops` is what one call computes, for the manifest; `packings` are the layouts of constants
    that differ from the caller's, `records` what the manifest says it is built from, `threads` the
    most that work on a call (0: as many as the caller allows), `dump` a folder for all stages.
    Raises BuildError for what the target or C cannot do.
    """
    if isinstance(function, SizeBranches):
        title = name or function.functions[0].name
        parts = tuple(replace(f, name=title, threads=threads) for f in function.functions)
        named = replace(function, functions=parts)
    else:
        title = name or function.name
        named = replace(function, name=title, threads=threads)
    require_c_name(title)
    built = compile_function(named, target, flops=flops, packings=packings, dump=dump)
    return load_code(built.code, replace(built.signature, records=records), target)
