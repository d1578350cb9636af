"""TilingInBlocks: tile a stage inside blocks of a consumer that interleaves its results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from ansorc.ir.expr import Binary, BinaryOp, Const, Expr, Var
from ansorc.lang.access import reads_of
from ansorc.lang.compute_op import Axis
from ansorc.lang.hints import hint_axes
from ansorc.schedule.extent import Hole
from ansorc.schedule.stage import Stage
from ansorc.schedule.steps import ComputeAt, Reorder, Split, Unroll, Vectorize
from ansorc.search.sketch.draft import Draft, vector_axis
from ansorc.search.sketch.predicates import is_tiled_first
from ansorc.search.sketch.rule import Verdict
from ansorc.search.sketch.simplify_const_indices import (
    HINT,
    periods,
    split_in_two,
    unrolled_inside,
)
from ansorc.search.sketch.tiling import (
    SSRSRS,
    Tiling,
    declared,
    is_split,
    part,
    tiled,
    variable_name,
)


@dataclass(frozen=True)
class Shared:
    """An axis of a stage and that of its consumer, `period` results of which it stands for."""

    own: Axis
    axis: Axis
    period: int


@dataclass(frozen=True)
class TilingInBlocks:
    """Compute a stage for a block of its consumer's results, and what it reads with it.

        for e, y, c, k: P[e, y, c] += D[e, y, k] …        for y0:                (level 1)
        for h, c: O[h, c] = Σ ± P[e, h // 2, c]      ->       for …: D …
                                                              for …: P[e, …] += …
                                                              for y1, c: for 2: O[2 * (y0, y1) + …]

    Beyond the paper, which fuses a stage with element-wise consumers only. A Winograd convolution
    holds four times as many transformed elements as its data: a block of them stays in a cache.
    """

    tiling: Tiling = SSRSRS

    def verdict(self, draft: Draft, stage: str) -> Verdict:
        """Return whether `stage` has reuse, and one reader that interleaves its results.

        What a reader computes by remainders of its axes is to be unrolled: no other rule is asked.
        """
        if not is_tiled_first(draft, stage) or not self.tiling.fusible((1,)):
            return Verdict.SKIP
        if not _shared(draft, draft.stage(stage)):
            return Verdict.SKIP
        (consumer,) = draft.state.readers(stage)
        return Verdict.APPLY_AND_STOP if periods(consumer.op) else Verdict.APPLY

    def expand(self, draft: Draft, stage: str) -> Iterator[Draft]:
        """Yield the draft with the consumer in blocks along all axes but the contiguous one."""
        own = draft.stage(stage)
        (consumer,) = draft.state.readers(stage)
        made, block = _opened(declared(draft, own, self.tiling), own, consumer)
        made = made.then(ComputeAt(stage, consumer.name, block))
        for source in _sources(draft, stage):
            made = made.then(ComputeAt(source.name, consumer.name, block))
            contiguous = vector_axis(source.op)
            columns = [] if contiguous is None else [source.op.axes[contiguous]]
            apart = hint_axes(source.op.hints, HINT)
            made, _ = unrolled_inside(made, source, [a for a in columns if a.name not in apart])
        made = tiled(made, stage, self.tiling, fused=1)
        yield made.saying(f"tile {stage} in blocks of {consumer.name}")


def _shared(draft: Draft, stage: Stage) -> tuple[Shared, ...]:
    """Return the axes that the stage shares with its only reader; none if they do not interleave.

    The contiguous axis of the reader is not among them.
    """
    readers = draft.state.readers(stage.name)
    if stage.is_output or len(readers) != 1:
        return ()
    (reader,) = readers
    contiguous = vector_axis(reader.op)
    if reader.op.reduce_axes or not reader.is_untouched or contiguous is None:
        return ()
    axes = {a.name: a for place, a in enumerate(reader.op.axes) if place != contiguous}
    found: list[Shared] = []
    for place, own in enumerate(stage.op.axes):
        indices = {access[place] for access in reads_of(reader.op, stage.op)}
        whole = {_quotient(index) for index in indices}
        if len(whole) != 1:
            return ()
        pair = whole.pop()
        if pair is not None and pair[0] in axes:
            found.append(Shared(own, axes[pair[0]], pair[1]))
    names = [shared.axis.name for shared in found]
    is_interleaved = any(shared.period > 1 for shared in found)
    return tuple(found) if is_interleaved and len(set(names)) == len(names) else ()


def _quotient(index: Expr) -> tuple[str, int] | None:
    """The axis and the divisor of an index `axis // divisor`; None of a constant or a remainder."""
    match index:
        case Var(name):
            return name, 1
        case Binary(BinaryOp.FLOORDIV, Var(name), Const(value, _)):
            return name, int(value)
        case _:
            return None


def _opened(draft: Draft, stage: Stage, consumer: Stage) -> tuple[Draft, str]:
    """Return the draft with the consumer in blocks, and the innermost loop of blocks."""
    shared = {each.axis.name: each for each in _shared(draft, stage)}
    contiguous = vector_axis(consumer.op)
    assert contiguous is not None
    blocks: list[str] = []
    inner: list[str] = []
    turns: list[str] = []
    for axis in [a for place, a in enumerate(consumer.op.axes) if place != contiguous]:
        each = shared.get(axis.name)
        if each is None or not is_split(axis):
            (inner if each is None else blocks).append(axis.name)
            continue
        lengths = _lengths(stage, each)
        draft = draft.then(Split(consumer.name, axis.name, lengths))
        names = [part(axis, level, len(lengths) + 1) for level in range(len(lengths) + 1)]
        blocks.append(names[0])
        turns += names[-1:] if each.period > 1 else []
        inner += names[1:-1] if each.period > 1 else names[1:]
    last = consumer.op.axes[contiguous]
    draft = split_in_two(draft, consumer, [last], prod(each.period for each in shared.values()))
    vector = part(last, 1, 2)
    columns = [part(last, 0, 2)] if is_split(last) else []
    order = (*blocks, *inner, *columns, *turns, vector)
    marks = [Unroll(consumer.name, name) for name in turns]
    draft = draft.then(Reorder(consumer.name, order), *marks, Vectorize(consumer.name, vector))
    return draft, blocks[-1]


def _lengths(stage: Stage, shared: Shared) -> tuple[Hole | int, ...]:
    """The lengths inside of a block: the tile of the stage, and what each of its results is for."""
    tile = (Hole(variable_name(stage, shared.own), (1, 2, 3)),) if is_split(shared.own) else ()
    return (*tile, shared.period) if shared.period > 1 else tile


def _sources(draft: Draft, stage: str) -> Sequence[Stage]:
    """What the stage alone reads, if all of it is unrolled around its vectors."""
    return [
        other
        for other in draft.state.stages
        if HINT in dict(other.op.hints)
        and other.is_untouched
        and not other.is_output
        and [reader.name for reader in draft.state.readers(other.name)] == [stage]
    ]
