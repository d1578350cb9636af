"""The limits of this machine: FMA-peak and memory-bandwidth probes of our own making."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ansorc.codegen.base import MachineLimits
from ansorc.codegen.call.build import compile_module
from ansorc.codegen.call.module import Module
from ansorc.ir.aligned import aligned_empty
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dtype import FLOAT32
from ansorc.ir.expr import Expr, Load, Var, const
from ansorc.ir.stmt import Allocate, For, Function, LoopKind, Seq, Stmt, Store
from ansorc.target import CPU_BACKEND, Target
from ansorc.target.code_facts import INDEPENDENT_SUMS

_STEPS = 100_000
"""Long enough that waking the threads does not count."""
_CHAINS_SHARE = 0.75
"""Accumulators used, as a share of the vector registers: enough to cover latency × ports."""
_PROBE_S = 0.1
"""So long is one of the repeats of a probe. A busy machine disturbs all of shorter ones."""
_STREAM_BYTES = 64 << 20
"""Bytes that a bandwidth probe walks over; at least four times the last cache."""

_STEADY_STEPS = 10_000
"""Steps of multiply-adds, 0.1 ms or so. They suffer most from two threads on one core."""
_STEADY_READS, _STEADY_SHARE = 16, 8
"""So often an eighth of the second cache is read, about 0.03 ms. That suffers most from others on
the same real cores: seen to take 1.25 to 1.6 times as long while multiply-adds took 1.15."""


def machine_limits(target: Target) -> MachineLimits:
    """Measure the limits of this machine, which must be able to run `target`.

    Takes about three seconds. Raise BuildError or TargetError as a build does.
    """
    size = max(_STREAM_BYTES, 4 * target.cache_bytes[-1])
    return MachineLimits(
        fma_peak(target, 1),
        fma_peak(target, target.cores),
        read_bandwidth(target, 1, size),
        read_bandwidth(target, target.cores, size),
        copy_bandwidth(target, target.cores, size),
    )


class _KernelProbe:
    """A kernel that does a known amount of work in a number of threads."""

    def __init__(
        self, module: Module, arrays: Sequence[NDArray[np.float32]], threads: int, amount: float
    ) -> None:
        self._module, self._arrays, self._threads = module, tuple(arrays), threads
        self._amount = amount

    def time(self, min_time_s: float = _PROBE_S) -> tuple[float, float]:
        """Return how much is done in a second: (median, best) of about `min_time_s`."""
        timing = self._module.time(*self._arrays, threads=self._threads, min_time_s=min_time_s)
        return self._amount / timing.median_s, self._amount / timing.fastest_s

    def best(self, repeats: int = 3) -> float:
        """Return the most done in a second: a limit is what the machine reaches undisturbed."""
        return max(self.time(_PROBE_S)[1] for _ in range(repeats))

    def run(self, threads: int) -> None:
        """Run the kernel once; as much is done whatever the number of threads."""
        self._module(*self._arrays, threads=threads)


class FmaProbe(_KernelProbe):
    """A kernel that does nothing but `steps` fused multiply-adds of each of its vectors, float32.

    Each of `threads` threads has vectors of its own, enough of them to keep a core busy. It counts
    floating-point operations.
    """

    def __init__(self, target: Target, threads: int, steps: int = _STEPS) -> None:
        target = _native(target)
        lanes = target.vector_bytes // FLOAT32.bytes
        chains = max(2, int(target.vector_registers * _CHAINS_SHARE))
        module = compile_module(_fma_function(threads, chains, lanes, steps), target, "fma_probe")
        start = np.ones((threads, chains, lanes), np.float32)
        arrays = start, np.array([0.5, 0.25], np.float32), np.empty_like(start)
        super().__init__(module, arrays, threads, 2.0 * steps * start.size)


class ReadProbe(_KernelProbe):
    """A kernel that reads `size` bytes in `threads` threads `times` times, adding them up.

    It counts bytes.
    """

    def __init__(self, target: Target, threads: int, size: int, times: int = 1) -> None:
        target = _native(target)
        lanes = target.vector_bytes // FLOAT32.bytes
        streams = size > max(target.cache_bytes)
        vectors = target.streaming_sums if streams else INDEPENDENT_SUMS
        rows = max(1, size // (threads * vectors * lanes * FLOAT32.bytes))
        function = _read_function(threads, times, rows, vectors, lanes)
        source = _touch_memory(function.params[0].shape)
        out = np.empty(function.params[1].shape, np.float32)
        module = compile_module(function, target, function.name)
        super().__init__(module, (source, out), threads, times * source.nbytes)


class CopyProbe(_KernelProbe):
    """A kernel that copies `size` bytes to as many others in `threads` threads.

    It counts bytes read and bytes written.
    """

    def __init__(self, target: Target, threads: int, size: int) -> None:
        target = _native(target)
        function = _copy_function(threads, max(1, size // (threads * FLOAT32.bytes)))
        source = _touch_memory(function.params[0].shape)
        out = aligned_empty(source.shape).view(np.float32)
        module = compile_module(function, target, function.name)
        super().__init__(module, (source, out), threads, 2 * source.nbytes)


def fma_peak(target: Target, threads: int) -> float:
    """Measure the floating-point operations a second of `threads` cores, float32."""
    return FmaProbe(target, threads).best()


def read_bandwidth(target: Target, threads: int, size: int) -> float:
    """Measure the bytes a second that `threads` cores read, summing over `size` bytes."""
    return ReadProbe(target, threads, size).best()


def copy_bandwidth(target: Target, threads: int, size: int) -> float:
    """Measure the bytes a second that `threads` cores read and write, copying `size` bytes."""
    return CopyProbe(target, threads, size).best()


def steady_work(target: Target, threads: int) -> Callable[[int], None]:
    """Return multiply-adds and reads by `threads` threads; called with how many may do them."""
    fma = FmaProbe(target, threads, _STEADY_STEPS)
    size = threads * target.real.cache_bytes[1] // _STEADY_SHARE
    read = ReadProbe(target, threads, size, _STEADY_READS)

    def work(threads: int) -> None:
        fma.run(threads)
        read.run(threads)

    return work


def _native(target: Target) -> Target:
    """Return what the machine can do is found by LLVM's code, whoever makes that of its kernels."""
    return replace(target.real, backend=CPU_BACKEND)


