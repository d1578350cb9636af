"""The `counts` view: what NVIDIA's compiler made of a program, and what memory does for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ansorc.codegen.cuda.emit import CLEAR_FAULTS
from ansorc.codegen.cuda.requests import MemoryRequest, requests_of
from ansorc.codegen.cuda.sass import SassLoop, hottest_loops
from ansorc.codegen.cuda.text import cuda_text
from ansorc.codegen.cuda.toolkit import Resources, compile_cubin, disassemble
from ansorc.codegen.program.device_program import DeviceProgram
from ansorc.codegen.program.launch_plan import Launch
from ansorc.ir.buffer import Scope
from ansorc.ir.stmt import Function
from ansorc.target import Target
from ansorc.target.gpu_occupancy import resident_blocks, warps_of

_SHOWN = ("FFMA", "HMMA", "IMMA", "IDP", "LDSM", "LDGSTS", "LDS", "STS", "LDG", "STG", "BAR")


def count_kernels(function: Function, source: DeviceProgram, target: Target) -> str:
    """Return the figures of a prepared function and its program; raise BuildError without NVRTC."""
    cubin = compile_cubin(cuda_text(source), target.arch)
    resources = {each.name: each for each in cubin.resources}
    loops = {each.kernel: each for each in hottest_loops(disassemble(cubin.image))}
    requests = requests_of(function)
    lines: list[str] = []
    launches = (x for x in source.plan.launches if x.name != CLEAR_FAULTS.name)
    for number, launch in enumerate(launches):
        of_kernel = [request for nest, request in requests if nest == number]
        lines += _kernel(launch, resources[launch.name], loops[launch.name], of_kernel, target)
    return "\n".join(lines)


def _kernel(
    launch: Launch,
    resources: Resources,
    loop: SassLoop,
    requests: Sequence[MemoryRequest],
    target: Target,
) -> Iterator[str]:
    gpu, threads = target.gpu, launch.threads
    shared = resources.shared_bytes + launch.dynamic_shared_bytes
    resident = int(resident_blocks(gpu.architecture, threads, resources.registers, shared))
    warps = resident * int(warps_of(threads))
    waves = launch.blocks / max(1, resident * gpu.multiprocessors)
    filled = waves / max(1, math.ceil(waves))
    yield f"{launch.name}: {launch.blocks} blocks of {threads} threads on {gpu.name}"
    yield (
        f"  registers {resources.registers}, spilled {resources.spill_store_bytes} bytes stored, "
        f"{resources.spill_load_bytes} loaded; stack {resources.stack_bytes}; shared {shared} bytes"
    )
    yield (
        f"  occupancy {warps / gpu.architecture.warps:.0%}: {resident} blocks, {warps} warps on a "
        f"multiprocessor; {waves:.2f} waves, {filled:.0%} of what they can hold is used"
    )
    where = "hottest loop" if loop.is_loop else "whole kernel"
    mix = ", ".join(
        f"{name} {count}"
        for name, count in sorted(loop.operations.items())
        if name.partition(".")[0] in _SHOWN
    )
    main = max(("FFMA", "HMMA", "IMMA"), key=loop.count)
    share = loop.share(main)
    yield f"  {where}: {loop.total} instructions, {main} {share:.0%}; {mix or 'no others'}"
    for request in requests:
        yield f"  {_line(request)}"


def _line(request: MemoryRequest) -> str:
    verb = "stores" if request.is_store else "loads"
    unit = "cycles of the banks" if request.buffer.scope is Scope.SHARED else "sectors"
    return (
        f"{verb} {request.buffer.name} ({request.buffer.scope.value}), {request.width} bytes a "
        f"thread: {request.pieces:.4g} {unit} a request, {request.least:.4g} at least"
    )
