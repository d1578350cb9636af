"""Decide where the buffers that a kernel allocates live: registers and stack, or one block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ansorc.codegen.package.signature import FAULT_RECORD, is_parallel
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.stmt import Allocate, Check, For, Function, Stmt, statements, substatements

STACK_BYTES = 64 * 1024
"""The most that the local buffers of one function may take of the stack."""
BLOCK_ALIGNMENT = 64
"""A cache line, and the widest vector."""


@dataclass(frozen=True)
class Storage:
    """The buffers of one LLVM function: on the stack, or at an offset of a block of memory."""

    stack: tuple[Buffer, ...]
    block: dict[Buffer, int]
    """The offset in bytes of each buffer that lives in the block."""
    block_bytes: int
    """The size of the block, a multiple of BLOCK_ALIGNMENT."""


def kernel_storage(function: Function) -> Storage:
    """Place what is allocated outside parallel loops: the block is the workspace."""
    buffers = list(_find_allocated(function.body, is_parallel))
    return _place_buffers(
        [FAULT_RECORD, *buffers] if has_checks(function) else buffers, Scope.GLOBAL
    )


def chunk_storage(loop: For) -> Storage:
    """Place what one thread allocates in `loop`: the block is from the heap, one for a chunk.

    A parallel loop inside is run by the same thread.
    """
    return _place_buffers(list(_find_allocated(loop.body, lambda _: False)), None)


def has_checks(function: Function) -> bool:
    """Whether a prepared function may refuse data."""
    return any(isinstance(part, Check) for part in statements(function.body))


def workspace_bytes(function: Function) -> int:
    """Return the bytes of workspace that the kernel of `function` needs."""
    return kernel_storage(function).block_bytes


def _place_buffers(buffers: list[Buffer], shared: Scope | None) -> Storage:
    """Keep small local buffers on the stack; the largest go to the block until the rest fit."""
    stack = [buffer for buffer in buffers if buffer.scope is Scope.REGISTER]
    block = [buffer for buffer in buffers if buffer.scope is shared]
    local = [b for b in buffers if b.scope not in (Scope.REGISTER, shared)]
    room = STACK_BYTES
    for buffer in sorted(local, key=lambda b: b.bytes):
        room -= _round_up(buffer.bytes)
        (stack if room >= 0 else block).append(buffer)
    offsets: dict[Buffer, int] = {}
    end = 0
    for buffer in block:
        offsets[buffer] = end
        end += _round_up(buffer.bytes)
    return Storage(tuple(stack), offsets, end)


def _find_allocated(root: Stmt, is_apart: Callable[[Stmt], bool]) -> Iterator[Buffer]:
    """The buffers allocated below `root`, each once, without those inside what `is_apart`."""
    seen: set[Buffer] = set()
    stack = [root]
    while stack:
        top = stack.pop()
        if isinstance(top, Allocate) and top.buffer not in seen:
            seen.add(top.buffer)
            yield top.buffer
        if not is_apart(top):
            stack += reversed(substatements(top))


def _round_up(size: int) -> int:
    return -(-max(size, 1) // BLOCK_ALIGNMENT) * BLOCK_ALIGNMENT
