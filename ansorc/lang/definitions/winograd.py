"""Winograd's minimal filtering: windows of 3 taps by fewer multiplications.

Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015): m results of a window of
3 taps w slide over m + 2 elements d, and are `A ((G w) * (B d))`: m + 2 multiplications instead of
3 m (`ansorc.lang.definitions.filters`).

With gaps between the taps (dilation g) every g-th result belongs to one such convolution: there are
tiles of m g results in g phases.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

from ansorc.ir.arith.scalar import conjunction
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import BinaryOp, CompareOp, Expr, Load, Select, Var, binary, compare, const
from ansorc.ir.transform import Transform, combine_rows, transform_buffer
from ansorc.lang.compute_op import Axis, ComputeOp
from ansorc.lang.definitions.filters import F2, F4, TAPS, Filter
from ansorc.lang.definitions.redefinition import Redefinition
from ansorc.lang.definitions.windows import Convolution, SlidingWindow, convolution_of

MOST_WINDOWS = 2
"""The most dimensions that are transformed. With a third one, a tile would be 64 products."""
_LEAST_BYTES = 4
"""The least size of an element in tiles of 4 results: shorter floats would lose too many bits."""


@lru_cache(maxsize=256)
def winograd(op: ComputeOp) -> Redefinition | None:
    """Return `op` in tiles of 2 results a side; None unless it is a convolution with 3 taps.

    The stages are `<name>.spread` (the transformed data), `<name>.product` with the rest of the
    reduction of `op`, and `op` itself, whose results are interleaved from the tiles.
    """
    return _apply_filter(op, F2, MOST_WINDOWS)


@lru_cache(maxsize=256)
def winograd4(op: ComputeOp) -> Redefinition | None:
    """Return `op` in tiles of 4 results a side; None if `winograd` is None, and for short floats.

    Windows are transformed one after the other, since a row of the matrices has up to 5 elements.
    With two windows, `<name>.product` is computed like `op`, by `<name>.product.spread` and
    `<name>.product.product`. Floats of 16 bits are left out, since their error was not measured.
    """
    return _in_turn(op, MOST_WINDOWS) if op.buffer.dtype.bytes >= _LEAST_BYTES else None


def _in_turn(op: ComputeOp, windows: int) -> Redefinition | None:
    """Return `op` with up to `windows` windows in tiles of 4, each in its own stages."""
    first = _apply_filter(op, F4, 1)
    if first is None or windows == 1:
        return first
    spread, product, result = first.ops
    second = _in_turn(product, windows - 1)
    if second is None:
        return first
    transforms = (*first.transforms, *second.transforms)
    return Redefinition((spread, *second.ops, result), second.weight, transforms)


def _apply_filter(op: ComputeOp, filter_: Filter, windows: int) -> Redefinition | None:
    """Return `op` with up to `windows` of its last windows computed by `filter_`, or None."""
    convolution = convolution_of(op, TAPS)
    if convolution is None or not op.buffer.dtype.is_float:
        return None
    if len({op.buffer.dtype, convolution.data.buffer.dtype, convolution.weight.buffer.dtype}) > 1:
        return None
    tiles = _tilings(op, convolution.windows, filter_, windows)
    if not tiles:
        return None
    transforms = tuple(Transform(each.window.weight_dimension, filter_.weight) for each in tiles)
    weight = transform_buffer(convolution.weight.buffer, transforms)
    spread = _transform_data(op, convolution.data.buffer, tiles)
    product = _product(op, convolution, tiles, (spread.buffer, weight))
    return Redefinition((spread, product, _result(op, tiles, product.buffer)), weight, transforms)


@dataclass(frozen=True)
class _TileGrid:
    """The results along one window, in tiles in each phase."""

    window: SlidingWindow
    filter: Filter
    phase: str
    """The name of the axis of the phases."""

    @property
    def period(self) -> int:
        """The number of results from one tile to the next."""
        return self.filter.results * self.window.gap

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axis of the tiles, and that of their phases if there is more than one."""
        axis = self.window.axis
        tiles = Axis(axis.name, -(-axis.extent // self.period))
        return (tiles, Axis(self.phase, self.window.gap)) if self.window.gap > 1 else (tiles,)

    @property
    def point(self) -> Axis:
        """The axis of the points of a tile; it has the name of the taps that it replaces."""
        return Axis(self.window.tap.name, self.filter.points)

    def element(self, number: int) -> tuple[Expr, int]:
        """Return the index of an element of a tile in the data, and the highest one."""
        tiles, *phases = self.axes
        index = binary(BinaryOp.MUL, Var(tiles.name), const(self.period))
        for phase in phases:
            index = binary(BinaryOp.ADD, index, Var(phase.name))
        first = number * self.window.gap + self.window.offset
        highest = (tiles.extent - 1) * self.period + self.window.gap - 1 + first
        return binary(BinaryOp.ADD, index, const(first)) if first else index, highest

    def of_result(self) -> tuple[list[Expr], Expr]:
        """Return the tile and phase of a result, and its row of the matrix."""
        axis, gap = Var(self.window.axis.name), const(self.window.gap)
        tile = [binary(BinaryOp.FLOORDIV, axis, const(self.period))]
        results = const(self.filter.results)
        if self.window.gap == 1:
            return tile, binary(BinaryOp.MOD, axis, results)
        row = binary(BinaryOp.MOD, binary(BinaryOp.FLOORDIV, axis, gap), results)
        return [*tile, binary(BinaryOp.MOD, axis, gap)], row


def _tilings(
    op: ComputeOp, windows: Sequence[SlidingWindow], filter_: Filter, most: int
) -> tuple[_TileGrid, ...]:
    chosen = [window for window in windows if window.axis.extent > window.gap][-most:]
    taken = {axis.name for axis in (*op.axes, *op.reduce_axes)}
    return tuple(
        _TileGrid(slid, filter_, _fresh_name(f"{slid.axis.name}p", taken)) for slid in chosen
    )


def _fresh_name(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _transform_data(op: ComputeOp, source: Buffer, tiles: Sequence[_TileGrid]) -> ComputeOp:
    """Return the stage of the transformed data: points, then the dimensions of the data."""
    points = tuple(each.point for each in tiles)
    dimensions = _dimensions(source, tiles, {a.name for a in (*op.axes, *op.reduce_axes)})

    def element(taken: Sequence[int]) -> Expr:
        indices: list[Expr] = [Var(axes[0].name) for axes in dimensions]
        inside: list[Expr] = []
        for each, offset in zip(tiles, taken, strict=True):
            n = each.window.dimension
            indices[n], highest = each.element(offset)
            if highest >= source.shape[n]:  # of a tile that is not full
                inside.append(compare(CompareOp.LT, indices[n], const(source.shape[n])))
        load = Load(source, tuple(indices))
        return Select(conjunction(inside), load, const(0.0, source.dtype)) if inside else load

    body = combine_rows([(e.filter.data, Var(e.point.name)) for e in tiles], element)
    axes = (*points, *chain.from_iterable(dimensions))
    name = _fresh_name(f"{op.name}.spread", {read.name for read in op.reads})
    buffer = Buffer(name, _shape(axes), source.dtype)
    hints = (("simplify_const_tensor_indices", ",".join(point.name for point in points)),)
    return ComputeOp(buffer.name, buffer, axes, (), None, body, hints)


def _dimensions(
    source: Buffer, tiles: Sequence[_TileGrid], names_taken: Collection[str]
) -> list[tuple[Axis, ...]]:
    """Return the axes of the transformed data for each dimension of the data.

    Along a window these are the tiles. The names of other axes differ from `names_taken`.
    """
    tile_axes = {each.window.dimension: each.axes for each in tiles}
    taken = {axis.name for each in tiles for axis in each.axes}.union(names_taken)
    plain = [Axis(_fresh_name(f"i{n}", taken), extent) for n, extent in enumerate(source.shape)]
    return [tile_axes.get(n, (axis,)) for n, axis in enumerate(plain)]


def _product(
    op: ComputeOp,
    convolution: Convolution,
    tiles: Sequence[_TileGrid],
    operands: tuple[Buffer, Buffer],
) -> ComputeOp:
    """Return the stage of products of transformed data and weight, with the rest of the sum."""
    spread, weight = operands
    points = tuple(each.point for each in tiles)
    tile_axes = {each.window.axis.name: each.axes for each in tiles}
    axes = (*points, *chain.from_iterable(tile_axes.get(axis.name, (axis,)) for axis in op.axes))
    along = {each.window.dimension: [Var(axis.name) for axis in each.axes] for each in tiles}
    indices = [along.get(n, [index]) for n, index in enumerate(convolution.data.indices)]
    left = Load(spread, (*(Var(point.name) for point in points), *chain.from_iterable(indices)))
    body = binary(BinaryOp.MUL, left, Load(weight, convolution.weight.indices))
    taps = {point.name for point in points}
    terms = tuple(axis for axis in op.reduce_axes if axis.name not in taps)
    name = _fresh_name(f"{op.name}.product", {read.name for read in (*op.reads, spread)})
    buffer = Buffer(name, _shape(axes), op.buffer.dtype)
    return ComputeOp(buffer.name, buffer, axes, terms, op.combiner if terms else None, body)


def _result(op: ComputeOp, tiles: Sequence[_TileGrid], product: Buffer) -> ComputeOp:
    """Return the stage of the results: each index selects an element of a tile."""
    places = {each.window.axis.name: each.of_result()[0] for each in tiles}
    indices = list(chain.from_iterable(places.get(a.name, [Var(a.name)]) for a in op.axes))
    rows = [(each.filter.result, each.of_result()[1]) for each in tiles]
    body = combine_rows(rows, lambda points: Load(product, (*map(const, points), *indices)))
    return replace(op, reduce_axes=(), combiner=None, body=body, hints=())


def _shape(axes: Sequence[Axis]) -> tuple[int, ...]:
    return tuple(axis.extent for axis in axes)
