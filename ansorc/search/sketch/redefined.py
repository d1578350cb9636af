"""Redefined: other definitions of a stage, which compete with its own by measured time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.definitions import DEFINITIONS, OF_CONVOLUTIONS
from ansorc.schedule.steps import ComputeInline, Redefine
from ansorc.search.sketch.predicates import fusible_consumer, is_tiled_first
from ansorc.search.sketch.rule import PartialSketch, Verdict
from ansorc.search.sketch.sketch import Sketch
from ansorc.target import Target

LEAST_SAVING = 1.5
"""A definition must take so many times fewer multiplications to be worth its additions, and more
rounding than by those before it."""
LEAST_TERMS = 16
"""Terms of the sums that are left, at least: what is transformed for a few is of no use."""
LEAST_REUSE = 32
"""Products with each element of a transformed weight, at least, if that leaves the second caches:
at 470 GFLOP/s and 58 GB/s from the last cache (a Xeon) to read it takes half as long as these."""


@dataclass(frozen=True)
class Redefined:
    """Compute a stage by each of `definitions` that takes far fewer multiplications.

    Beyond the paper, where a user writes a Winograd convolution as another computation. The stage's
    only consumer, if it is element-wise, computes the results from their tiles itself.
    """

    definitions: tuple[str, ...] = tuple(OF_CONVOLUTIONS)

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` is to be tiled and a definition pays for it."""
        if not is_tiled_first(partial, stage):
            return Verdict.SKIP
        op = partial.stage(stage).op
        return Verdict.APPLY if self._worth(op, partial.target) else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield one sketch for each definition, its new stages to be visited."""
        op, consumer = partial.stage(stage).op, fusible_consumer(partial, stage)
        for name in self._worth(op, partial.target):
            made = partial.then(Redefine(stage, name))
            last = stage
            if consumer is not None:
                made, last = made.then(ComputeInline(stage)), consumer.name
            for each in (*(new.name for new in made.state.beyond(partial.state)), last):
                made = made.with_pending(each)
            yield made.with_trace(f"{name} {stage}")

    def _worth(self, op: ComputeOp, target: Target) -> tuple[str, ...]:
        """Return the definitions that need far fewer multiplications than `op` and earlier ones."""
        chosen: list[str] = []
        least = _points(op)
        for name in self.definitions:
            products = _products(op, name, target)
            if products is not None and least >= LEAST_SAVING * products:
                chosen.append(name)
                least = products
        return tuple(chosen)


def is_redefined(sketch: Sketch) -> bool:
    """Return whether `sketch` computes a stage by another definition."""
    return bool(definitions_of(sketch))


def definitions_of(sketch: Sketch) -> tuple[tuple[str, str], ...]:
    """Return the stages that `sketch` computes by other definitions, and these.

    Widened factors are copies of them: the arithmetic is that of the definition.
    """
    redefined = (step for step in sketch.steps if isinstance(step, Redefine))
    return tuple((s.stage, s.definition) for s in redefined if s.definition != "widened")


def _products(op: ComputeOp, name: str, target: Target) -> int | None:
    """Return the multiplications of a definition; None if it does not fit, or cannot pay."""
    made = DEFINITIONS[name](op)
    if made is None or made.weight is None:
        return None
    sums = [op_of_sum for op_of_sum in made.ops if op_of_sum.reduce_axes]
    terms = min(
        (prod(axis.extent for axis in op_of_sum.reduce_axes) for op_of_sum in sums), default=0
    )
    products = sum(map(_points, sums))
    is_kept = made.weight.bytes <= target.cache_bytes[1] * target.cores
    is_reused = is_kept or products >= LEAST_REUSE * made.weight.elements
    return products if terms >= LEAST_TERMS and is_reused else None


def _points(op: ComputeOp) -> int:
    """Return how many iterations all loops of `op` have."""
    return prod(axis.extent for axis in (*op.axes, *op.reduce_axes))
