"""Outline parallel loops: the body becomes a function that each thread calls on its chunk."""

from __future__ import annotations

from dataclasses import dataclass

from ansorc.codegen.llvm.lane_index import Symbol, bounds
from ansorc.codegen.llvm.stmt import StmtWriter
from ansorc.codegen.llvm.storage import BLOCK_ALIGNMENT, Storage, chunk_storage
from ansorc.codegen.llvm.writer import ONCE, FunctionWriter, ModuleWriter
from ansorc.codegen.package.signature import FAULT_RECORD
from ansorc.ir.arith.affine import Linear
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Load, Var
from ansorc.ir.node import walk
from ansorc.ir.stmt import Allocate, Check, For, Prefetch, Store

OUT_OF_MEMORY = 1
"""The status of a kernel when the heap has no room for its buffers."""


@dataclass(frozen=True)
class _Captures:
    """Values of the outside that a parallel loop uses: LLVM type, operand there, name here."""

    buffers: tuple[Buffer, ...]
    variables: dict[str, Linear[Symbol]]
    """Loop variables around the loop that are not constants."""


@dataclass(frozen=True)
class _Shared:
    """The iterations that threads share: their number as an operand, and the length of a chunk."""

    end: str
    chunk: int


class Outliner:
    """Write the parallel loops of one kernel as functions of its module."""

    def __init__(self, module: ModuleWriter, kernel: str) -> None:
        self._module = module
        self._kernel = kernel
        self._count = 0

    def outline(self, outer: StmtWriter, loop: For) -> None:
        """Write `loop` as a function, and its call in `outer`."""
        name = f"{self._kernel}.parallel{self._count}"
        self._count += 1
        captures = _find_captures(outer, loop)
        self._module.functions.append(self._chunk(name, outer, loop, captures))
        kinds = ["ptr"] * len(captures.buffers) + ["i64"] * len(captures.variables)
        self._module.functions.append(_trampoline(name, kinds))
        operands = [outer.exprs.memory.bases[buffer.name] for buffer in captures.buffers]
        index = outer.exprs.index
        operands += [index.materialize(value).text for value in captures.variables.values()]
        end = outer.exprs.value(loop.bounds[1]).text if loop.bounds else str(loop.extent)
        shared = _Shared(end, loop.chunk)
        _write_call(outer.writer, name, list(zip(kinds, operands, strict=True)), shared)
        outer.writer.forget_loads(buffer.name for buffer in captures.buffers)

    def _chunk(self, name: str, outer: StmtWriter, loop: For, captures: _Captures) -> str:
        writer = FunctionWriter(self._module)
        inner = StmtWriter(writer)
        arguments: list[str] = []
        for number, buffer in enumerate(captures.buffers):
            inner.exprs.memory.bases[buffer.name] = f"%b{number}"
            arguments.append(f"ptr {pointer_attributes(buffer)} %b{number}")
        for variable, value in outer.exprs.index.variables.items():
            if not value.terms:
                inner.exprs.index.bind(variable, value)
        for number, (variable, value) in enumerate(captures.variables.items()):
            inner.exprs.index.bind_argument(variable, f"%v{number}", bounds(value))
            arguments.append(f"i64 %v{number}")
        storage = chunk_storage(loop)
        heap = _reserve(inner, storage)
        inner.leaving = f"call void @free(ptr {heap})" if heap else ""
        with inner.tiles(loop.body):
            inner.loop(loop, "%begin", "%end")
        writer.finish_streams()
        if heap:
            writer.line(f"call void @free(ptr {heap})")
        writer.line("ret i32 0")
        listing = ", ".join([*arguments, "i64 %begin", "i64 %end"])
        return f"define internal i32 @{name}({listing}) #0 {{\n{writer.text()}\n}}"


def pointer_attributes(buffer: Buffer) -> str:
    """Return what is always true of the pointer to `buffer`."""
    least = max(1, buffer.least_elements * buffer.dtype.bytes)
    return f"noalias nonnull align {buffer.dtype.bytes} dereferenceable({least})"


def _reserve(inner: StmtWriter, storage: Storage) -> str:
    """Give the chunk its buffers; return the pointer to free, if any."""
    for buffer in storage.stack:
        inner.reserve(buffer)
    if not storage.block:
        return ""
    writer = inner.writer
    heap = allocate_block(writer, storage.block_bytes)
    for buffer, offset in storage.block.items():
        inner.place(buffer, writer.emit(f"getelementptr inbounds i8, ptr {heap}, i64 {offset}"))
    return heap


def allocate_block(writer: FunctionWriter, size: int) -> str:
    """Write the allocation of `size` bytes; the function returns OUT_OF_MEMORY if it fails."""
    writer.module.declare("declare noalias ptr @aligned_alloc(i64, i64) nounwind")
    writer.module.declare("declare void @free(ptr) nounwind")
    block = writer.emit(f"call noalias ptr @aligned_alloc(i64 {BLOCK_ALIGNMENT}, i64 {size})")
    return_if(writer, writer.emit(f"icmp eq ptr {block}, null"), str(OUT_OF_MEMORY))
    return block