def _touch_memory(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return memory that was written to: pages that never were are all one page, in a cache."""
    memory = aligned_empty(shape).view(np.float32)
    memory.fill(1.0)
    return memory


def _fma_function(threads: int, chains: int, lanes: int, steps: int) -> Function:
    """Return a kernel whose threads each compute x = x * a + b on independent vectors."""
    start = Buffer("start", (threads, chains, lanes), FLOAT32)
    factors = Buffer("factors", (2,), FLOAT32)
    out = Buffer("out", start.shape, FLOAT32)
    tile = Buffer("tile", (chains, lanes), FLOAT32, Scope.LOCAL)
    thread, chain, lane, step = Var("thread"), Var("chain"), Var("lane"), Var("step")
    slot: Expr = Load(tile, (chain, lane))
    value = slot * Load(factors, (const(0),)) + Load(factors, (const(1),))

    def over_tile(stmt: Stmt) -> Stmt:
        return For(chain, chains, LoopKind.UNROLLED, For(lane, lanes, LoopKind.VECTORIZED, stmt))

    body = Seq((
        over_tile(Store(tile, (chain, lane), Load(start, (thread, chain, lane)))),
        For(step, steps, LoopKind.SERIAL, over_tile(Store(tile, (chain, lane), value))),
        over_tile(Store(out, (thread, chain, lane), slot)),
    ))  # fmt: skip
    nest = For(thread, threads, LoopKind.PARALLEL, Allocate(tile, body))
    return Function("fma_probe", (start, factors, out), nest)


def _read_function(threads: int, times: int, rows: int, vectors: int, lanes: int) -> Function:
    """Return a kernel whose threads each add up `rows` × `vectors`, the vectors independently."""
    source = Buffer("source", (threads, rows, vectors, lanes), FLOAT32)
    out = Buffer("out", (threads, vectors, lanes), FLOAT32)
    thread, row, vector, lane = Var("thread"), Var("row"), Var("vector"), Var("lane")
    slot = (thread, vector, lane)
    total = Load(out, slot) + Load(source, (thread, row, vector, lane))

    def over_vectors(stmt: Stmt) -> Stmt:
        in_lanes = For(lane, lanes, LoopKind.VECTORIZED, stmt)
        return For(vector, vectors, LoopKind.UNROLLED, in_lanes)

    once = For(row, rows, LoopKind.SERIAL, over_vectors(Store(out, slot, total)))
    again = For(Var("time"), times, LoopKind.SERIAL, once)
    body = Seq((over_vectors(Store(out, slot, const(0.0, FLOAT32))), again))
    nest = For(thread, threads, LoopKind.PARALLEL, body)
    return Function("read_probe", (source, out), nest)


def _copy_function(threads: int, elements: int) -> Function:
    source = Buffer("source", (threads, elements), FLOAT32)
    out = Buffer("out", source.shape, FLOAT32)
    thread, lane = Var("thread"), Var("lane")
    copy = Store(out, (thread, lane), Load(source, (thread, lane)))
    body = For(lane, elements, LoopKind.VECTORIZED, copy)
    return Function("copy_probe", (source, out), For(thread, threads, LoopKind.PARALLEL, body))
