"""Tiling where one tile a stage is not enough: in lanes, with rows that are reduced, in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from ansorc.ir.expr import Binary, BinaryOp, Const, Expr, Var
from ansorc.lang.access import reads_of
from ansorc.lang.compute_op import Axis
from ansorc.lang.hints import hint_axes
from ansorc.schedule.extent import Hole
from ansorc.schedule.stage import Stage
from ansorc.schedule.steps import ComputeAt, Reorder, RFactor, Split, Unroll, Vectorize
from ansorc.search.sketch.loops import contiguous_terms, gathers_once
from ansorc.search.sketch.predicates import fusible_consumer, is_tiled_first, needs_tiling
from ansorc.search.sketch.rule import PartialSketch, Verdict, vector_axis
from ansorc.search.sketch.rules import fuse, share_tiles
from ansorc.search.sketch.simplify_const_indices import (
    HINT,
    periods,
    split_in_two,
    unroll_inside,
)
from ansorc.search.sketch.tiling import (
    SSRSRS,
    Tiling,
    add_tile_vars,
    apply_tiling,
    is_split,
    part,
    variable_name,
)

LEAST_FILL = 2
"""Results along the contiguous axis that fill one such part of a vector, or more, are enough."""


@dataclass(frozen=True)
class LaneReductionTiling:
    """Sum in the lanes of vectors what adjoins in memory, and add the lanes up in each tile.

        for i, j, k:             for i0, j0:                     (level 1)
            C[i, j] += …   ->        for i1, j1, k0, i2, j2, k1, i3, j3: for l:
                                         C.rf[i, j, l] += …      (k = 16 * (k0, k1) + l)
                                     for i1', j1': for l: C[i, j] += C.rf[i, j, l]

    Beyond the paper, whose tiles of such a stage leave most lanes empty: of 3 results, 13 of 16.
    """

    tiling: Tiling = SSRSRS
    levels: tuple[int, ...] = (1, 2)

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` has reuse, few results side by side and terms that adjoin."""
        if not is_tiled_first(partial, stage) or not self.tiling.fusible(self.levels):
            return Verdict.SKIP
        return Verdict.APPLY if _lane_terms(partial, partial.stage(stage)) else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield one sketch for each level of fusion of the partial results."""
        axis = _lane_terms(partial, partial.stage(stage))
        assert axis is not None
        lanes = partial.lanes(partial.stage(stage).op)
        split = Split(stage, axis, (lanes,))
        made = partial.then(split, RFactor(stage, split.made[1]))
        (shares,) = made.state.beyond(partial.state)
        opened = _with_whole(add_tile_vars(made, shares, self.tiling), shares)
        for level in self.tiling.fusible(self.levels):
            yield fuse(opened, shares.name, made.stage(stage), self.tiling, level)


def _with_whole(partial: PartialSketch, shares: Stage) -> PartialSketch:
    """Return the sketch where the last axis of the partial results, its lanes, is not divided."""
    name = variable_name(shares, shares.op.axes[-1])
    variables = (
        replace(variable, whole=variable.levels - 1) if variable.name == name else variable
        for variable in partial.variables
    )
    return replace(partial, variables=tuple(variables))


def _lane_terms(partial: PartialSketch, stage: Stage) -> str | None:
    """Return the reduce axis that fills vectors where the contiguous axis of `stage` does not.

    Nor does it where something large would be gathered along it that is read once, so that a copy
    in another order would not pay: a matrix that is data times one vector.
    """
    op, lanes = stage.op, partial.lanes(stage.op)
    contiguous = vector_axis(op)
    if contiguous is None:
        return None
    axis = op.axes[contiguous]
    terms = contiguous_terms(op, lanes)
    is_narrow = axis.extent * LEAST_FILL < lanes
    return terms if is_narrow or gathers_once(op, axis.name, terms or "") else None


@dataclass(frozen=True)
class FuseRowReductions:
    """Compute a few rows of a stage, and all that becomes of them, while they are in a cache.

        for i, j, k: C += …                     for i0:
        for i, j: M[i] = max(M[i], C)               for i1, j1, k0, i2, j2, k1, i3, j3: C += …
        for i, j: E = exp(C - M[i])      ->         for i1':
        for i, j: D = E / …                             for j: M = max(M, C)
                                                        for j: E = exp(C - M)
                                                        for j: D = E / …

    Beyond the paper, which fuses a stage with element-wise consumers only: a softmax reads its
    operand three times.
    """

    tiling: Tiling = SSRSRS

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` has reuse, and readers that work on rows of it."""
        if not is_tiled_first(partial, stage) or not self.tiling.fusible((1,)):
            return Verdict.SKIP
        return Verdict.APPLY if _row_stages(partial, stage) else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield sketches with the last reader in blocks of rows, and the others by block or row."""
        *between, last = _row_stages(partial, stage)
        rows = len(last.op.axes) - 1
        opened = add_tile_vars(partial, partial.stage(stage), self.tiling)
        opened, (blocks, inside) = share_tiles(opened, stage, last, rows, self.tiling, 1)
        for loop, word in ((inside[-1], "rows"), (blocks[-1], "blocks of rows")):
            made = opened
            for reader in reversed(between):
                made = made.then(ComputeAt(reader.name, last.name, loop))
            made = made.then(ComputeAt(stage, last.name, blocks[-1]))
            words = f"tile {stage} in {word} of {last.name}"
            yield apply_tiling(made, stage, self.tiling, fused=1).with_trace(words)


@dataclass(frozen=True)
class FuseProductChain:
    """Compute a few rows of a product, what becomes of them, and their product with something.

        for i, j, k: S += …                     for i0:
        for i, j: M[i] = max(M[i], S)               for i1, j1, k0, i2, j2, k1, i3, j3: S += …
        for i, j: E = exp(S - M[i])      ->         for i1': for j: M = max(M, S)
        for i, d, j: P += E * V[j, d]                        for j: E = exp(S - M)
        for i, d: O = P / …                         for i1, d1, j0, i2, d2, j1, i3, d3: P += E * V
                                                    for i1', d: O = P / …

    Beyond the paper: of attention, the scores of a few rows stay in a cache, those of all do not.
    """

    tiling: Tiling = SSRSRS

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether the terms of `stage` are made row by row of another stage with reuse."""
        fits = needs_tiling(partial, stage) and bool(self.tiling.fusible((1,)))
        return Verdict.APPLY if fits and _terms_by_row(partial, stage) else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketch with both products in blocks of rows of the consumer."""
        first, *between = _terms_by_row(partial, stage)
        consumer, product = fusible_consumer(partial, stage), partial.stage(stage)
        assert consumer is not None
        rows = len(product.op.axes) - 1
        made = add_tile_vars(partial, first, self.tiling)
        known = len(made.variables)
        made = add_tile_vars(made, product, self.tiling)
        shared = {variable_name(product, axis) for axis in product.op.axes[:rows]}
        mine = (v for v in made.variables[known:] if v.name not in shared)
        made = replace(made, variables=(*made.variables[:known], *mine))
        made, (blocks, _) = share_tiles(made, first.name, consumer, rows, self.tiling, 1)
        made = made.then(ComputeAt(stage, consumer.name, blocks[-1]))
        for each in reversed(between):
            reader, *others = made.state.readers(each.name)
            is_alone = not others and reader.name not in (stage, consumer.name)
            row = reader.name, reader.iterators[rows - 1].name
            loop = row if is_alone else (consumer.name, blocks[-1])
            made = made.then(ComputeAt(each.name, *loop))
        made = made.then(ComputeAt(first.name, consumer.name, blocks[-1]))
        made = apply_tiling(made, first.name, self.tiling, fused=1)
        made = apply_tiling(made, stage, self.tiling, fused=1, rows_of=first)
        yield made.with_trace(f"tile {first.name} and {stage} in rows of {consumer.name}")


def _terms_by_row(partial: PartialSketch, name: str) -> tuple[Stage, ...]:
    """Return the stage with reuse of which a few rows are all that as many rows of `name` need.

    And what is computed of it for them, row by row, in order. Empty where it is otherwise.
    """
    stage, consumer = partial.stage(name), fusible_consumer(partial, name)
    rows = len(stage.op.axes) - 1
    if consumer is None or not any(is_split(axis) for axis in stage.op.axes[:rows]):
        return ()
    needed, extents = [consumer, stage], [axis.extent for axis in stage.op.axes[:rows]]
    for other in reversed([each for each in partial.state.stages if each not in needed]):
        readers = partial.state.readers(other.name)
        is_like = [axis.extent for axis in other.op.axes[:rows]] == extents
        is_by_row = is_like and all(_reads_own_row(reader, other, rows) for reader in readers)
        if other.is_inlined or not is_by_row or not any(reader in needed for reader in readers):
            continue  # such as a copy of the values in another order
        if not other.is_untouched or other.is_output or any(r not in needed for r in readers):
            return ()
        needed.append(other)
        if needs_tiling(partial, other.name):
            return (*needed[:1:-1],) if len(needed) > 3 else ()
    return ()


def _row_stages(partial: PartialSketch, name: str) -> tuple[Stage, ...]:
    """Return what reads the stage, and what reads that, where all of it works row by row.

    The last one is read by none of them, and has the shape of the stage; one at least reduces.
    Empty where it is otherwise.
    """
    stage = partial.stage(name)
    readers = _readers(partial, stage)
    is_free = all(r.is_untouched and r.op.scan is None for r in (stage, *readers))
    if len(readers) < 2 or stage.is_output or not is_free:
        return ()
    *between, last = readers
    extents = [axis.extent for axis in stage.op.axes]
    rows = len(extents) - 1
    is_like = extents == [axis.extent for axis in last.op.axes] and not last.op.reduce_axes
    if not is_like or rows < 1 or not is_split(stage.op.axes[rows - 1]):
        return ()
    if any(reader.is_output for reader in between) or partial.state.readers(last.name):
        return ()
    sources = [stage, *between]
    is_by_row = all(_reads_own_row(r, source, rows) for r in readers for source in sources)
    reduces = any(reader.op.reduce_axes for reader in between)
    return tuple(readers) if is_by_row and reduces else ()


def _readers(partial: PartialSketch, stage: Stage) -> list[Stage]:
    """Return all stages that need the results of `stage`, producers first."""
    needed = {stage.name}
    readers: list[Stage] = []
    for other in partial.state.stages:
        if any(other in partial.state.readers(name) for name in needed):
            needed.add(other.name)
            readers.append(other)
    return readers


def _reads_own_row(reader: Stage, source: Stage, rows: int) -> bool:
    """Return whether the first indices of each load of `source` are the reader's first axes."""
    row_indices = [Var(axis.name) for axis in reader.op.axes[:rows]]
    if len(row_indices) != rows:
        return False
    return all(list(access[:rows]) == row_indices for access in reads_of(reader.op, source.op))


