"""LoopFeatures: the loops around a statement, and how they are shared among the cores."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ansorc.search.features.columns import LOG, FloatArray
from ansorc.search.features.loop_nest import LoopNest, product


@dataclass(frozen=True, eq=False)
class LoopFeatures:
    """The loops around one statement; loops of extent 1 do not count."""

    count: FloatArray
    """Loops."""
    iterations: FloatArray = field(metadata=LOG)
    """Times the statement runs."""
    outer_iterations: FloatArray = field(metadata=LOG)
    """Times the loops of the stage itself begin: 1 for a stage of its own."""
    reduce_iterations: FloatArray = field(metadata=LOG)
    """Terms that are added up to one element."""
    innermost: FloatArray = field(metadata=LOG)
    """Extent of the innermost loop."""
    innermost_is_reduce: FloatArray
    """1 if the innermost loop adds up terms, else 0."""
    unrolled: FloatArray = field(metadata=LOG)
    """Copies of the body that unrolled loops make, vectorised ones not counted."""
    serial_inner: FloatArray = field(metadata=LOG)
    """Extent of the innermost loop that is a loop in the machine code."""
    parallel_extent: FloatArray = field(metadata=LOG)
    """Iterations that may run at once; 1 without parallel loops."""
    cores: FloatArray
    """Cores of the machine."""
    parallel_per_core: FloatArray = field(metadata=LOG)
    """Parallel iterations for each core."""
    balance: FloatArray
    """Share of the cores' time that is used if each iteration takes equally long."""
    iterations_per_core: FloatArray = field(metadata=LOG)
    """Times the statement runs on the busiest core."""
    parallel_starts: FloatArray = field(metadata=LOG)
    """Times the cores are started for loops of this stage; 0 where those of an outer stage did."""


def loop_features(nest: LoopNest, rows: int, cores: int) -> LoopFeatures:
    """Return the loop features of `nest` on a machine of `cores` cores."""
    loops = nest.loops
    ones, zeros = np.ones(rows, dtype=np.float32), np.zeros(rows, dtype=np.float32)
    innermost, is_reduce, serial = ones, zeros, ones
    if loops:
        innermost = nest.extents.take(nest.innermost)
        reduces = np.array([loop.is_reduce for loop in loops], dtype=np.float32)
        is_reduce = reduces.take(nest.innermost // rows) * (innermost > 1)
    for loop, is_loop in zip(loops, nest.is_loop, strict=True):
        if not loop.is_vector:
            serial = np.where(is_loop & ~loop.is_unrolled, loop.extent, serial)
    parallel, starts = _parallel(nest, rows)
    iterations = product([loop.extent for loop in loops], rows)
    chunks = np.ceil(parallel / cores)
    return LoopFeatures(
        count=nest.is_loop.sum(axis=0, dtype=np.float32),
        iterations=iterations,
        outer_iterations=product([loop.extent for loop in loops[: nest.own]], rows),
        reduce_iterations=product([loop.extent for loop in loops if loop.is_reduce], rows),
        innermost=innermost,
        innermost_is_reduce=is_reduce,
        unrolled=product(
            [np.where(loop.is_unrolled, loop.extent, 1) for loop in loops if not loop.is_vector],
            rows,
        ),
        serial_inner=serial,
        parallel_extent=parallel,
        cores=np.full(rows, float(cores), dtype=np.float32),
        parallel_per_core=parallel / cores,
        balance=parallel / (chunks * cores),
        iterations_per_core=iterations / parallel * chunks,
        parallel_starts=starts,
    )


def _parallel(nest: LoopNest, rows: int) -> tuple[FloatArray, FloatArray]:
    """The parallel iterations, and how often they are started."""
    extent, starts = np.ones(rows, dtype=np.float32), np.ones(rows, dtype=np.float32)
    outside = np.ones(rows, dtype=np.float32)
    of_statement = np.ones(rows, dtype=np.float32)
    parallel = [position for position, loop in enumerate(nest.loops) if loop.is_parallel.any()]
    for position, loop in enumerate(nest.loops[: max(parallel, default=-1) + 1]):
        if position >= nest.own:
            of_statement = np.where(loop.is_parallel, of_statement * loop.extent, of_statement)
        extent = np.where(loop.is_parallel, extent * loop.extent, extent)
        starts = np.where(loop.is_parallel, starts * outside, starts)
        outside = np.where(loop.is_parallel, 1, outside * loop.extent)
    return extent, np.where(of_statement > 1, starts, 0)
