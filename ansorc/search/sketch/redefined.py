"""Redefined: other definitions of a stage, which compete with its own by measured time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.definitions import DEFINITIONS
from ansorc.schedule.steps import ComputeInline, Redefine
from ansorc.search.sketch.draft import Draft
from ansorc.search.sketch.predicates import fusible_consumer, is_tiled_first
from ansorc.search.sketch.rule import Verdict
from ansorc.search.sketch.sketch import Sketch

LEAST_SAVING = 1.5
"""A definition must take so many times fewer multiplications to be worth its additions."""
LEAST_TERMS = 16
"""Terms of the sums that are left, at least: what is transformed for a few is of no use."""


@dataclass(frozen=True)
class Redefined:
    """Compute a stage by each of `definitions` that takes far fewer multiplications.

    Beyond the paper, where a user writes a Winograd convolution as another computation. The stage's
    only consumer, if it is element-wise, computes the results from their tiles itself.
    """

    definitions: tuple[str, ...] = tuple(DEFINITIONS)

    def verdict(self, draft: Draft, stage: str) -> Verdict:
        """Return whether `stage` is to be tiled and a definition pays for it."""
        if not is_tiled_first(draft, stage):
            return Verdict.SKIP
        op = draft.stage(stage).op
        return Verdict.APPLY if any(_pays(op, name) for name in self.definitions) else Verdict.SKIP

    def expand(self, draft: Draft, stage: str) -> Iterator[Draft]:
        """Yield one draft for each definition, its new stages to be visited."""
        op, consumer = draft.stage(stage).op, fusible_consumer(draft, stage)
        before = {each.name for each in draft.state.stages}
        for name in self.definitions:
            if not _pays(op, name):
                continue
            made = draft.then(Redefine(stage, name))
            last = stage
            if consumer is not None:
                made, last = made.then(ComputeInline(stage)), consumer.name
            new = [each.name for each in made.state.stages if each.name not in before]
            for each in (*new, last):
                made = made.visiting(each)
            yield made.saying(f"{name} {stage}")


def is_redefined(sketch: Sketch) -> bool:
    """Return whether `sketch` computes a stage by another definition."""
    return any(isinstance(step, Redefine) for step in sketch.steps)


def _pays(op: ComputeOp, name: str) -> bool:
    """Whether the products of a definition are far fewer, and each sum has many terms."""
    made = DEFINITIONS[name](op)
    if made is None:
        return False
    sums = [own for own in made.ops if own.reduce_axes]
    products = sum(_points(own) for own in sums)
    terms = min((prod(axis.extent for axis in own.reduce_axes) for own in sums), default=0)
    return terms >= LEAST_TERMS and _points(op) >= LEAST_SAVING * products


def _points(op: ComputeOp) -> int:
    return prod(axis.extent for axis in (*op.axes, *op.reduce_axes))
