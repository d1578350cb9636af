"""Decide where the buffers that a kernel allocates live: registers and stack, or one block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansorc.codegen.package.signature import FAULT_RECORD, is_parallel
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import Load
from ansorc.ir.node import Node, walk
from ansorc.ir.stmt import (
    Allocate,
    CallC,
    Check,
    For,
    Function,
    If,
    LoopKind,
    Prefetch,
    Seq,
    Stmt,
    Store,
    statements,
    substatements,
)

STACK_BYTES = 64 * 1024
"""The most that the local buffers of one function may take of the stack."""
BLOCK_ALIGNMENT = 64
"""A cache line, and the widest vector."""


@dataclass(frozen=True)
class Storage:
    """The buffers of one LLVM function: on the stack, or at an offset of a block of memory."""

    stack: tuple[Buffer, ...]
    block: dict[Buffer, int]
    """The offset in bytes of each buffer that lives in the block. Buffers of one offset share their
    memory: one after the other."""
    block_bytes: int
    """The size of the block, a multiple of BLOCK_ALIGNMENT."""

    @property
    def slots(self) -> list[list[Buffer]]:
        """The buffers of each offset of the block, in order."""
        slots: dict[int, list[Buffer]] = {}
        for buffer, offset in self.block.items():
            slots.setdefault(offset, []).append(buffer)
        return list(slots.values())


def kernel_storage(function: Function) -> Storage:
    """Place what is allocated outside parallel loops: the block is the workspace.

    Buffers that are never needed at the same time share their memory.
    """
    buffers = list(_find_allocated(function.body, is_parallel))
    given = [FAULT_RECORD, *buffers] if has_checks(function) else buffers
    return _place_buffers(given, Scope.GLOBAL, _find_uses(function.body))


def chunk_storage(loop: For) -> Storage:
    """Place what one thread allocates in `loop`: the block is from the heap, one for a chunk.

    A parallel loop inside is run by the same thread.
    """
    return _place_buffers(list(_find_allocated(loop.body, lambda _: False)), None, {})


def has_checks(function: Function) -> bool:
    """Whether a prepared function may refuse data."""
    return any(isinstance(part, Check) for part in statements(function.body))


def workspace_bytes(function: Function) -> int:
    """Return the bytes of workspace that the kernel of `function` needs."""
    return kernel_storage(function).block_bytes


def _place_buffers(
    buffers: list[Buffer], shared: Scope | None, uses: Mapping[str, tuple[int, int]]
) -> Storage:
    """Keep small local buffers on the stack; the largest go to the block until the rest fit.

    Those of the block with `uses` that do not overlap may share their memory.
    """
    stack = [buffer for buffer in buffers if buffer.scope is Scope.REGISTER]
    block = [buffer for buffer in buffers if buffer.scope is shared]
    local = [b for b in buffers if b.scope not in (Scope.REGISTER, shared)]
    room = STACK_BYTES
    for buffer in sorted(local, key=lambda b: b.bytes):
        room -= _round_up(buffer.bytes)
        (stack if room >= 0 else block).append(buffer)
    slots = _share(block, uses)
    offsets: dict[Buffer, int] = {}
    end = 0
    for slot in slots:
        offsets |= dict.fromkeys(slot, end)
        end += _round_up(max(buffer.bytes for buffer in slot))
    return Storage(tuple(stack), offsets, end)


def _share(buffers: Sequence[Buffer], uses: Mapping[str, tuple[int, int]]) -> list[list[Buffer]]:
    """Return the buffers that share memory together.

    A buffer takes the memory that fits it best of those whose last use is over; one without uses
    shares nothing.
    """
    slots = [[buffer] for buffer in buffers if buffer.name not in uses]
    known = [buffer for buffer in buffers if buffer.name in uses]
    shared = list[list[Buffer]]()
    for buffer in sorted(known, key=lambda b: uses[b.name][0]):
        over = [slot for slot in shared if uses[slot[-1].name][1] < uses[buffer.name][0]]
        slot = min(over, key=lambda s: abs(_room(s) - buffer.bytes), default=None)
        if slot is None:
            slot = list[Buffer]()
            shared.append(slot)
        slot.append(buffer)
    places = {buffer: number for number, buffer in enumerate(buffers)}
    return sorted([*slots, *shared], key=lambda slot: min(places[buffer] for buffer in slot))


def _room(slot: Sequence[Buffer]) -> int:
    return max(buffer.bytes for buffer in slot)


def _find_uses(body: Stmt) -> dict[str, tuple[int, int]]:
    """Return the first and the last of the statements, one after the other, that use a buffer."""
    uses: dict[str, tuple[int, int]] = {}
    for number, stmt in enumerate(_in_order(body)):
        for part in walk(stmt):
            for buffer in _named(part):
                first, _ = uses.get(buffer.name, (number, number))
                uses[buffer.name] = first, number
    return uses


def _in_order(stmt: Stmt) -> Iterator[Stmt]:
    """Yield the statements that run one after the other: whole loops, and branches."""
    match stmt:
        case Seq(stmts):
            for part in stmts:
                yield from _in_order(part)
        case Allocate(_, body) | For(_, _, LoopKind.SIZE, body):
            yield from _in_order(body)
        case If(_, then, otherwise):  # only one of them runs
            yield from _in_order(then)
            yield from _in_order(Seq(()) if otherwise is None else otherwise)
        case _:
            yield stmt


def _named(part: Node) -> Iterator[Buffer]:
    """Yield the buffers that a node names itself."""
    if isinstance(part, CallC):
        yield from (part.output, *part.inputs)
    elif isinstance(part, Load | Store | Prefetch | Allocate):
        yield part.buffer


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
