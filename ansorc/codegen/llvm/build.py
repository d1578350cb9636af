"""From a loop program to a callable kernel: passes, LLVM, object code, `Module`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ansorc.codegen.call.module import Module, load_object
from ansorc.codegen.llvm.emit import compile_object, emit_llvm
from ansorc.codegen.package.c_names import require_c_name
from ansorc.codegen.package.signature import packing_functions, signature_of
from ansorc.ir.packing import Packing
from ansorc.ir.passes.pipeline import CpuOptions, prepare_for_cpu
from ansorc.ir.stmt import Function
from ansorc.target import Target


def build_function(
    function: Function,
    target: Target,
    name: str | None = None,
    *,
    flops: float | None = None,
    packings: Sequence[Packing] = (),
) -> Module:
    """Compile `function` for `target`, as the C function `name` (by default its own name).

    `flops` is what one call computes, for the manifest; `packings` are the layouts of constants
    that differ from the caller's. Raises BuildError for what the target or C cannot do.
    """
    require_c_name(name or function.name)
    named = replace(function, name=name or function.name)
    prepared = prepare_for_cpu(named, cpu_options(target))
    signature = signature_of(prepared, flops, packings)
    packers = [
        prepare_for_cpu(packer, cpu_options(target)) for packer in packing_functions(signature)
    ]
    code = compile_object(emit_llvm(prepared, target, packers), target)
    return load_object(code, signature, target)


def cpu_options(target: Target) -> CpuOptions:
    """Return what the passes have to know about `target`."""
    return CpuOptions(
        target.vector_bytes,
        target.vector_registers,
        masked=target.masked_bytes,
        stores_masked_fast=target.stores_masked_fast,
        cached_bytes=max(target.cache_bytes[:2]),
        last_cache_bytes=max(target.cache_bytes),
        asks_ahead=target.asks_ahead,
        streaming_sums=target.streaming_sums,
        interleaved=target.interleaved,
    )
