"""Pad the rows of shared arrays so that the threads of a warp have fewer bank conflicts.

alloc S: float32[64, 32] shared       ->      alloc S: float32[64, 33] shared
    … S[t, k] …                                   … S[t, k] …

Every load and store is evaluated for all warps of a block. Among the paddings without conflicts (or
among all paddings if there is none), the pass chooses the one with the fewest cycles of the banks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ansorc.ir.arith.affine import integer
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import Expr, Load, Ramp
from ansorc.ir.node import walk
from ansorc.ir.passes.gpu.elements import evaluate
from ansorc.ir.passes.gpu.thread_nests import map_kernels
from ansorc.ir.passes.queries import first_lane
from ansorc.ir.stmt import Allocate, For, Function, LoopKind, Stmt, Store, statements, substatements
from ansorc.ir.substitute import free_vars, with_buffers
from ansorc.target.gpu import VECTOR_BYTES, WARP_THREADS
from ansorc.target.gpu_requests import BANK_BYTES, are_asked_twice, count_shared_wavefronts

_WARPS = 4
"""The warps of a block that are evaluated: others do the same a few rows further."""
_GAIN = 0.97
"""Padding must save 3 % of the cycles of the banks, or it is not worth the memory."""


def pad_shared(function: Function, shared_bytes: int) -> Function:
    """Return `function`, in normal form, with padded shared arrays of at most `shared_bytes`."""
    body = map_kernels(function.body, lambda nest: _pad(nest, shared_bytes))
    return function if body is function.body else replace(function, body=body)


@dataclass(frozen=True)
class _BankRequest:
    """A load or a store of a shared array by all threads: each of its indices as [warps, 32]."""

    indices: tuple[npt.NDArray[np.int64], ...]
    lanes: int
    """The neighbours that a thread requests at once."""
    may_join: bool
    """Whether it is one of four neighbours that a compiler joins if they are aligned."""
    times: int
    is_vector: bool
    is_shared: bool
    """Whether threads request the same elements, so that two parts of a vector request are one."""


def _pad(nest: Stmt, most: int) -> Stmt:
    allocated = (part.buffer for part in statements(nest) if isinstance(part, Allocate))
    buffers = dict.fromkeys(buffer for buffer in allocated if buffer.scope is Scope.SHARED)
    threads = _threads(nest)
    if not buffers or threads is None:
        return nest
    requests: dict[Buffer, list[_BankRequest]] = {buffer: [] for buffer in buffers}
    for access, loops in _accesses(nest, ()):
        if access.buffer in requests:
            request = _request(access.indices, loops, threads)
            if request is not None:
                requests[access.buffer].append(request)
    room = most - sum(buffer.bytes for buffer in buffers)
    wider: dict[Buffer, Buffer] = {}
    for buffer in buffers:
        if len(buffer.shape) > 1 and requests[buffer]:
            new = _best(buffer, requests[buffer], room)
            room -= new.bytes - buffer.bytes
            if new != buffer:
                wider[buffer] = new
    return with_buffers(nest, wider)


def _threads(nest: Stmt) -> dict[str, npt.NDArray[np.int64]] | None:
    """Return the value of each thread index for the threads of each warp [warps, 32], or None."""
    loops: dict[str, For] = {}
    while isinstance(nest, For) and nest.kind is LoopKind.BOUND:
        if nest.thread.startswith("threadIdx"):
            loops[nest.thread] = nest
        nest = nest.body
    count = int(np.prod([loop.extent for loop in loops.values()]))
    if not loops or count % WARP_THREADS:
        return None
    number = np.arange(count).reshape(-1, WARP_THREADS)[:: max(1, count // WARP_THREADS // _WARPS)]
    numbers: dict[str, npt.NDArray[np.int64]] = {}
    for thread in ("threadIdx.x", "threadIdx.y", "threadIdx.z"):
        if thread in loops:
            numbers[loops[thread].var.name] = number % loops[thread].extent
            number = number // loops[thread].extent
    return numbers


def _accesses(stmt: Stmt, loops: tuple[For, ...]) -> Iterator[tuple[Load | Store, tuple[For, ...]]]:
    if isinstance(stmt, For):
        loops = loops if stmt.kind is LoopKind.BOUND else (*loops, stmt)
    if isinstance(stmt, Store):
        for part in walk(stmt):
            if isinstance(part, Load | Store):
                yield part, loops
    for part in substatements(stmt):
        yield from _accesses(part, loops)


def _request(
    indices: Sequence[Expr],
    loops: tuple[For, ...],
    threads: Mapping[str, npt.NDArray[np.int64]],
) -> _BankRequest | None:
    zero = np.zeros(next(iter(threads.values())).shape, dtype=np.int64)
    columns: list[npt.NDArray[np.int64]] = []
    for index in indices:
        first = first_lane(index)
        values = {**dict.fromkeys(free_vars(first), zero), **threads}
        value = evaluate(first, values)
        if value is None:
            return None
        columns.append(np.broadcast_to(value, zero.shape).astype(np.int64))
    last = indices[-1]
    is_vector = isinstance(last, Ramp) and last.stride == integer(1)
    lanes = last.lanes if isinstance(last, Ramp) and is_vector else 1
    unrolled = [loop for loop in loops if loop.kind is LoopKind.UNROLLED and loop.extent >= 4]
    may_join = not is_vector and any(_steps_by_one(last, loop) for loop in unrolled)
    times = int(np.prod([float(loop.extent) for loop in loops]))
    twice = [are_asked_twice(places) for places in columns]
    is_shared = bool(np.logical_and.reduce(twice).all())
    return _BankRequest(tuple(columns), lanes, may_join, times, is_vector, is_shared)


def _steps_by_one(index: Expr, loop: For) -> bool:
    ends = [
        evaluate(index, {name: np.asarray(0) for name in free_vars(index)} | {loop.var.name: at})
        for at in (np.asarray(0), np.asarray(1))
    ]
    return ends[0] is not None and ends[1] is not None and int(ends[1]) - int(ends[0]) == 1


def _best(buffer: Buffer, requests: Sequence[_BankRequest], room: int) -> Buffer:
    unit = max(1, VECTOR_BYTES // buffer.dtype.bytes)
    paddings = list(range(unit, 8 * unit + 1, unit))
    if not any(request.is_vector for request in requests):
        paddings += [padding for padding in (1, 2) if padding % unit]
    conflicts, cycles = _cycles(buffer, requests)
    best, least = buffer, (conflicts > 0, _GAIN * cycles)
    goal = False, _fewest(buffer, requests)
    if not conflicts and least[1] <= _GAIN * goal[1]:
        return buffer
    for padding in paddings:
        if least <= goal:
            break
        wider = replace(buffer, shape=(*buffer.shape[:-1], buffer.shape[-1] + padding))
        if wider.bytes - buffer.bytes > room:
            continue
        conflicts, cycles = _cycles(wider, requests)
        if (conflicts > 0, cycles) < least:
            best, least = wider, (conflicts > 0, cycles)
    return best


def _fewest(buffer: Buffer, requests: Sequence[_BankRequest]) -> float:
    """Return the cycles of the banks without any conflicts."""
    total = 0.0
    for request in requests:
        width = min(VECTOR_BYTES, request.lanes * buffer.dtype.bytes)
        cycles = 1.0 if request.may_join else max(1.0, width / BANK_BYTES)
        halved = request.is_shared and (request.may_join or width > BANK_BYTES)
        total += request.times * (cycles / 2 if halved else cycles)
    return total


def _cycles(buffer: Buffer, requests: Sequence[_BankRequest]) -> tuple[float, float]:
    """Return the cycles of bank conflicts, and all cycles of the banks, for all requests."""
    unit = max(1, VECTOR_BYTES // buffer.dtype.bytes)
    is_aligned = all(stride % unit == 0 for stride in buffer.strides[:-1])
    lost, total = 0.0, 0.0
    for request in requests:
        offsets = sum(
            (index * stride for index, stride in zip(request.indices, buffer.strides, strict=True)),
            start=np.zeros_like(request.indices[0]),
        )
        joined = unit if request.may_join and is_aligned else 1
        width = min(VECTOR_BYTES, request.lanes * joined * buffer.dtype.bytes)
        wavefronts = count_shared_wavefronts(offsets * buffer.dtype.bytes, width)
        total += request.times / joined * float(wavefronts.mean())
        parts = max(1, width // BANK_BYTES)
        lost += request.times / joined * float(np.maximum(wavefronts - parts, 0).mean())
    return lost, total
