"""Evaluate a DAG by NumPy in double precision, independently of the compiler."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ansorc.errors import PromiseError
from ansorc.ir.aligned import Array
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Binary, BinaryOp, Expr
from ansorc.ir.fault import FaultKind, FaultSite, fault_error
from ansorc.ir.substitute import free_vars
from ansorc.lang.compute_op import Axis, Combiner, ComputeOp, c_inputs
from ansorc.lang.contract import contract
from ansorc.lang.grid import FloatType, Grid, convert
from ansorc.lang.loop_program import Definition, outputs_of, pair_inputs
from ansorc.lang.overwritten import overwritten_place, put_part
from ansorc.lang.ragged import Ragged
from ansorc.lang.reducer import Reducer
from ansorc.lang.scan_reference import evaluate_scan
from ansorc.lang.tuple_fold import combine, fold, fold_rows

Slices: TypeAlias = tuple[slice, ...]

_BLOCK_ELEMENTS = 1 << 20
"""The most elements of one temporary array: 8 MiB of float64, about ten arrays at a time."""


def evaluate(
    dag: Definition, inputs: Sequence[Array], dtype: type[np.floating[Any]] | None = np.float64
) -> list[Array]:
    """Return the outputs of `dag`, in call order, for `inputs` in the order of its parameters.

    All floats are computed and returned in `dtype`, but literals are rounded to their own dtype
    first. Integers keep their dtype and wrap around. If `dtype` is None, each float has its own
    dtype, as in a kernel: functions are rounded once, and so are sums and products, at their end.
    Raise LanguageError if the inputs do not fit or a read is outside of a tensor.
    """
    tensors = all_tensors(dag, inputs, dtype)
    return [tensors[buffer.name] for buffer in outputs_of(dag)]


def all_tensors(
    dag: Definition, inputs: Sequence[Array], dtype: type[np.floating[Any]] | None = np.float64
) -> dict[str, Array]:
    """Return the inputs and all tensors that `evaluate` computes, by name."""
    floats: FloatType = None if dtype is None else np.dtype(dtype)
    tensors = {b.name: _input(b, array, floats) for b, array in pair_inputs(dag, inputs)}
    with np.errstate(all="ignore"):
        for op in dag.ops:
            tensors |= Evaluation(op, tensors, floats).run()
    return tensors


def _input(buffer: Buffer, array: Array, floats: FloatType) -> Array:
    if buffer.promised is not None:
        _require_promised(buffer, array)
    return array.astype(_numpy_type(buffer, floats), copy=False)


def _numpy_type(buffer: Buffer, floats: FloatType) -> np.dtype[Any]:
    """Return the NumPy type of the elements of a tensor."""
    return buffer.dtype.numpy if floats is None or not buffer.dtype.is_float else floats


def _require_promised(buffer: Buffer, array: Array) -> None:
    """Raise PromiseError if an input has values outside of its declared range."""
    low, high = buffer.promised or (-math.inf, math.inf)
    wrong = array[(array < low) | (array > high)]
    if wrong.size:
        raise PromiseError(
            f"'{buffer.name}' was declared with range=({low}, {high}), but has {wrong.flat[0]}",
            buffer.name,
        )


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of one computation, block by block."""

    op: ComputeOp
    tensors: Mapping[str, Array]
    floats: FloatType

    def run(self) -> dict[str, Array]:
        """Return the whole tensors, by name."""
        op, rank = self.op, len(self.op.axes)
        if op.c_call is not None:
            arrays = [self.tensors[buffer.name] for buffer in c_inputs(op)]
            result = op.c_call.function.of_arrays(op.buffer.shape, *arrays)
            kind = _numpy_type(op.buffer, self.floats)
            return {op.buffer.name: convert(result, kind)}
        if op.scan is not None:
            made = evaluate_scan(op, self.tensors, self.floats)
            return {buffer.name: array for buffer, array in zip(op.buffers, made, strict=True)}
        if op.places:
            return {op.buffer.name: self._scattered()}
        if op.overwrites:
            return self._overwritten()
        if op.ragged_axis is not None:
            made = self._of_rows()
            return {buffer.name: array for buffer, array in zip(op.buffers, made, strict=True)}
        factors = factors_of(op)
        results = [self._empty(buffer) for buffer in op.buffers]
        for result, identity in zip(results, op.identities, strict=False):
            result[...] = identity.value
        is_whole = isinstance(op.combiner, Reducer)
        held = [each.value for each in op.temporaries]
        for box in boxes((*op.axes, *op.reduce_axes), [*held, *factors], is_whole=is_whole):
            grid = self.grid(box)
            values = [self._wide(grid.evaluate(factor)) for factor in factors]
            shape = [part.stop - part.start for part in box]
            blocks = [result[(*box[:rank], ...)] for result in results]
            for block, new in zip(blocks, self._update(blocks, values, shape), strict=True):
                block[...] = new
        return {
            buffer.name: result.astype(_numpy_type(buffer, self.floats), copy=False)
            for buffer, result in zip(op.buffers, results, strict=True)
        }

    def _scattered(self) -> Array:
        """Return the whole result of terms that go to places."""
        op, result = self.op, self._empty(self.op.buffer)
        result[...] = op.identities[0].value
        assert isinstance(op.combiner, Combiner)
        for terms in Scattering(op, self.tensors, self.floats).boxes():
            value = self._wide(terms.broadcast(terms.grid.evaluate(op.body)))
            _ACCUMULATE[op.combiner].at(result, terms.indices, value)
        return result.astype(_numpy_type(op.buffer, self.floats), copy=False)

    def _overwritten(self) -> dict[str, Array]:
        """Return whole inputs with the elements that are overwritten."""
        op = self.op
        parts = replace(self, op=op.part).run()
        place = overwritten_place(op, self.tensors, self.floats)
        return {
            buffer.name: put_part(self.tensors[load.buffer.name], place, parts[buffer.name])
            for buffer, load in zip(op.buffers, op.overwrites, strict=True)
        }

    def _of_rows(self) -> list[Array]:
        """Return the whole results of a reduction over ranges that are data."""
        op, ragged = self.op, Ragged(self.op, self.tensors, self.floats)
        results = [
            ragged.empty(identity.value, self._empty(buffer).dtype)
            for buffer, identity in zip(op.buffers, op.identities, strict=True)
        ]
        inner = 1 + len(ragged.other_axes)
        for terms in ragged.blocks():
            values = [self._wide(terms.broadcast(terms.grid.evaluate(b))) for b in op.bodies]
            if isinstance(op.combiner, Reducer):
                parts = fold(op.combiner, values, terms.shape, inner, self.floats)
                fold_rows(op.combiner, results, terms.rows, parts, self.floats)
                continue
            assert op.combiner is not None
            accumulate, value = _ACCUMULATE[op.combiner], values[0]
            for _ in range(inner, value.ndim):
                value = accumulate.reduce(value, axis=inner, dtype=value.dtype)
            accumulate.at(results[0], terms.rows, value)
        return [
            ragged.result(result).astype(_numpy_type(buffer, self.floats), copy=False)
            for buffer, result in zip(op.buffers, results, strict=True)
        ]

    @property
    def _is_rounded_late(self) -> bool:
        """Whether terms are combined in double precision and rounded at the end."""
        is_long = self.op.combiner in (Combiner.SUM, Combiner.PROD)
        return self.floats is None and is_long and self.op.buffers[0].dtype.is_float

    def _wide(self, values: Array) -> Array:
        return values.astype(np.float64, copy=False) if self._is_rounded_late else values

    def _empty(self, buffer: Buffer) -> Array:
        kind = np.dtype(np.float64) if self._is_rounded_late else _numpy_type(buffer, self.floats)
        return np.empty(buffer.shape, kind)

    def _update(
        self, blocks: Sequence[Array], values: Sequence[Array], shape: Sequence[int]
    ) -> Sequence[Array]:
        """Return the results in a box: `values`, combined with `blocks` in a reduction."""
        combiner, rank = self.op.combiner, len(self.op.axes)
        if combiner is None:
            return values
        if isinstance(combiner, Reducer):
            terms = fold(combiner, values, shape, rank, self.floats)
            return combine(combiner, blocks, terms, self.floats)
        return [_ACCUMULATE[combiner](blocks[0], self._reduce(values, shape))]

    def grid(self, box: Slices) -> Grid:
        """Return the grid of the axes' values in a box, with the tensors and values held."""
        axes: dict[str, Array] = {}
        for d, axis in enumerate((*self.op.axes, *self.op.reduce_axes)):
            shape = [1] * len(box)
            shape[d] = -1
            values: Array = np.arange(box[d].start, box[d].stop, dtype=np.int64)
            axes[axis.name] = values.reshape(shape)
        tensors = dict(self.tensors)
        grid = Grid(axes, tensors, self.floats, self.op.name, len(box))
        for each in self.op.temporaries:
            tensors[each.buffer.name] = grid.evaluate(each.value)
        return grid

    def _reduce(self, values: Sequence[Array], shape: Sequence[int]) -> Array:
        rank = len(self.op.axes)
        if self.op.combiner is Combiner.SUM:
            return contract(values, shape, rank)
        inner = tuple(range(rank, len(shape)))
        if self.op.combiner is Combiner.PROD:
            full = np.broadcast_to(values[0], [*values[0].shape[:rank], *shape[rank:]])
            return np.prod(full, axis=inner, dtype=full.dtype)
        reduce = np.max if self.op.combiner in (Combiner.MAX, Combiner.ANY) else np.min
        return reduce(values[0], axis=inner)


