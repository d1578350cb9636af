"""TensorizeDotProduct: a matrix product that a dot-product instruction computes.

It applies to sums `cast(a[…, i, k]) * cast(b[…, k // t, j, k % t])` of t narrow products for which
the target has an instruction: the weights lie in groups of t, so that one vector load fetches the
factors of all lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from ansorc.codegen.base import backend_of
from ansorc.errors import ScheduleError
from ansorc.ir.dtype import INT32
from ansorc.ir.expr import Load, Var, dtype_of
from ansorc.ir.operator import DOT_FUNCTIONS
from ansorc.ir.substitute import free_vars
from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.definitions import int16_factors, shifted_factors
from ansorc.schedule.dot_body import PAIRS, factors, misfit
from ansorc.schedule.extent import Hole
from ansorc.schedule.stage import Stage
from ansorc.schedule.state import Step
from ansorc.schedule.steps import (
    ComputeAt,
    ComputeInline,
    Redefine,
    Reorder,
    RewriteLayout,
    Split,
    StorageAlign,
    Tensorize,
    Vectorize,
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
from ansorc.search.sketch.predicates import fusible_consumer
from ansorc.search.sketch.rule import PartialSketch, Verdict
from ansorc.search.sketch.sketch import RegisterTile, Sketch, TileVariable
from ansorc.search.sketch.tiling import tile_variable
from ansorc.search.tiles import ragged_lengths
from ansorc.target import Target
from ansorc.target.dot_products import dot_products

MOST_ROWS, MOST_VECTORS = 16, 8
"""The largest register tile: rows, and vectors in each."""
_LONGEST_FIRST = sorted(DOT_FUNCTIONS.items(), key=lambda pair: -pair[1])
_LEAST_ROWS = 8
"""Rows of a product that is not defined in groups; to read the weights takes longer for fewer."""
_CROWDED_PITCH, _SPREAD = 256, 64
"""Bytes between rows that begin in few sets of the first cache, and how far these are moved."""
_COLUMN_VECTORS = 4
"""Vectors of columns that are summed side by side."""


@dataclass(frozen=True)
class TensorizeDotProduct:
    """Compute the one stage that an instruction fits in register tiles, by that instruction.

        for i, j, k: C += cast(A) * cast(B)   ->   for j0, i0:
                                                       for k0, i1, j1: C += dot(A, B)

    Beyond the paper. Its consumer is tiled around it; what it reads stays as it is defined, but for
    the weights of a product that is not defined in groups: a constant is laid out in groups before
    the first call (if `lays_out`), or else they are packed in the kernel, which pays for many rows.
    """

    lays_out: bool = True

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` is the only one that fits, and its readers allow it."""
        has_variants = next(self._variants(partial, stage), None) is not None
        return Verdict.APPLY if has_variants else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield it with a panel of the weights in cache, then with the weights where they are."""
        yield from self._variants(partial, stage)

    def _variants(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketches with `stage` computed by an instruction, none if it does not fit."""
        match = find_only_match(partial, stage, _match)
        if match is None:
            return
        for is_packed in self._packings(partial, match):
            try:
                yield _tensorize(partial, match, is_packed=is_packed)
            except ScheduleError:
                continue  # a producer or consumer does not allow this form
            if not match.is_grouped:
                return

    def _packings(self, partial: PartialSketch, match: _Match) -> Iterator[bool]:
        """Yield whether the weights are packed in the kernel, for each way to read them.

        Of those that are not defined in groups only the first that fits is used.
        """
        if match.is_grouped:
            yield from (True, False)
            return
        if self.lays_out and any(
            b.constant for b in partial.state.dag.inputs if b.name == match.weight
        ):
            yield False
        if _count_rows(partial.stage(match.stage).op, match.weight) >= _LEAST_ROWS:
            yield True


def is_tensorized(sketch: Sketch) -> bool:
    """Return whether an instruction of the machine computes a part of `sketch`."""
    return any(isinstance(step, Tensorize) for step in sketch.steps)


@dataclass(frozen=True)
class _Match:
    """A stage that an instruction can compute."""

    stage: str
    function: str
    weight: str
    """The tensor whose elements the lanes read."""
    is_grouped: bool
    """Whether its last axes are those of groups, in its definition."""
    is_transposed: bool = False
    """Whether the terms are along its last axis, though it is not in groups."""
    definition: str = ""
    """The definition of the stage with the factors of the instruction, if its own has others."""


