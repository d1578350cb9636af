"""A function of the IR as an LLVM module: the kernel behind its C interface.

int32_t NAME(params…, void *workspace, int32_t threads)     checks the CPU, finds memory
NAME.body                                                   the loops, with the CPU's features
NAME.parallelN                                              one chunk of a parallel loop
int32_t NAME_pack_WEIGHT(source, packed)                    lays out a constant for the kernel
uint64_t NAME_workspace_bytes(void)
"""

from __future__ import annotations

from collections.abc import Sequence

from ansorc.codegen.llvm.fault import define_fault
from ansorc.codegen.llvm.features import require_features
from ansorc.codegen.llvm.guard import define_check, needs_guard, write_guard
from ansorc.codegen.llvm.parallel import Outliner, pointer_attributes, return_if
from ansorc.codegen.llvm.stmt import StmtWriter
from ansorc.codegen.llvm.storage import Storage, kernel_storage
from ansorc.codegen.llvm.workspace import return_with_workspace
from ansorc.codegen.llvm.writer import ONCE, FunctionWriter, ModuleWriter
from ansorc.codegen.package.signature import FAULT_RECORD, NO_SUCH_SHAPE
from ansorc.errors import BuildError
from ansorc.ir.buffer import Buffer
from ansorc.ir.dim import Dim
from ansorc.ir.passes.matrix_nest import holds_nests
from ansorc.ir.stmt import (
    For,
    Function,
    LoopKind,
    Stmt,
    Store,
    substatements,
    written_buffers,
)
from ansorc.target import Target

MAX_STATEMENTS = 8192
"""The most stores, of a scalar or a vector, that are written out for the body of one loop."""
_STACK_ALIGNMENT = 16
"""Bytes, of a function's arguments on x86 and ARM."""


def emit_llvm(
    function: Function,
    target: Target,
    packers: Sequence[Function] = (),
    *,
    is_guarded: bool = True,
) -> str:
    """Return the text of the LLVM module of `function` and of those that pack its constants.

    Its entries ask the processor for the target's features; not so with `is_guarded` false, for
    code that never leaves a processor that has them, unless it uses tile registers. Raises
    BuildError for what a CPU does not have (bound loops, barriers, shared memory), for what this
    one lacks, and for unrolled loops that make too much code.
    """
    if target.is_gpu:
        raise BuildError(f"LLVM code is made for CPUs, not for '{target.text}'")
    require_features(function, target)
    _count_statements(function.body)
    target = target.real
    has_tiles = "amx-tile" in target.features and holds_nests(function.body)
    is_guarded = (is_guarded or has_tiles) and needs_guard(target)  # leave to use tiles is asked
    module = ModuleWriter(target, is_guarded=is_guarded, has_tiles=has_tiles)
    storage = kernel_storage(function)
    define_check(module, function.name, target)
    define_fault(module, function)
    _write_body(module, function, storage)
    _write_entry(module, function, storage, target)
    for packer in packers:
        _write_body(module, packer, kernel_storage(packer))
        _write_packer(module, packer, function.name, target)
    size = f"define i64 @{function.name}_workspace_bytes() {ONCE}"
    module.functions.append(f"{size} {{\n  ret i64 {storage.block_bytes}\n}}")
    module.functions.insert(0, f'target triple = "{target.triple}"')
    module.functions.append(_attributes(target))
    return module.text()


def _count_statements(stmt: Stmt) -> int:
    """Raise BuildError if an unrolled loop makes too many copies, which LLVM compiles for long."""
    if isinstance(stmt, Store):
        return 1
    inside = sum(_count_statements(part) for part in substatements(stmt))
    if not isinstance(stmt, For) or stmt.kind is not LoopKind.UNROLLED:
        return inside
    if inside * stmt.extent > MAX_STATEMENTS:
        raise BuildError(
            f"unrolling the loop '{stmt.var.name}' of {stmt.extent} iterations would write out "
            f"{inside * stmt.extent} statements, which would compile for long; the most is "
            f"{MAX_STATEMENTS}: unroll a shorter loop"
        )
    return inside * stmt.extent


def _write_body(module: ModuleWriter, function: Function, storage: Storage) -> None:
    writer = FunctionWriter(module)
    body = StmtWriter(writer, Outliner(module, function.name).outline)
    stored = _find_stored(function)
    arguments: list[str] = []
    for number, buffer in enumerate(function.params):
        body.exprs.memory.bases[buffer.name] = f"%p{number}"
        arguments.append(f"{_param(buffer, stored)} %p{number}")
    for dim in function.dims:
        name = f"%n.{dim.name}"
        body.exprs.index.bind_argument(dim.variable, name, dim.bounds)
        arguments.append(f"i64 {name}")
    for number, slot in enumerate(storage.slots):
        for buffer in slot:
            body.place(buffer, f"%w{number}")
        if FAULT_RECORD in slot:
            body.exprs.memory.bases[FAULT_RECORD.name] = f"%w{number}"
            writer.line(f"store i64 0, ptr %w{number}, align 8")
        largest = max(slot, key=lambda buffer: buffer.bytes)
        arguments.append(f"ptr {pointer_attributes(largest)} %w{number}")
    for buffer in storage.stack:
        body.reserve(buffer)
    with body.tiles(function.body):
        body.statement(function.body)
    writer.finish_streams()
    writer.line("ret i32 0")
    listing = ", ".join([*arguments, "i32 %threads"])
    head = f"define internal i32 @{function.name}.body({listing}) #0"
    module.functions.append(f"{head} {{\n{writer.text()}\n}}")