_ACCUMULATE = {
    Combiner.SUM: np.add,
    Combiner.PROD: np.multiply,
    Combiner.MAX: np.maximum,
    Combiner.MIN: np.minimum,
    Combiner.ANY: np.logical_or,
    Combiner.ALL: np.logical_and,
}


@dataclass(frozen=True)
class ScatteredTerms:
    """The terms of a box, and the places of all of them, for `ufunc.at`."""

    grid: Grid
    indices: tuple[Array, ...]

    def broadcast(self, values: Array) -> Array:
        """Return `values`, one for each term."""
        return np.broadcast_to(values, self.indices[0].shape)


@dataclass(frozen=True)
class Scattering:
    """The terms of a computation with places, box by box."""

    op: ComputeOp
    tensors: Mapping[str, Array]
    floats: FloatType

    def boxes(self) -> Iterator[ScatteredTerms]:
        """Yield the terms; raise OutOfRangeError at a wrong place."""
        op, axes = self.op, (*self.op.loop_axes, *self.op.reduce_axes)
        for box in boxes(axes, op.expressions, is_whole=True):
            shape = tuple(part.stop - part.start for part in box)
            values: dict[str, Array] = {}
            for d, axis in enumerate(axes):
                along: Array = np.arange(box[d].start, box[d].stop, dtype=np.int64)
                values[axis.name] = along.reshape([-1 if e == d else 1 for e in range(len(axes))])
            grid = Grid(values, self.tensors, self.floats, op.name, len(axes))
            places = {place.axis: grid.evaluate(place.index) for place in op.places}
            for dimension, axis in enumerate(op.axes):
                if axis.name in places:
                    self._require_inside(dimension, places[axis.name])
            indices = [places.get(axis.name, values.get(axis.name)) for axis in op.axes]
            yield ScatteredTerms(
                grid, tuple(np.broadcast_to(i, shape) for i in indices if i is not None)
            )

    def _require_inside(self, dimension: int, index: Array) -> None:
        extent = self.op.axes[dimension].extent
        outside = (index < 0) | (index >= extent)
        if outside.any():
            told = int(index[outside].flat[0]), 0, extent - 1, dimension
            raise fault_error(f"'{self.op.name}'", FaultSite(FaultKind.INDEX, self.op.name), told)