def return_if(writer: FunctionWriter, condition: str, status: str) -> None:
    """Write an early return."""
    stop, go = writer.name("stop"), writer.name("go")
    writer.line(f"br i1 {condition}, label {stop}, label {go}")
    writer.start_block(stop)
    writer.line(f"ret i32 {status}")
    writer.start_block(go)


def _find_captures(outer: StmtWriter, loop: For) -> _Captures:
    allocated: set[Buffer] = set()
    used: dict[Buffer, None] = {}
    names: set[str] = set()
    bound: set[str] = set()
    for part in walk(loop):
        match part:
            case Var(name):
                names.add(name)
            case For(var):
                bound.add(var.name)
            case Load(buffer, _) | Store(buffer, _, _) | Prefetch(buffer, _):
                used[buffer] = None
            case Check():
                used[FAULT_RECORD] = None
            case Allocate(buffer, _):
                allocated.add(buffer)
            case _:
                pass
    known = outer.exprs.index.variables  # of loops that are over, too
    free = sorted((names - bound) & known.keys())
    variables = {name: known[name] for name in free if known[name].terms}
    return _Captures(tuple(buffer for buffer in used if buffer not in allocated), variables)


def _closure_type(kinds: list[str]) -> str:
    """The captured operands and the status that a failing chunk sets."""
    return "{ " + ", ".join([*kinds, "i32"]) + " }"


def _trampoline(name: str, kinds: list[str]) -> str:
    """The function that the runtime calls: unpack the closure and run one chunk."""
    closure = _closure_type(kinds)
    lines = [f"define internal void @{name}.call(ptr %closure, i64 %begin, i64 %end) {ONCE} {{"]
    for number, kind in enumerate([*kinds, "i32"]):
        lines.append(f"  %p{number} = getelementptr {closure}, ptr %closure, i32 0, i32 {number}")
        if number < len(kinds):
            lines.append(f"  %a{number} = load {kind}, ptr %p{number}")
    operands = [f"{kind} %a{number}" for number, kind in enumerate(kinds)]
    listing = ", ".join([*operands, "i64 %begin", "i64 %end"])
    lines += [
        f"  %status = call i32 @{name}({listing})",
        "  %failed = icmp ne i32 %status, 0",
        "  br i1 %failed, label %fail, label %done",
        "fail:",
        f"  store atomic i32 %status, ptr %p{len(kinds)} monotonic, align 4",
        "  br label %done",
        "done:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


def _write_call(
    writer: FunctionWriter, name: str, operands: list[tuple[str, str]], loop: _Shared
) -> None:
    """With one thread, call the body; else let the runtime call it from its pool."""
    direct, pool, join = writer.name("direct"), writer.name("pool"), writer.name("join")
    closure = _closure_type([kind for kind, _ in operands])
    memory = writer.name("closure")
    writer.allocas.append(f"  {memory} = alloca {closure}, align 8")
    alone = writer.emit("icmp eq i32 %threads, 1")
    writer.line(f"br i1 {alone}, label {direct}, label {pool}")
    writer.start_block(direct)
    listing = ", ".join([f"{kind} {text}" for kind, text in operands])
    listing = f"{listing}, i64 0, i64 {loop.end}" if listing else f"i64 0, i64 {loop.end}"
    first = writer.emit(f"call i32 @{name}({listing})")
    writer.line(f"br label {join}")
    writer.start_block(pool)
    second = _pool_call(writer, name, memory, operands, loop)
    writer.line(f"br label {join}")
    writer.start_block(join)
    status = writer.emit(f"phi i32 [{first}, {direct}], [{second}, {pool}]")
    return_if(writer, writer.emit(f"icmp ne i32 {status}, 0"), status)


def _pool_call(
    writer: FunctionWriter, name: str, memory: str, operands: list[tuple[str, str]], loop: _Shared
) -> str:
    """Fill the closure and hand the loop to the runtime; return the name of its status."""
    closure = _closure_type([kind for kind, _ in operands])
    status = ""
    for number, (kind, text) in enumerate([*operands, ("i32", "0")]):
        status = writer.emit(f"getelementptr {closure}, ptr {memory}, i32 0, i32 {number}")
        writer.line(f"store {kind} {text}, ptr {status}")
    failed = _runtime_call(writer, f"ptr @{name}.call, ptr {memory}", loop)
    stored = writer.emit(f"load i32, ptr {status}")
    is_own = writer.emit(f"icmp eq i32 {failed}, 0")
    return writer.emit(f"select i1 {is_own}, i32 {stored}, i32 {failed}")


def _runtime_call(writer: FunctionWriter, part: str, loop: _Shared) -> str:
    """Write the call that shares `loop` among threads, in equal parts or in chunks."""
    if loop.chunk == 0:
        writer.module.declare("declare i32 @ansorc_parallel_for(ptr, ptr, i64, i32)")
        return writer.emit(f"call i32 @ansorc_parallel_for({part}, i64 {loop.end}, i32 %threads)")
    writer.module.declare("declare i32 @ansorc_parallel_for_dynamic(ptr, ptr, i64, i64, i32)")
    counts = f"i64 {loop.end}, i64 {loop.chunk}, i32 %threads"
    return writer.emit(f"call i32 @ansorc_parallel_for_dynamic({part}, {counts})")
