"""Winograd's minimal filtering: windows of 3 taps by 4 multiplications for each 2 results.

F(2, 3) of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015): 2 results of
a window of 3 taps w slide over 4 elements d, and are `A ((G w) * (B d))`. The matrix B has the
elements 0, 1 and -1, G has halves besides, so little is rounded. F(4, 3) would need less
multiplications, but it rounds some 15 times as much, more than measured programs are allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import BinaryOp, CompareOp, Expr, Load, Select, Var, binary, compare, const
from ansorc.ir.transform import Matrix, Transform, combined, transformed
from ansorc.lang.compute_op import Axis, ComputeOp
from ansorc.lang.definitions.windows import Convolution, SlidingWindow, convolution_of

TAPS, RESULTS, POINTS = 3, 2, 4
"""A window, the results that are computed together, and the multiplications that they take."""
MOST_WINDOWS = 2
"""Dimensions that are transformed. A third one stays a reduction: a tile would be 64 products."""
DATA: Matrix = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))
WEIGHT: Matrix = ((1.0, 0.0, 0.0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0.0, 0.0, 1.0))
RESULT: Matrix = ((1, 1, 1, 0), (0, 1, -1, -1))


@dataclass(frozen=True)
class Redefinition:
    """A computation by other arithmetic."""

    ops: tuple[ComputeOp, ...]
    """Producers first; the last fills the same tensor as before."""
    weight: Buffer
    """The transformed tensor as the ops read it, under the name of the original."""
    transforms: tuple[Transform, ...]
    """What is done to the original."""


def winograd(op: ComputeOp) -> Redefinition | None:
    """Return `op` by minimal filtering; None where it is no convolution of floats with 3 taps.

    The stages are `<name>.spread` (the transformed data) and `<name>.product`, whose reduction is
    what was left of that of `op`, and `op` itself, whose results are interleaved from tiles of 2.
    """
    found = convolution_of(op, TAPS)
    if found is None or not op.buffer.dtype.is_float:
        return None
    if len({op.buffer.dtype, found.data.buffer.dtype, found.weight.buffer.dtype}) > 1:
        return None
    windows = tuple(w for w in found.windows if w.axis.extent > 1)[-MOST_WINDOWS:]
    if not windows:
        return None
    transforms = tuple(Transform(window.weight_dimension, WEIGHT) for window in windows)
    weight = transformed(found.weight.buffer, transforms)
    spread = _spread(op, found, windows)
    product = _product(op, found, windows, (spread.buffer, weight))
    return Redefinition((spread, product, _result(op, windows, product.buffer)), weight, transforms)


def _points(windows: Sequence[SlidingWindow]) -> tuple[Axis, ...]:
    return tuple(Axis(window.tap.name, POINTS) for window in windows)


def _tiles(window: SlidingWindow) -> Axis:
    return Axis(window.axis.name, -(-window.axis.extent // RESULTS))


def _spread(op: ComputeOp, found: Convolution, windows: Sequence[SlidingWindow]) -> ComputeOp:
    """The transformed data: for each point the tiles, in the dimensions of the data."""
    source, points = found.data.buffer, _points(windows)
    axes = _data_axes(source, windows)

    def element(taken: Sequence[int]) -> Expr:
        indices: list[Expr] = [Var(axis.name) for axis in axes]
        inside: list[Expr] = []
        for window, place in zip(windows, taken, strict=True):
            n = window.dimension
            first = binary(BinaryOp.MUL, indices[n], const(RESULTS))
            indices[n] = _sum(first, place + window.offset)
            last = (axes[n].extent - 1) * RESULTS + place + window.offset
            if last >= source.shape[n]:  # of a tile that is not full
                inside.append(compare(CompareOp.LT, indices[n], const(source.shape[n])))
        load = Load(source, tuple(indices))
        if not inside:
            return load
        condition = reduce(lambda left, right: binary(BinaryOp.AND, left, right), inside)
        return Select(condition, load, const(0.0, source.dtype))

    body = combined([(DATA, Var(point.name)) for point in points], element)
    buffer = Buffer(f"{op.name}.spread", _shape((*points, *axes)), source.dtype)
    hints = (("simplify_const_tensor_indices", ",".join(point.name for point in points)),)
    return ComputeOp(buffer.name, buffer, (*points, *axes), (), None, body, hints)


def _data_axes(source: Buffer, windows: Sequence[SlidingWindow]) -> tuple[Axis, ...]:
    """An axis for each dimension of the data, tiles along the windows."""
    tiles = {window.dimension: _tiles(window) for window in windows}
    taken = {name for window in windows for name in (window.axis.name, window.tap.name)}
    axes: list[Axis] = []
    for n, extent in enumerate(source.shape):
        name = f"i{n}"
        while name in taken:
            name += "_"
        axes.append(tiles.get(n, Axis(name, extent)))
    return tuple(axes)


def _product(
    op: ComputeOp,
    found: Convolution,
    windows: Sequence[SlidingWindow],
    operands: tuple[Buffer, Buffer],
) -> ComputeOp:
    """The products of transformed data and weight, summed over what is left of the reduction."""
    spread, weight = operands
    points = _points(windows)
    tiles = {window.axis.name: _tiles(window) for window in windows}
    axes = (*points, *(tiles.get(axis.name, axis) for axis in op.axes))
    indices = list(found.data.indices)
    for window in windows:
        indices[window.dimension] = Var(window.axis.name)
    left = Load(spread, (*(Var(point.name) for point in points), *indices))
    body = binary(BinaryOp.MUL, left, Load(weight, found.weight.indices))
    taps = {point.name for point in points}
    terms = tuple(axis for axis in op.reduce_axes if axis.name not in taps)
    buffer = Buffer(f"{op.name}.product", _shape(axes), op.buffer.dtype)
    return ComputeOp(buffer.name, buffer, axes, terms, op.combiner if terms else None, body)


def _result(op: ComputeOp, windows: Sequence[SlidingWindow], product: Buffer) -> ComputeOp:
    """The results in their places: of each tile that which the index asks for."""
    whole: dict[str, Expr] = {
        window.axis.name: binary(BinaryOp.FLOORDIV, Var(window.axis.name), const(RESULTS))
        for window in windows
    }
    tile = [whole.get(axis.name, Var(axis.name)) for axis in op.axes]
    rows = [
        (RESULT, binary(BinaryOp.MOD, Var(window.axis.name), const(RESULTS))) for window in windows
    ]
    body = combined(rows, lambda points: Load(product, (*map(const, points), *tile)))
    return replace(op, reduce_axes=(), combiner=None, body=body, hints=())


def _shape(axes: Sequence[Axis]) -> tuple[int, ...]:
    return tuple(axis.extent for axis in axes)


def _sum(index: Expr, number: int) -> Expr:
    return binary(BinaryOp.ADD, index, const(number)) if number else index
