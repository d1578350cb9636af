"""ThreadFeatures: the loops around a statement that are bound to blocks and threads of a GPU."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ansorc.search.features.columns import LOG, FloatArray
from ansorc.search.features.nest import Nest, product
from ansorc.target import Target


@dataclass(frozen=True, eq=False)
class ThreadFeatures:
    """The extents bound to each index of a GPU; 1 where no loop is."""

    is_gpu: FloatArray
    """1 if the program is for a GPU, else 0."""
    block_x: FloatArray = field(metadata=LOG)
    """Blocks along blockIdx.x."""
    block_y: FloatArray = field(metadata=LOG)
    """Blocks along blockIdx.y."""
    block_z: FloatArray = field(metadata=LOG)
    """Blocks along blockIdx.z."""
    thread_x: FloatArray = field(metadata=LOG)
    """Threads of a block along threadIdx.x."""
    thread_y: FloatArray = field(metadata=LOG)
    """Threads of a block along threadIdx.y."""
    thread_z: FloatArray = field(metadata=LOG)
    """Threads of a block along threadIdx.z."""
    virtual: FloatArray = field(metadata=LOG)
    """Virtual threads, whose statements take turns in one thread."""


def thread_features(nest: Nest, target: Target, rows: int) -> ThreadFeatures:
    """Return the thread features of the statement of `nest`."""

    def bound(thread: str) -> FloatArray:
        return product([loop.extent for loop in nest.loops if loop.thread == thread], rows)

    return ThreadFeatures(
        is_gpu=np.full(rows, float(target.kind != "cpu"), dtype=np.float32),
        block_x=bound("blockIdx.x"),
        block_y=bound("blockIdx.y"),
        block_z=bound("blockIdx.z"),
        thread_x=bound("threadIdx.x"),
        thread_y=bound("threadIdx.y"),
        thread_z=bound("threadIdx.z"),
        virtual=bound("vthread"),
    )
