"""Give a function its workspace: the caller's, or memory from the heap for as long as it runs."""

from __future__ import annotations

from collections.abc import Callable

from ansorc.codegen.llvm.parallel import allocate_block
from ansorc.codegen.llvm.writer import FunctionWriter


def return_with_workspace(
    writer: FunctionWriter, size: int, write_call: Callable[[str], str]
) -> None:
    """Write the rest of a function: return what `write_call(base)` writes, an i32, as its status.

    `base` is `%workspace`; if that is null, it is a block of `size` bytes, given back after it.
    """
    allocate, ready, before = writer.name("own"), writer.name("ready"), writer.block
    absent = writer.emit("icmp eq ptr %workspace, null")
    writer.line(f"br i1 {absent}, label {allocate}, label {ready}")
    writer.start_block(allocate)
    heap = allocate_block(writer, size)
    owned = writer.block
    writer.line(f"br label {ready}")
    writer.start_block(ready)
    base = writer.emit(f"phi ptr [%workspace, {before}], [{heap}, {owned}]")
    status = write_call(base)
    release, done = writer.name("release"), writer.name("done")
    writer.line(f"br i1 {absent}, label {release}, label {done}")
    writer.start_block(release)
    writer.line(f"call void @free(ptr {base})")
    writer.line(f"br label {done}")
    writer.start_block(done)
    writer.line(f"ret i32 {status}")