def _match(op: ComputeOp, target: Target) -> _Match | None:
    """Return how an instruction can compute `op`, else None."""
    pair = factors(op.body)
    if pair is None or len(op.axes) < 2 or not op.reduce_axes:
        return None
    left, right = pair
    if not isinstance(left, Load) or not isinstance(right, Load):
        return None
    axis = op.reduce_axes[-1]
    for function, terms in _LONGEST_FIRST:
        if misfit(op, function) or axis.extent % terms:
            continue
        definition = _definition(op, function, target)
        if definition is None:
            continue
        grouped = [load for load in (left, right) if is_grouped(op, load, terms)]
        if len(grouped) == 1 and not definition:
            return _Match(op.name, function, grouped[0].buffer.name, is_grouped=True)
        for weight, data in ((left, right), (right, left)):
            is_read_once = weight.buffer.constant and terms == 4  # laid out, as it is
            pays = _count_rows(op, weight.buffer.name) >= _LEAST_ROWS or is_read_once
            if not pays or not is_plain(op, weight, data):
                continue
            if function == "dot2" and int16_factors(op) is not None:
                definition = "int16"
            is_transposed = weight.indices[-1] == Var(axis.name)
            return _Match(op.name, function, weight.buffer.name, False, is_transposed, definition)
    return None


def _count_rows(op: ComputeOp, weight: str) -> int:
    """Return for how many rows of results the same weights serve."""
    indices = [i for load in op.loads if load.buffer.name == weight for i in load.indices]
    moving = {name for index in indices for name in free_vars(index)}
    return prod(axis.extent for axis in op.axes[:-1] if axis.name not in moving)


def _definition(op: ComputeOp, function: str, target: Target) -> str | None:
    """Return the definition of `op` for which there is an instruction, "" for its own.

    None if there is no such instruction.
    """
    if _has_instruction(op, function, target):
        return ""
    if function == PAIRS:
        return None
    has_bytes = function == "dot4" and _is_usable(target, function, ("uint8", "int8"))
    return "shifted" if has_bytes and shifted_factors(op) is not None else None


def _has_instruction(op: ComputeOp, function: str, target: Target) -> bool:
    """Return whether the target has an instruction for the factors of `op`."""
    pair = factors(op.body)
    assert pair is not None
    left, right = (dtype_of(factor).name for factor in pair)
    if function == "dot2" and op.buffer.dtype == INT32:
        left = right = "int16"
    return _is_usable(target, function, (left, right))


def _is_usable(target: Target, function: str, kinds: tuple[str, str]) -> bool:
    """Return whether the target has `function` for factors of two dtypes, and its code uses it."""
    is_there = dot_products(target, DOT_FUNCTIONS[function], *kinds, in_pairs=function == PAIRS)
    return bool(is_there) and backend_of(target).capabilities(target).dot_products


def _tensorize(partial: PartialSketch, match: _Match, *, is_packed: bool) -> PartialSketch:
    """Return the sketch with the stage and its consumer tiled around the instruction."""
    name = match.stage
    if match.definition:
        partial, name = _redefine(partial, match)
        match = replace(match, weight=_weight_name(partial.stage(name).op))
    partial, name, consumer = with_consumer(partial, name)
    row, column = consumer.op.axes[-2], consumer.op.axes[-1]
    variables = _variables(partial, consumer)
    for axis, variable in zip((row, column), variables, strict=True):
        partial = partial.then(Split(consumer.name, axis.name, (Hole(variable.name, (1,)),)))
    divided = partial.stage(consumer.name)
    loops = tuple(
        divided.loop(axis.name, level)
        for axis, level in ((column, 0), (row, 0), (row, 1), (column, 1))
    )
    before, inside = outer_axes(partial.stage(name).op, match.weight, consumer.op)
    partial = partial.then(
        Reorder(consumer.name, (*before, loops[0], *inside, *loops[1:])),
        ComputeAt(name, consumer.name, loops[1]),
    )
    partial = partial.then(*_inner_steps(partial.stage(name).op, match.function))
    if is_packed:
        weight = Weight(
            match.weight, DOT_FUNCTIONS[match.function], match.is_grouped, match.is_transposed
        )
        partial = with_panel(partial, weight, name, (consumer.name, loops[0]))
    elif not match.is_grouped:
        partial = partial.then(RewriteLayout(name, match.weight))
    for other in [s.op for s in partial.state.stages if s.name != name and s.is_untouched]:
        partial = partial.then(*_column_sum_steps(partial, other, match.function))
    space = partial.stage(name).op.axes
    tile = RegisterTile(
        name, tuple(v.name for v in variables), (space[-2].name, space[-1].name), vector=1
    )
    words = f"{match.function} {match.stage}" + f", pack {match.weight}" * is_packed
    return replace(
        partial.with_trace(words),
        pending=(),  # the panel copies, or computes, the weights as they are defined
        variables=(*partial.variables, *variables),
        register_tiles=(*partial.register_tiles, tile),
    )


