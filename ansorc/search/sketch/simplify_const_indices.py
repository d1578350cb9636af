"""SimplifyConstIndices: unroll the axes that index a small constant matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from ansorc.ir.expr import Binary, BinaryOp, Const, Select, Var
from ansorc.ir.node import walk
from ansorc.lang.compute_op import Axis, ComputeOp
from ansorc.lang.hints import hint_axes
from ansorc.schedule.extent import Hole
from ansorc.schedule.stage import Stage
from ansorc.schedule.steps import Reorder, Split, Unroll, Vectorize
from ansorc.schedule.unrolling import MAX_COPIES
from ansorc.search.sketch.rule import PartialSketch, Verdict, vector_axis
from ansorc.search.sketch.tiling import is_split, part, tile_variable

HINT = "simplify_const_tensor_indices"
INNERMOST = 64
"""The largest inner length of an axis that is not vectorised."""


@dataclass(frozen=True)
class SimplifyConstIndices:
    """Unroll the axes that the hint names, and tile the others around them.

        for e, p, c: V = B[e, …] * …   ->   for p0, c0, p1: unroll e: vectorize c1: V = …

    Where all indices of a small constant are numbers, its elements are numbers too: zeros need no
    multiplication (the transforms of a Winograd convolution).
    """

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` has the hint, or remainders of axes decide what it computes.

        In the second case it may also be left to be computed in blocks
        (`FuseInterleavedConsumer`), with its reader if that was left, too.
        """
        candidate = partial.stage(stage)
        if not candidate.is_untouched:
            return Verdict.SKIP
        if hint_axes(candidate.op.hints, HINT):
            return Verdict.APPLY_AND_STOP
        if not periods(candidate.op):
            return Verdict.SKIP
        readers = [reader for reader in partial.state.readers(stage) if periods(reader.op)]
        if not readers:
            return Verdict.APPLY
        is_left = any(reader.is_untouched for reader in readers)
        return Verdict.SKIP if is_left else Verdict.APPLY_AND_STOP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketch with the stage tiled in two levels around what is unrolled."""
        candidate = partial.stage(stage)
        apart = (*hint_axes(candidate.op.hints, HINT), *periods(candidate.op))
        tiled = [axis for axis in candidate.op.axes if axis.name not in apart]
        made, unrolled = unroll_inside(partial, candidate, tiled)
        yield made.with_trace(f"unroll {' '.join(unrolled)} of {stage}")


def unroll_inside(
    partial: PartialSketch, stage: Stage, tiled: Sequence[Axis]
) -> tuple[PartialSketch, tuple[str, ...]]:
    """Return the sketch with what `stage` asks for unrolled around vectors, and those loops.

    That are the axes of the hint, and a period of each axis that has one. The axes `tiled` are
    split in two.
    """
    op, contiguous = stage.op, vector_axis(stage.op)
    hinted, turns = hint_axes(op.hints, HINT), periods(op)
    serial = [axis.name for axis in op.reduce_axes if axis.name not in hinted]
    copies = prod(a.extent for a in (*op.axes, *op.reduce_axes) if a.name in hinted)
    partial = split_in_two(partial, stage, tiled, copies * prod(turns.values()))
    partial = partial.then(*(Split(stage.name, axis, (length,)) for axis, length in turns.items()))
    divided = partial.stage(stage.name)
    unrolled = (*hinted, *(divided.loop(axis, 1) for axis in turns))
    last = None if contiguous is None else op.axes[contiguous]
    vector = [part(divided, last, 1)] if last is not None and last in tiled else []
    outer = [divided.loop(axis.name) for axis in op.axes if axis.name not in hinted]
    inner = [part(divided, axis, 1) for axis in tiled if is_split(axis)]
    inner = [loop for loop in inner if loop not in vector]
    order = Reorder(stage.name, (*outer, *inner, *serial, *unrolled, *vector))
    marks = [Unroll(stage.name, name) for name in unrolled]
    marked = partial.then(order, *marks, *(Vectorize(stage.name, loop) for loop in vector))
    return marked, unrolled


def periods(op: ComputeOp) -> dict[str, int]:
    """Return the space axes whose remainders decide what `op` computes, and their divisors.

    It is not a reduction, and its contiguous axis, whose loop is vectorised, is not among them.
    """
    divisors: dict[str, int] = {}
    contiguous = vector_axis(op)
    if op.reduce_axes or op.scan is not None or contiguous is None:
        return divisors
    for select in op.nodes():
        for node in walk(select.condition) if isinstance(select, Select) else ():
            match node:
                case Binary(BinaryOp.MOD, Var(name), Const(length, _)):
                    divisors.setdefault(name, int(length))
                case Binary(
                    BinaryOp.MOD,
                    Binary(BinaryOp.FLOORDIV, Var(name), Const(step, _)),
                    Const(length, _),
                ):
                    divisors.setdefault(name, int(step) * int(length))
                case _:
                    pass
    extents = {
        axis.name: axis.extent for number, axis in enumerate(op.axes) if number != contiguous
    }
    return {n: length for n, length in divisors.items() if 1 < length < extents.get(n, 0)}


def split_in_two(
    partial: PartialSketch, stage: Stage, axes: Sequence[Axis], copies: int
) -> PartialSketch:
    """Split `axes` in two, the contiguous one into vectors as many as may be unrolled.

    `copies` is how often these are copied.
    """
    contiguous = vector_axis(stage.op)
    lanes = partial.lanes(stage.op)
    for axis in axes:
        if not is_split(axis):
            continue
        is_vector = contiguous is not None and axis is stage.op.axes[contiguous]
        limit = lanes * max(1, MAX_COPIES // (4 * copies)) if is_vector else INNERMOST
        variable = tile_variable(stage, axis, 2, min(limit, INNERMOST), lanes if is_vector else 0)
        partial = replace(partial, variables=(*partial.variables, variable))
        partial = partial.then(Split(stage.name, axis.name, (Hole(variable.name, (1,)),)))
    return partial
