"""Schedule: a State with one method for each step, for scheduling by hand; and replay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from ansorc.lang.arguments import check_arguments, check_methods
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.extent import Tiles
from ansorc.schedule.stage import Origin, initial_stage
from ansorc.schedule.state import State, Step
from ansorc.schedule.steps import (
    BindThread,
    CacheRead,
    CacheWrite,
    ComputeAt,
    ComputeInline,
    ComputeRoot,
    DecomposeReduction,
    Fuse,
    Panel,
    Parallelize,
    Pragma,
    Redefine,
    Reorder,
    ReverseComputeAt,
    RewriteLayout,
    RFactor,
    Split,
    StorageAlign,
    StoreAt,
    Tensorize,
    Unroll,
    Vectorize,
)


@check_methods
class Schedule(State):
    """A State whose methods apply one step each and return the new Schedule.

    Every method raises ScheduleError, naming the step, the reason and the loops, where the step
    would change the meaning of the program.
    """

    def split(self, stage: str, iterator: str, lengths: Sequence[int]) -> Self:
        """Divide `iterator` into `iterator.0` … with the given inner lengths; see Split."""
        step = Split(stage, iterator, tuple(lengths))
        step.require_worthwhile(self)
        return self.then(step)

    def tile(self, stage: str, iterators: Sequence[str], lengths: Sequence[int]) -> Self:
        """Cut the space of some iterators into boxes: split each, and put the inner parts inside.

        for i: for j: body   ->   for i.0: for j.0: for i.1: for j.1: body

        `lengths` are the extents of a box. These are the steps Split and Reorder, one after
        another. Raise ScheduleError as they do, and if the numbers of both differ.
        """
        tiled, order = self, [f"{name}.{part}" for part in (0, 1) for name in iterators]
        if len(iterators) != len(lengths):
            Reorder(stage, tuple(iterators)).refuse(
                self, f"{len(iterators)} iterators and {len(lengths)} lengths; tile needs one for "
                "each"
            )  # fmt: skip
        for iterator, length in zip(iterators, lengths, strict=True):
            tiled = tiled.split(stage, iterator, [length])
        return tiled.reorder(stage, order)

    def fuse(self, stage: str, iterators: Sequence[str]) -> Self:
        """Join neighbouring iterators into one, called `a@b`; see Fuse."""
        return self.then(Fuse(stage, tuple(iterators)))

    def reorder(self, stage: str, order: Sequence[str]) -> Self:
        """Put the named iterators in the given order, outermost first; see Reorder."""
        return self.then(Reorder(stage, tuple(order)))

    def compute_at(self, stage: str, target: str, iterator: str) -> Self:
        """Compute `stage` inside a loop of `target`; see ComputeAt."""
        return self.then(ComputeAt(stage, target, iterator))

    def store_at(self, stage: str, target: str, iterator: str) -> Self:
        """Keep what iterations of the loop of `stage` made, in `iterator`; see StoreAt."""
        return self.then(StoreAt(stage, target, iterator))

    def reverse_compute_at(self, stage: str, target: str, iterator: str) -> Self:
        """Compute the reader `stage` inside a loop of its source; see ReverseComputeAt."""
        return self.then(ReverseComputeAt(stage, target, iterator))

    def compute_inline(self, stage: str) -> Self:
        """Compute `stage` where it is read; see ComputeInline."""
        return self.then(ComputeInline(stage))

    def compute_root(self, stage: str) -> Self:
        """Compute `stage` on its own; see ComputeRoot."""
        return self.then(ComputeRoot(stage))

    def cache_read(self, tensor: str, scope: str, readers: Sequence[str]) -> Self:
        """Copy `tensor` to `tensor.scope` for `readers`; see CacheRead."""
        return self.then(CacheRead(tensor, scope, tuple(readers)))

    def cache_write(self, stage: str, scope: str = "local") -> Self:
        """Compute `stage` in `stage.scope` and copy it; see CacheWrite."""
        return self.then(CacheWrite(stage, scope))

    def rfactor(self, stage: str, iterator: str, axis: int = -1) -> Self:
        """Reduce the shares of a reduction in `stage.rf` first; see RFactor."""
        return self.then(RFactor(stage, iterator, axis))

    def decompose_reduction(self, stage: str, iterator: str) -> Self:
        """Store what a reduction begins with before a loop of it; see DecomposeReduction."""
        return self.then(DecomposeReduction(stage, iterator))

    def rewrite_layout(self, stage: str, tensor: str) -> Self:
        """Keep the constant input `tensor` in the order `stage` reads it; see RewriteLayout."""
        return self.then(RewriteLayout(stage, tensor))

    def redefine(self, stage: str, definition: str) -> Self:
        """Compute `stage` by other arithmetic; see Redefine."""
        return self.then(Redefine(stage, definition))

    def storage_align(self, stage: str, axis: str, factor: int, offset: int = 0) -> Self:
        """Pad the rows of the buffer of `stage`, in elements; see StorageAlign."""
        return self.then(StorageAlign(stage, axis, factor, offset))

    def panel(self, stage: str, iterator: str) -> Self:
        """Hold the tensor of `stage` in panels as long as `iterator`; see Panel."""
        return self.then(Panel(stage, iterator))

    def parallel(
        self, stage: str, iterator: str, *, sharing: str = "static", chunk: int = 1
    ) -> Self:
        """Run a space loop in several threads; see Parallelize."""
        return self.then(Parallelize(stage, iterator, sharing, chunk))

    def vectorize(self, stage: str, iterator: str) -> Self:
        """Run a space loop in vector lanes; see Vectorize."""
        return self.then(Vectorize(stage, iterator))

    def unroll(self, stage: str, iterator: str) -> Self:
        """Replace a loop by copies of its body; see Unroll."""
        return self.then(Unroll(stage, iterator))

    def tensorize(self, stage: str, iterator: str, function: str) -> Self:
        """Let dot-product instructions or matrix units do the innermost loop; see Tensorize."""
        return self.then(Tensorize(stage, iterator, function))

    def bind(self, stage: str, iterator: str, thread: str) -> Self:
        """Give the iterations of a space loop to GPU threads or blocks; see BindThread."""
        return self.then(BindThread(stage, iterator, thread))

    def pragma(self, stage: str, name: str, value: int) -> Self:
        """Give the lowering of `stage` a number; see Pragma."""
        return self.then(Pragma(stage, name, value))


@check_arguments
def schedule(dag: ComputeDAG, tiles: Tiles | None = None) -> Schedule:
    """Return `dag` with one root stage for each op and one loop for each axis.

    `tiles` gives the tile variables that holes of later splits refer to.
    """
    outputs = {buffer.name for buffer in dag.outputs}
    stages = tuple(
        initial_stage(op, Origin(op.name), is_output=any(b.name in outputs for b in op.buffers))
        for op in dag.ops
    )
    return Schedule(dag, stages, (), {} if tiles is None else tiles)


@check_arguments
def replay(dag: ComputeDAG, steps: Iterable[Step], tiles: Tiles | None = None) -> Schedule:
    """Return `dag` after `steps`; raise ScheduleError at the first that does not fit."""
    state = schedule(dag, tiles)
    for step in steps:
        state = state.then(step)
    return state