def _redefine(partial: PartialSketch, match: _Match) -> tuple[PartialSketch, str]:
    """Return the sketch with the definition of `match`, and the stage that sums the products."""
    consumer = fusible_consumer(partial, match.stage)
    made = partial.then(Redefine(match.stage, match.definition))
    if match.definition == "int16":
        for copy in made.state.beyond(partial.state):
            made = made.then(*_spread_rows(copy))
        return made, match.stage
    *_, product = made.state.beyond(partial.state)
    if consumer is not None:
        made = made.then(ComputeInline(match.stage))
    return made, product.name


def _spread_rows(copy: Stage) -> Iterator[Step]:
    """Let the rows of a copy begin in different sets of a cache, of which a tile reads several."""
    *others, row = copy.op.axes
    pitch = row.extent * copy.op.buffer.dtype.bytes
    if others and pitch % _CROWDED_PITCH == 0:
        scale = copy.op.buffer.dtype.bytes
        yield StorageAlign(copy.name, others[-1].name, _CROWDED_PITCH // scale, _SPREAD // scale)


def _weight_name(op: ComputeOp) -> str:
    """Return the tensor that is read along the columns."""
    column = op.axes[-1].name
    return next(
        load.buffer.name
        for load in op.loads
        if any(column in free_vars(index) for index in load.indices)
    )


def _variables(partial: PartialSketch, consumer: Stage) -> tuple[TileVariable, TileVariable]:
    """Return the tile variables of rows and columns."""
    lanes = partial.target.vector_bytes // INT32.bytes
    row, column = consumer.op.axes[-2:]
    rows = tile_variable(consumer, row, 2, MOST_ROWS)
    ragged = ragged_lengths(row.extent, MOST_ROWS, 0)
    half = -(-row.extent // 2)
    if half < MOST_ROWS and row.extent % half:  # an odd, short row, as of an image 7 x 7
        ragged = tuple(sorted({*ragged, half}))
    return (
        replace(rows, ragged=ragged),
        tile_variable(consumer, column, 2, MOST_VECTORS * lanes, lanes),
    )


def _inner_steps(op: ComputeOp, function: str) -> Iterator[Step]:
    """Yield the steps that make the instruction of the innermost loop."""
    *others, axis = (each.name for each in op.reduce_axes)
    space = tuple(each.name for each in op.axes)
    split = Split(op.name, axis, (DOT_FUNCTIONS[function],))
    outer, inner = split.made
    yield from (split, Reorder(op.name, (*others, outer, *space, inner)))
    yield Tensorize(op.name, inner, function)


def _column_sum_steps(partial: PartialSketch, op: ComputeOp, function: str) -> Iterator[Step]:
    """Sum the groups of the weights, if `op` does that, by the same instruction, on its own."""
    terms = DOT_FUNCTIONS[function]
    is_sum = len(op.axes) == 1 and [axis.extent for axis in op.reduce_axes[1:]] == [terms]
    if not is_sum or misfit(op, function) or not _has_instruction(op, function, partial.target):
        return
    column, group, term = op.axes[0], op.reduce_axes[0].name, op.reduce_axes[1].name
    most = _COLUMN_VECTORS * partial.target.vector_bytes // INT32.bytes
    length = next(n for n in range(most, 0, -1) if column.extent % n == 0)
    split = Split(op.name, column.name, (length,))
    outer, inner = split.made
    yield from (split, Reorder(op.name, (outer, group, inner, term)))
    yield Tensorize(op.name, term, function)
    yield Vectorize(op.name, inner)