@dataclass(frozen=True)
class Shared:
    """An axis of a stage and that of its consumer, `period` results of which it stands for."""

    own: Axis
    axis: Axis
    period: int


@dataclass(frozen=True)
class Blocks:
    """A stage whose results another one interleaves, maybe by way of others."""

    consumer: Stage
    between: tuple[Stage, ...]
    """The stages computed on the way, the last one first."""
    shared: tuple[Shared, ...]
    """Not among them: the consumer's contiguous axis."""


@dataclass(frozen=True)
class FuseInterleavedConsumer:
    """Compute a stage for a block of its consumer's results, and what it reads with it.

        for e, y, c, k: P[e, y, c] += D[e, y, k] …        for y0:                (level 1)
        for h, c: O[h, c] = Σ ± P[e, h // 2, c]      ->       for …: D …
                                                              for …: P[e, …] += …
                                                              for y1, c: for 2: O[2 * (y0, y1) + …]

    Beyond the paper, which fuses a stage with element-wise consumers only. A Winograd convolution
    holds several times as many transformed elements as its data: a block of them stays in a cache.
    """

    tiling: Tiling = SSRSRS

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` has reuse, and one reader that interleaves its results.

        What a reader computes by remainders of its axes is to be unrolled: no other rule is asked.
        """
        if not is_tiled_first(partial, stage) or not self.tiling.fusible((1,)):
            return Verdict.SKIP
        blocks = _blocks(partial, partial.stage(stage))
        if blocks is None:
            return Verdict.SKIP
        return Verdict.APPLY_AND_STOP if periods(blocks.consumer.op) else Verdict.APPLY

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketch with the consumer in blocks along all axes but the contiguous one."""
        tiled_stage = partial.stage(stage)
        blocks = _blocks(partial, tiled_stage)
        assert blocks is not None
        made, block = _open_blocks(
            add_tile_vars(partial, tiled_stage, self.tiling), tiled_stage, blocks
        )
        sources = _sources(partial, stage)
        for each in (*(other.name for other in blocks.between), stage, *sources):
            made = made.then(ComputeAt(each, blocks.consumer.name, block))
        for name in (*(other.name for other in blocks.between), *sources):
            made = _unroll(made, made.stage(name))
        made = apply_tiling(made, stage, self.tiling, fused=1)
        yield made.with_trace(f"tile {stage} in blocks of {blocks.consumer.name}")


def _unroll(partial: PartialSketch, stage: Stage) -> PartialSketch:
    """Return the sketch with a stage of a block unrolled around its vectors."""
    contiguous = vector_axis(stage.op)
    columns = [] if contiguous is None else [stage.op.axes[contiguous]]
    apart = hint_axes(stage.op.hints, HINT)
    return unroll_inside(partial, stage, [a for a in columns if a.name not in apart])[0]


def _blocks(partial: PartialSketch, stage: Stage) -> Blocks | None:
    """Return what interleaves the results of `stage` at last; None if nothing does."""
    shared = _find_shared_axes(partial, stage)
    if not shared:
        return None
    (reader,) = partial.state.readers(stage.name)
    beyond = _blocks(partial, reader)
    if beyond is None:
        return Blocks(reader, (), shared)
    further = {each.own.name: each for each in beyond.shared}
    composed = tuple(
        Shared(each.own, next_.axis, each.period * next_.period)
        for each in shared
        if (next_ := further.get(each.axis.name)) is not None
    )
    return Blocks(beyond.consumer, (*beyond.between, reader), composed)


def _find_shared_axes(partial: PartialSketch, stage: Stage) -> tuple[Shared, ...]:
    """Return the axes that the stage shares with its only reader; none if they do not interleave.

    The contiguous axis of the reader is not among them.
    """
    readers = partial.state.readers(stage.name)
    if stage.is_output or len(readers) != 1:
        return ()
    (reader,) = readers
    contiguous = vector_axis(reader.op)
    is_plain = not reader.op.reduce_axes and reader.op.scan is None
    if not is_plain or not reader.is_untouched or contiguous is None:
        return ()
    axes = {a.name: a for number, a in enumerate(reader.op.axes) if number != contiguous}
    shared_axes: list[Shared] = []
    for number, own_axis in enumerate(stage.op.axes):
        indices = {access[number] for access in reads_of(reader.op, stage.op)}
        whole = {_quotient(index) for index in indices}
        if len(whole) != 1:
            return ()
        pair = whole.pop()
        if pair is not None and pair[0] in axes:
            shared_axes.append(Shared(own_axis, axes[pair[0]], pair[1]))
    names = [shared.axis.name for shared in shared_axes]
    is_interleaved = any(shared.period > 1 for shared in shared_axes)
    return tuple(shared_axes) if is_interleaved and len(set(names)) == len(names) else ()


def _quotient(index: Expr) -> tuple[str, int] | None:
    """Return the axis and the divisor of an index `axis // divisor`.

    Return None for a constant or a remainder.
    """
    match index:
        case Var(name):
            return name, 1
        case Binary(BinaryOp.FLOORDIV, Var(name), Const(value, _)):
            return name, int(value)
        case _:
            return None


def _open_blocks(partial: PartialSketch, stage: Stage, shape: Blocks) -> tuple[PartialSketch, str]:
    """Return the sketch with the consumer in blocks, and the innermost loop of blocks."""
    consumer, shared = shape.consumer, {each.axis.name: each for each in shape.shared}
    contiguous, repeated = vector_axis(consumer.op), periods(consumer.op)
    assert contiguous is not None
    blocks: list[str] = []
    inner: list[str] = []
    turns: list[str] = []
    for axis in [a for number, a in enumerate(consumer.op.axes) if number != contiguous]:
        each = shared.get(axis.name)
        if each is None or not is_split(axis):
            (inner if each is None else blocks).append(axis.name)
            continue
        lengths = _lengths(stage, each)
        partial = partial.then(Split(consumer.name, axis.name, lengths))
        divided = partial.stage(consumer.name)
        names = [divided.loop(axis.name, level) for level in range(len(lengths) + 1)]
        blocks.append(names[0])
        is_turn = axis.name in repeated and each.period > 1
        turns += names[-1:] if is_turn else []
        inner += names[1:-1] if is_turn else names[1:]
    last = consumer.op.axes[contiguous]
    partial = split_in_two(partial, consumer, [last], prod(repeated.values()))
    divided = partial.stage(consumer.name)
    vector = part(divided, last, 1)
    columns = [divided.loop(last.name)] if is_split(last) else []
    order = (*blocks, *inner, *columns, *turns, vector)
    marks = [Unroll(consumer.name, name) for name in turns]
    partial = partial.then(Reorder(consumer.name, order), *marks, Vectorize(consumer.name, vector))
    return partial, blocks[-1]


def _lengths(stage: Stage, shared: Shared) -> tuple[Hole | int, ...]:
    """Return the lengths inside of a block.

    They are the tile of the stage, and the results of the consumer for each result of it.
    """
    tile = (Hole(variable_name(stage, shared.own), (1, 2, 3)),) if is_split(shared.own) else ()
    return (*tile, shared.period) if shared.period > 1 else tile


def _sources(partial: PartialSketch, stage: str) -> tuple[str, ...]:
    """Return what the stage alone reads, directly or not.

    All of it has to be unrolled around its vectors.
    """
    direct = [each.name for each in partial.state.stages if _is_source(partial, each, stage)]
    return (*direct, *(further for each in direct for further in _sources(partial, each)))


def _is_source(partial: PartialSketch, stage: Stage, reader: str) -> bool:
    """Return whether `stage` is to be unrolled and only `reader` reads it."""
    is_free = stage.is_untouched and not stage.is_output and HINT in dict(stage.op.hints)
    return is_free and [each.name for each in partial.state.readers(stage.name)] == [reader]