def _write_entry(
    module: ModuleWriter, function: Function, storage: Storage, target: Target
) -> None:
    writer = FunctionWriter(module)
    write_guard(writer, function.name)
    arguments = [f"ptr %p{number}" for number in range(len(function.params))]
    arguments += [f"i64 {_write_count(writer, dim)}" for dim in function.dims]

    def write_call(base: str) -> str:
        for offset in dict.fromkeys(storage.block.values()):
            pointer = writer.emit(f"getelementptr inbounds i8, ptr {base}, i64 {offset}")
            arguments.append(f"ptr {pointer}")
        listing = ", ".join([*arguments, f"i32 {_most_threads(writer, function.threads)}"])
        return writer.emit(f"call i32 @{function.name}.body({listing})")

    if storage.block:
        return_with_workspace(writer, storage.block_bytes, write_call)
    else:
        writer.line(f"ret i32 {write_call('null')}")
    stored = _find_stored(function)
    params = [f"{_param(buffer, stored)} %p{n}" for n, buffer in enumerate(function.params)]
    sizes = [f"i64 %{dim.name}.size" for dim in function.dims]
    listing = ", ".join([*params, *sizes, "ptr %workspace", "i32 %threads"])
    head = f"define i32 @{function.name}({listing}) {ONCE}"
    module.functions.append(f"{head} {{\n{writer.text()}\n}}")


def _write_count(writer: FunctionWriter, dim: Dim) -> str:
    """Write the test of the size of a dimension; return how many multiples of it there are.

    The function returns NO_SUCH_SHAPE if the dimension cannot have the size.
    """
    size = f"%{dim.name}.size"
    low = writer.emit(f"icmp slt i64 {size}, {dim.low}")
    high = writer.emit(f"icmp sgt i64 {size}, {dim.high}")
    wrong = writer.emit(f"or i1 {low}, {high}")
    if dim.multiple > 1:
        rest = writer.emit(f"srem i64 {size}, {dim.multiple}")
        is_part = writer.emit(f"icmp ne i64 {rest}, 0")
        wrong = writer.emit(f"or i1 {wrong}, {is_part}")
    return_if(writer, wrong, str(NO_SUCH_SHAPE))
    return size if dim.multiple == 1 else writer.emit(f"sdiv exact i64 {size}, {dim.multiple}")


def _most_threads(writer: FunctionWriter, most: int) -> str:
    """The caller's threads, but no more than `most`; the caller's 0 are as many as there may be."""
    if not most:
        return "%threads"
    before = writer.emit("add i32 %threads, -1")  # which makes of 0 the largest number
    is_fewer = writer.emit(f"icmp ult i32 {before}, {most - 1}")
    return writer.emit(f"select i1 {is_fewer}, i32 %threads, i32 {most}")


def _write_packer(module: ModuleWriter, packer: Function, kernel: str, target: Target) -> None:
    """The entry of a function that needs neither workspace nor threads."""
    writer = FunctionWriter(module)
    write_guard(writer, kernel)
    stored = _find_stored(packer)
    params = ", ".join(f"{_param(buffer, stored)} %p{n}" for n, buffer in enumerate(packer.params))
    passed = ", ".join(f"ptr %p{number}" for number in range(len(packer.params)))
    writer.line(f"ret i32 {writer.emit(f'call i32 @{packer.name}.body({passed}, i32 1)')}")
    head = f"define i32 @{packer.name}({params}) {ONCE}"
    module.functions.append(f"{head} {{\n{writer.text()}\n}}")


def _find_stored(function: Function) -> set[str]:
    return {buffer.name for buffer in written_buffers(function.body)}


def _param(buffer: Buffer, stored: set[str]) -> str:
    access = "" if buffer.name in stored else "readonly "
    return f"ptr {access}{pointer_attributes(buffer)}"


def _attributes(target: Target) -> str:
    """Return groups #0, of the kernel's code, and #1, of the math functions that it calls.

    Only the listed features may be used, because only they are tested by the guard. Wide vectors
    are spilled to aligned places: a caller on x86 aligns its stack to 16 bytes only, and LLVM does
    not align it further for spills unless it is told. A product of matrices that spilled in its
    innermost loop was seen to take 2 to 3 times as long from some callers.
    """
    baseline = "x86-64" if target.is_x86 else "generic"
    features = ",".join(f"+{name}" for name in target.features)
    machine = f'"target-cpu"="{baseline}" "tune-cpu"="{target.cpu}" "target-features"="{features}"'
    pure = "noinline nounwind willreturn memory(none)"
    aligned = '"stackrealign" ' if target.vector_bytes > _STACK_ALIGNMENT else ""
    kernel = f"noinline nounwind {aligned}{machine}"
    return f"attributes #0 = {{ {kernel} }}\nattributes #1 = {{ {pure} {machine} }}"
