"""The sketch rules for GPUs, and the whole programs that their sketches make (paper, §4.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ansorc.ir.node import walk
from ansorc.schedule.steps import ComputeInline
from ansorc.search.gpu.binding import bound_rest
from ansorc.search.gpu.tiling import TilingForThreads
from ansorc.search.sketch.rule import PartialSketch, SketchRule, Verdict
from ansorc.search.sketch.rules import Skip
from ansorc.search.sketch.sketch import Choice, Sketch, UnrollLimit

UNROLL_LIMITS = (0, 16, 64, 512, 1024)
MAX_INLINED_NODES = 400
"""A stage with more expressions than these is not inlined."""


def gpu_rules() -> tuple[SketchRule, ...]:
    """Return the rules for a GPU, in the order in which they are asked."""
    return (InlineOnGpu(), TilingForThreads(), Skip())


@dataclass(frozen=True)
class InlineOnGpu:
    """Inline every stage that is no reduction and no output: memory is dearer than arithmetic.

    What pads an input is then computed as the input is copied to shared memory.
    """

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` can be computed where it is read."""
        found = partial.stage(stage)
        is_free = found.is_untouched and not found.is_output and not found.op.reduce_axes
        if not is_free or not partial.state.readers(stage):
            return Verdict.SKIP
        size = sum(1 for body in found.op.bodies for _ in walk(body))
        return Verdict.APPLY_AND_STOP if size <= MAX_INLINED_NODES else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketch with the stage inlined."""
        yield partial.then(ComputeInline(stage)).with_trace(f"inline {stage}")


def completed_on_gpu(sketch: Sketch) -> Sketch:
    """Return `sketch` with all stages bound to blocks and threads, and its choices."""
    partial = bound_rest(PartialSketch.of(sketch))
    choices: list[Choice] = [
        UnrollLimit(stage.name, UNROLL_LIMITS)
        for stage in partial.state.stages
        if not stage.is_inlined and stage.op.reduce_axes
    ]
    return replace(partial.sketch(), choices=tuple(choices))
