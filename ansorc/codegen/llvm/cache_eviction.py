"""Evicting memory from all caches of the machine, line by line, by instructions made for that."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from ansorc.codegen.llvm.binding import compile_object, load_object_code
from ansorc.errors import TargetError
from ansorc.target import Target

_NAME = "evict"
_LOOP = """
define void @evict(ptr %begin, i64 %bytes) {{
entry:
  %end = getelementptr i8, ptr %begin, i64 %bytes
  br label %test
test:
  %line = phi ptr [ %begin, %entry ], [ %next, %body ]
  %more = icmp ult ptr %line, %end
  br i1 %more, label %body, label %done
body:
  {evict}
  %next = getelementptr i8, ptr %line, i64 {line_bytes}
  br label %test
done:
  {wait}
  ret void
}}
"""


def cache_eviction(target: Target) -> Callable[[int, int], None]:
    """Return a function of an address and a number of bytes that evicts them from all caches.

    They need not be writable, and keep what they hold. Where a cache is larger than anything one
    could read to displace what it holds, or shared with others, this is the only exact way. Raise
    TargetError for a machine without such instructions.
    """
    code = load_object_code(compile_object(_llvm_text(target), target), {})
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)(code.address(_NAME))

    def evict(address: int, size: int) -> None:
        assert code is not None  # keeps the machine code in memory as long as this function
        function(address, size)

    return evict


def _llvm_text(target: Target) -> str:
    head = f'target triple = "{target.triple}"\n'
    line_bytes = target.cache_line_bytes
    if target.is_x86:
        return f"{head}declare void @llvm.x86.sse2.clflush(ptr)\n" + _LOOP.format(
            evict="call void @llvm.x86.sse2.clflush(ptr %line)", line_bytes=line_bytes,
            wait="fence seq_cst",
        )  # fmt: skip
    if target.triple.startswith("aarch64"):
        return head + _LOOP.format(
            evict='call void asm sideeffect "dc civac, $0", "r,~{memory}"(ptr %line)',
            line_bytes=line_bytes, wait='call void asm sideeffect "dsb ish", "~{memory}"()',
        )  # fmt: skip
    raise TargetError(
        f"'{target.text}' has no instructions known here that evict memory from the caches; "
        'measure with cache="warm"'
    )
