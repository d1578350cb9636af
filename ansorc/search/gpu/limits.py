"""Programs that no GPU runs, or none runs well, told from the lengths before lowering."""

from __future__ import annotations

import numpy as np

from ansorc.schedule.extent import BoolArray, IntArray, as_array
from ansorc.schedule.stage import Mark, Stage
from ansorc.search.gpu.kernels import ThreadKernel, kernels_of, vector_lengths
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.formula import Array
from ansorc.search.space.protocol import Genes
from ansorc.search.space.recorded import Population, analyse
from ansorc.target import Target
from ansorc.target.gpu import VECTOR_BYTES, WARP_THREADS
from ansorc.target.gpu_limits import exceeds, launch_limits
from ansorc.target.gpu_occupancy import resident_blocks

MAX_VTHREADS = 8
MAX_TILE = 256
"""Results in the registers of a thread: more leave none for what is multiplied."""


def are_launchable(sketch: Sketch, genes: Genes) -> BoolArray:
    """Return [rows]: whether all kernels of each program keep within the limits of the target.

    Besides what a GPU cannot launch, that is: more than `MAX_VTHREADS` virtual threads, vectors of
    more than 16 bytes or that rows are no multiple of, and blocks smaller than a warp where there
    is work for one.
    """
    good, _ = kernel_limits(sketch, genes)
    return np.all(good, axis=1)


def kernel_limits(sketch: Sketch, genes: Genes) -> tuple[BoolArray, IntArray]:
    """Return [rows, kernels]: whether each kernel of the programs is legal, and its threads."""
    numbers = analyse(_limits, sketch, genes)
    kernels = len(numbers) // 2
    return np.stack(numbers[:kernels], axis=1), np.stack(numbers[kernels:], axis=1)


def _limits(programs: Population) -> list[Array]:
    """Return whether each kernel is legal, then the threads of each."""
    kernels, target = kernels_of(programs.state), programs.sketch.target
    legal = [is_legal_kernel(kernel, target) for kernel in kernels]
    return [*legal, *(kernel.threads for kernel in kernels)]


def is_legal_kernel(kernel: ThreadKernel, target: Target) -> BoolArray:
    """Return whether a kernel keeps within the limits of `target`: one value, or [rows]."""
    limits = launch_limits(target)
    grid, block = (kernel.blocks, 1, 1), (kernel.threads, 1, 1)
    good = np.logical_not(exceeds(limits, grid, block, kernel.shared_bytes))
    taken = (kernel.threads, kernel.registers, kernel.shared_bytes)
    good = good & (kernel.registers <= limits.registers)
    good = good & (resident_blocks(target.gpu.architecture, *taken) > 0)
    if kernel.is_by_matrix_units:
        good = good & _tiles_are_whole(kernel)
    else:
        good = good & (kernel.vthreads <= MAX_VTHREADS)
    for stage in kernel.stages:
        good = good & _vectors_fit(stage)
    work = np.prod([axis.extent for axis in kernel.root.op.axes], dtype=np.int64)
    if kernel.is_bound and work >= 2 * WARP_THREADS:
        good = good & (kernel.threads >= WARP_THREADS)
    return good


def _tiles_are_whole(kernel: ThreadKernel) -> BoolArray:
    """Return whether the tile of a block is within the extents.

    Then no warp lacks a part of its own. Results beyond an extent in the last block are computed
    and not stored.
    """
    stage = kernel.root
    good = np.asarray(True)
    for axis in stage.op.axes:
        reach = np.asarray(1, dtype=np.int64)
        for iterator in stage.iterators:
            for part in stage.parts[iterator.name]:
                if part.axis == axis.name and not iterator.thread.startswith("blockIdx"):
                    reach = reach + as_array(part.stride) * (as_array(part.extent) - 1)
        good = good & (reach <= axis.extent)
    return good


def _vectors_fit(stage: Stage) -> BoolArray:
    """Return whether vectors are short enough and divide the rows."""
    lengths = vector_lengths(stage)
    good = lengths * stage.op.buffer.dtype.bytes <= VECTOR_BYTES
    for iterator in stage.iterators:
        if iterator.mark is Mark.VECTORIZE and iterator.axis:
            names = [axis.name for axis in stage.op.axes]
            width = as_array(stage.region[names.index(iterator.axis)])
            pitch = stage.op.axes[names.index(iterator.axis)].extent
            is_divided = width % as_array(iterator.extent) == 0
            good = good & is_divided & (pitch % as_array(iterator.extent) == 0)
    return good