def factors_of(op: ComputeOp) -> list[Expr]:
    """Return the factors of the terms of a sum; for other computations the bodies."""
    factors = list(op.bodies)
    if op.combiner is not Combiner.SUM:
        return factors
    while isinstance(first := factors[0], Binary) and first.op is BinaryOp.MUL:
        factors[:1] = [first.left, first.right]
    return factors


def boxes(axes: Sequence[Axis], factors: Sequence[Expr], *, is_whole: bool) -> Iterator[Slices]:
    """Cut the box of all `axes`, outermost axes first, so that each factor fits a block.

    With `is_whole` the boxes themselves fit a block.
    """
    lengths = [axis.extent for axis in axes]
    varying = [free_vars(factor) for factor in factors]
    needed = [{i for i, axis in enumerate(axes) if axis.name in names} for names in varying]
    if is_whole:
        needed.append(set(range(len(axes))))
    for d in range(len(axes)):
        while lengths[d] > 1 and any(
            d in used and math.prod(lengths[i] for i in used) > _BLOCK_ELEMENTS for used in needed
        ):
            lengths[d] = (lengths[d] + 1) // 2
    cuts = [
        [slice(start, min(start + length, axis.extent)) for start in range(0, axis.extent, length)]
        for axis, length in zip(axes, lengths, strict=True)
    ]
    return itertools.product(*cuts)
