"""TileMatrixProduct: a matrix product that the matrix unit of a CPU computes.

It applies to the sums of products to which dot-product instructions apply, with any number of
columns, if the terms make tiles of the unit that are not too short.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from ansorc.codegen.base import backend_of
from ansorc.errors import ScheduleError
from ansorc.ir.arith.affine import affine, step_along
from ansorc.ir.expr import Load, Var, dtype_of
from ansorc.ir.substitute import free_vars
from ansorc.lang.compute_op import ComputeOp
from ansorc.schedule.dot_body import factors, misfit
from ansorc.schedule.extent import Hole
from ansorc.schedule.stage import Stage
from ansorc.schedule.state import Step
from ansorc.schedule.steps import (
    ComputeAt,
    Reorder,
    RewriteLayout,
    Split,
    Tensorize,
)
from ansorc.search.sketch.grouped_product import (
    Weight,
    find_only_match,
    is_grouped,
    is_plain,
    outer_axes,
    with_consumer,
    with_panel,
)
from ansorc.search.sketch.rule import PartialSketch, Verdict
from ansorc.search.sketch.sketch import TileVariable
from ansorc.search.sketch.tiling import tile_variable
from ansorc.search.tiles import divisors
from ansorc.target import Target
from ansorc.target.matrix_units import MatrixUnit, matrix_unit

MOST_TILES, MOST_IN_ROW = 2, 3
"""Tiles of the unit along the rows, and columns, of a register tile; along a single row of them."""
_LEAST_GROUPS = 8
"""Groups of terms in a tile: shorter ones leave the unit waiting for its loads."""
_LEAST_ROWS, _LEAST_PACKED_ROWS = 2, 8
"""Rows of a product; of one whose weights are packed in the kernel, which takes longer for fewer.
One row does not use a unit: its time is that of reading the weights."""


@dataclass(frozen=True)
class TileMatrixProduct:
    """Compute the one stage that a matrix unit fits by that unit, in tiles.

        for i, j, k: C += cast(A) * cast(B)   ->   for i0, j0, i1:
                                                       for k0, i2, k1, j1, k2: C += tile(A, B)

    Beyond the paper. Its consumer is tiled around it. A constant weight is laid out in the order of
    the tiles before the first call (if `lays_out`); another one that is not defined in groups is
    packed in the kernel, once for a block of rows (i0).
    """

    lays_out: bool = True

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` is the only one that fits, and its readers allow it."""
        is_tiled = next(self._tiled(partial, stage), None) is not None
        return Verdict.APPLY if is_tiled else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketch, and one with blocks of terms where a panel leaves the first cache."""
        yield from self._tiled(partial, stage)

    def _tiled(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketches with `stage` computed by a unit, none if it does not fit."""
        match = find_only_match(partial, stage, _match)
        if match is None:
            return
        constants = {buffer.name for buffer in partial.state.dag.inputs if buffer.constant}
        weight = match.weight
        is_laid = self.lays_out and not weight.is_grouped and weight.tensor in constants
        is_read = is_laid or weight.is_grouped
        least = _LEAST_ROWS if is_read else _LEAST_PACKED_ROWS
        op = partial.stage(stage).op
        if op.axes[-2].extent < least:
            return
        for steps in dict.fromkeys((0, _steps_in_cache(partial, op, match))):
            try:
                yield _tile(partial, match, is_laid=is_laid, is_packed=not is_read, steps=steps)
            except ScheduleError:
                return  # a producer or consumer does not allow this form


@dataclass(frozen=True)
class _Match:
    """A stage that a unit can compute."""

    stage: str
    unit: MatrixUnit
    weight: Weight
    groups: int
    """Groups of terms in a tile."""


