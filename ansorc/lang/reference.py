"""What a DAG means, computed by NumPy in double precision: independent of all that compiles it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ansorc.errors import LanguageError
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Binary, BinaryOp, Expr
from ansorc.ir.substitute import free_vars
from ansorc.lang.compute_op import Axis, Combiner, ComputeOp
from ansorc.lang.contract import contract
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.grid import Array, Grid

Box: TypeAlias = tuple[slice, ...]

_BLOCK_ELEMENTS = 1 << 20
"""Elements of one temporary array: 8 MiB of float64, about ten of them at a time."""


def evaluate(
    dag: ComputeDAG, inputs: Sequence[NDArray[Any]], dtype: type[np.floating[Any]] = np.float64
) -> list[NDArray[Any]]:
    """Return the outputs of `dag`, in call order, for `inputs` in the order of `dag.inputs`.

    All floats are computed and returned in `dtype`, whatever the DAG says, but literals have the
    value that their own dtype holds; integers wrap around in theirs. Raise LanguageError where
    the inputs do not fit or something is read outside of a tensor.
    """
    floats: np.dtype[np.floating[Any]] = np.dtype(dtype)
    if len(inputs) != len(dag.inputs):
        names = ", ".join(buffer.name for buffer in dag.inputs)
        raise LanguageError(f"there are {len(dag.inputs)} inputs ({names}), not {len(inputs)}")
    tensors = {
        buffer.name: _input(buffer, array, floats)
        for buffer, array in zip(dag.inputs, inputs, strict=True)
    }
    with np.errstate(all="ignore"):
        for op in dag.ops:
            tensors[op.name] = _Evaluation(op, tensors, floats).run()
    return [tensors[buffer.name] for buffer in dag.outputs]


def _input(buffer: Buffer, array: Array, floats: np.dtype[np.floating[Any]]) -> Array:
    if array.shape != buffer.shape:
        raise LanguageError(f"'{buffer.name}' has shape {buffer.shape}, not {array.shape}")
    return array.astype(floats if buffer.dtype.is_float else buffer.dtype.numpy, copy=False)


@dataclass(frozen=True)
class _Evaluation:
    """The evaluation of one computation, block by block."""

    op: ComputeOp
    tensors: Mapping[str, Array]
    floats: np.dtype[np.floating[Any]]

    def run(self) -> Array:
        """Return the whole tensor."""
        op, rank = self.op, len(self.op.axes)
        factors = _factors(op)
        dtype = self.floats if op.buffer.dtype.is_float else op.buffer.dtype.numpy
        result = np.empty(op.buffer.shape, dtype)
        if op.combiner is not None:
            result[...] = op.combiner.identity(op.buffer.dtype).value
        for box in _boxes((*op.axes, *op.reduce_axes), factors):
            values = [self._grid(box).evaluate(factor) for factor in factors]
            shape = [part.stop - part.start for part in box]
            block = result[(*box[:rank], ...)]
            if op.combiner is None:
                block[...] = values[0]
            else:
                block[...] = _ACCUMULATE[op.combiner](block, self._reduced(values, shape))
        return result

    def _grid(self, box: Box) -> Grid:
        axes: dict[str, Array] = {}
        for place, axis in enumerate((*self.op.axes, *self.op.reduce_axes)):
            shape = [1] * len(box)
            shape[place] = -1
            values: Array = np.arange(box[place].start, box[place].stop, dtype=np.int64)
            axes[axis.name] = values.reshape(shape)
        return Grid(axes, self.tensors, self.floats, self.op.name, len(box))

    def _reduced(self, values: Sequence[Array], shape: Sequence[int]) -> Array:
        rank = len(self.op.axes)
        if self.op.combiner is Combiner.SUM:
            return contract(values, shape, rank)
        inner = tuple(range(rank, len(shape)))
        if self.op.combiner is Combiner.PROD:
            full = np.broadcast_to(values[0], [*values[0].shape[:rank], *shape[rank:]])
            return np.prod(full, axis=inner, dtype=full.dtype)
        reduce = np.max if self.op.combiner is Combiner.MAX else np.min
        return reduce(values[0], axis=inner)


_ACCUMULATE = {
    Combiner.SUM: np.add,
    Combiner.PROD: np.multiply,
    Combiner.MAX: np.maximum,
    Combiner.MIN: np.minimum,
}


def _factors(op: ComputeOp) -> list[Expr]:
    """Return what the terms of a sum are products of; otherwise the body alone."""
    factors: list[Expr] = [op.body]
    if op.combiner is not Combiner.SUM:
        return factors
    while isinstance(first := factors[0], Binary) and first.op is BinaryOp.MUL:
        factors[:1] = [first.left, first.right]
    return factors


def _boxes(axes: Sequence[Axis], factors: Sequence[Expr]) -> Iterator[Box]:
    """Cut the box of all `axes` so that no factor takes more than a block, outermost axes first."""
    lengths = [axis.extent for axis in axes]
    varying = [free_vars(factor) for factor in factors]
    needed = [{i for i, axis in enumerate(axes) if axis.name in names} for names in varying]
    for place in range(len(axes)):
        while lengths[place] > 1 and any(
            place in used and math.prod(lengths[i] for i in used) > _BLOCK_ELEMENTS
            for used in needed
        ):
            lengths[place] = (lengths[place] + 1) // 2
    cuts = [
        [slice(start, min(start + length, axis.extent)) for start in range(0, axis.extent, length)]
        for axis, length in zip(axes, lengths, strict=True)
    ]
    return itertools.product(*cuts)