def _match(op: ComputeOp, target: Target) -> _Match | None:
    """Return how a unit can compute `op`, else None."""
    pair = factors(op.body)
    if pair is None or len(op.axes) < 2 or not op.reduce_axes:
        return None
    left, right = pair
    if not isinstance(left, Load) or not isinstance(right, Load):
        return None
    extent = op.reduce_axes[-1].extent
    for data, weight in ((left, right), (right, left)):
        unit = matrix_unit(target, dtype_of(data).name, dtype_of(weight).name)
        if unit is None or misfit(op, unit.function) or extent % unit.group:
            continue
        groups = max(n for n in divisors(extent // unit.group) if n <= unit.rows)
        form = _form(op, weight, data, unit.group)
        usable = backend_of(target).capabilities(target).dot_products
        if groups >= _LEAST_GROUPS and form is not None and usable:
            return _Match(op.name, unit, form, groups)
    return None


def _form(op: ComputeOp, weight: Load, data: Load, group: int) -> Weight | None:
    """Return how the weight lies; None unless rows move only the data, in whole tiles."""
    row, column, axis = op.axes[-2].name, op.axes[-1].name, op.reduce_axes[-1].name
    if not data.indices or step_along(data.indices[-1], axis) != 1:
        return None
    if any(affine(index) is None for index in data.indices):
        return None
    moved = {name for index in data.indices for name in free_vars(index)}
    moved_weight = {name for index in weight.indices for name in free_vars(index)}
    is_apart = row in moved and column not in moved and row not in moved_weight
    if not is_apart or any(step_along(index, axis) for index in data.indices[:-1]):
        return None
    if is_grouped(op, weight, group):
        others = {name for index in weight.indices[:-3] for name in free_vars(index)}
        is_separate = weight.buffer.name != data.buffer.name and not others & {column, axis}
        return Weight(weight.buffer.name, group, is_grouped=True) if is_separate else None
    if not is_plain(op, weight, data) or any(affine(index) is None for index in weight.indices):
        return None
    is_transposed = weight.indices[-1] == Var(axis)
    return Weight(weight.buffer.name, group, is_grouped=False, is_transposed=is_transposed)


def _steps_in_cache(partial: PartialSketch, op: ComputeOp, match: _Match) -> int:
    """Return the steps of a tile whose columns take a third of the first cache; 0 for all steps."""
    unit, steps = match.unit, op.reduce_axes[-1].extent // (match.groups * match.unit.group)
    step_bytes = match.groups * unit.row_bytes * MOST_TILES
    most = partial.target.cache_bytes[0] // 3 // step_bytes
    fitting = [length for length in divisors(steps) if length <= most]
    return max(fitting, default=1) % steps


def _tile(
    partial: PartialSketch, match: _Match, *, is_laid: bool, is_packed: bool, steps: int
) -> PartialSketch:
    """Return the sketch with the stage and its consumer tiled around the unit.

    With `steps` it is computed for all rows of a block, one block of so many steps after another,
    so that the columns of these stay in the first cache.
    """
    name, weight = match.stage, match.weight
    partial, name, consumer = with_consumer(partial, name)
    rows, columns = _variables(consumer, match.unit)
    row, column = consumer.op.axes[-2].name, consumer.op.axes[-1].name
    partial = partial.then(
        Split(consumer.name, row, (Hole(rows.name, (1,)), _tile_rows(consumer, match.unit))),
        Split(consumer.name, column, (Hole(columns.name, (1,)),)),
    )
    divided = partial.stage(consumer.name)
    i = [divided.loop(row, level) for level in range(3)]
    j = [divided.loop(column, level) for level in range(2)]
    before, inside = outer_axes(partial.stage(name).op, weight.tensor, consumer.op)
    partial = partial.then(
        Reorder(consumer.name, (*before, i[0], j[0], *inside, i[1], i[2], j[1])),
        ComputeAt(name, consumer.name, (j[0], *inside)[-1] if steps else i[1]),
    )
    op = partial.stage(name).op
    tile_rows = _tile_rows(consumer, match.unit)
    loops = _block_steps(op, match, steps, tile_rows) if steps else _inner_steps(op, match)
    partial = partial.then(*loops)
    if is_packed:
        partial = with_panel(partial, weight, name, (consumer.name, j[0]))
    elif is_laid:
        partial = partial.then(RewriteLayout(name, weight.tensor))
    words = f"{match.unit.function} {match.stage}" + f", pack {weight.tensor}" * is_packed
    words += ", in blocks of terms" * bool(steps)
    return replace(
        partial.with_trace(words),
        pending=(),  # the panel copies, or computes, the weights as they are defined
        variables=(*partial.variables, rows, columns),
    )


def _inner_steps(op: ComputeOp, match: _Match) -> Iterator[Step]:
    """Yield the steps that make the loops of a tile."""
    *others, axis = (each.name for each in op.reduce_axes)
    split = Split(op.name, axis, (match.groups, match.unit.group))
    first, groups, terms = split.made
    *outer, row, column = (each.name for each in op.axes)
    order = (*others, first, *outer, row, groups, column, terms)
    steps = prod(each.extent for each in op.reduce_axes) // (match.groups * match.unit.group)
    if steps == 1:  # sums begin at the first loop over terms, which is to be outside of the tile
        order = (*others, first, groups, *outer, row, column, terms)
    yield from (split, Reorder(op.name, order))
    yield Tensorize(op.name, terms, match.unit.function)


def _block_steps(op: ComputeOp, match: _Match, steps: int, tile_rows: int) -> Iterator[Step]:
    """Yield the steps that make loops of tiles inside those of blocks of terms.

    for k0, i1: for k1, i2, k2, j1, k3: C[i1, i2, j1] += …
    """
    *others, axis = (each.name for each in op.reduce_axes)
    *outer, row, column = (each.name for each in op.axes)
    split = Split(op.name, axis, (steps, match.groups, match.unit.group))
    of_rows = Split(op.name, row, (tile_rows,))
    first, inner, groups, last = split.made
    tiles, row = of_rows.made
    order = (*others, first, *outer, tiles, inner, row, groups, column, last)
    yield from (split, of_rows, Reorder(op.name, order))
    yield Tensorize(op.name, last, match.unit.function)


def _tile_rows(consumer: Stage, unit: MatrixUnit) -> int:
    """Return the rows of a register tile: as many as it may have."""
    return min(consumer.op.axes[-2].extent, MOST_TILES * unit.rows)


def _variables(consumer: Stage, unit: MatrixUnit) -> tuple[TileVariable, TileVariable]:
    """Return the tile variables of blocks of rows, in register tiles, and of columns."""
    row, column = consumer.op.axes[-2:]
    blocks = -(-row.extent // _tile_rows(consumer, unit))
    rows = replace(tile_variable(consumer, row, 2, blocks), extent=blocks)
    wide = MOST_IN_ROW if row.extent <= unit.rows else MOST_TILES
    sides = (count * unit.columns for count in range(1, wide + 1))
    ragged = tuple(n for n in sides if column.extent > n and column.extent % n)
    columns = replace(tile_variable(consumer, column, 2, wide * unit.columns), ragged=ragged)
    return rows, columns
